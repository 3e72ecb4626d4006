// Threads that may do less than the others of their program.
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>

#include <array>
#include <atomic>
#include <thread>

#include "host.hpp"

namespace {

std::atomic<int> called{0};

aiocb with_callback(int fildes, char& byte) {
  aiocb read = host::request(fildes, &byte, 1);
  read.aio_sigevent.sigev_notify = SIGEV_THREAD;
  read.aio_sigevent.sigev_notify_function = [](sigval) { ++called; };
  return read;
}

/// Callbacks of a thread that may not make others: `give_up` is its last act as one that may. The
/// read that is pending all the time keeps the threads of a library.
void expect_callbacks_after(void (*give_up)()) {
  called = 0;
  host::Pipe pipe;
  const int file = host::temporary(0, 64);
  std::array<char, 2> bytes{};
  aiocb pending = with_callback(pipe.out(), bytes[0]);
  CHECK(aio_read(&pending) == 0);
  aiocb first = with_callback(file, bytes[1]);
  CHECK(aio_read(&first) == 0 && host::finish(first) == 1);
  std::thread{[&] {
    give_up();
    for (int i = 0; i < 20; ++i) {
      aiocb read = with_callback(file, bytes[1]);
      CHECK(aio_read(&read) == 0 && host::finish(read) == 1);
    }
  }}.join();
  host::until([] { return called == 21; });
  CHECK(::write(pipe.in(), "c", 1) == 1 && host::finish(pending) == 1);
  host::until([] { return called == 22; });
}

template <int error>
void refuse_threads() {
  sock_filter filter[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
                          BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 1, 0),
                          BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 1),
                          BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
                          BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  CHECK(host::install(filter) == 0);
}

}  // namespace

HOST_CASE(threads_are_refused_to_one_thread, "filters") {
  expect_callbacks_after(refuse_threads<EPERM>);
  expect_callbacks_after(refuse_threads<ENOSYS>);
}
HOST_CASE(one_thread_makes_a_namespace_of_processes, "callbacks") {
  if (::geteuid() != 0) host::skip("may not make a namespace of processes");
  expect_callbacks_after([] {
    if (::unshare(CLONE_NEWPID) != 0) host::skip("may not make a namespace of processes");
  });
}
