// The environment of the program: filters, limits, forks, other programs, other users; and the
// results of calls with wrong arguments.
#include <dlfcn.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <initializer_list>
#include <thread>

#include "host.hpp"

using host::Pipe;

extern char** environ;

namespace {

/// From here on these calls answer with the errno, in this thread or in all (`flags`).
void refuse(std::initializer_list<unsigned> calls, unsigned error, unsigned flags = 0) {
  std::vector<sock_filter> filter;
  filter.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)));
  for (const unsigned each : calls) {
    filter.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, each, 0, 1));
    filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error));
  }
  filter.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  CHECK(host::install(filter, flags) == 0);
}

/// From here on a wait for more than one completion of native AIO ends the process.
void refuse_to_wait_for_several() {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_pgetevents, 1, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_getevents, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[1])),
      BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, 1, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  CHECK(host::install(filter) == 0);
}

/// Everything works: cached, not cached, direct, streams, syncs, lists.
void use_all_kinds() {
  const int file = host::temporary(0, 64U << 10);
  std::vector<char> bytes(4'096);
  aiocb read = host::request(file, bytes.data(), bytes.size());
  CHECK(aio_read(&read) == 0 && host::finish(read) == 4'096 && bytes[7] == 'x');
  CHECK(::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED) == 0);
  read = host::request(file, bytes.data(), bytes.size(), 8'192);
  CHECK(aio_read(&read) == 0 && host::finish(read) == 4'096);
  aiocb write = host::request(file, bytes.data(), bytes.size());
  CHECK(aio_write(&write) == 0 && host::finish(write) == 4'096);
  const int direct = host::temporary(O_DIRECT, 64U << 10);
  aiocb past = host::request(direct, host::aligned(), 4'096);
  CHECK(aio_read(&past) == 0 && host::finish(past) == 4'096);
  CHECK(aio_write(&past) == 0 && host::finish(past) == 4'096);
  aiocb sync = host::request(direct, nullptr, 0);
  CHECK(aio_fsync(O_DSYNC, &sync) == 0 && host::finish(sync) == 0);
  Pipe pipe;
  char byte = 0;
  aiocb stream = host::request(pipe.out(), &byte, 1);
  CHECK(aio_read(&stream) == 0 && ::write(pipe.in(), "s", 1) == 1 && host::finish(stream) == 1);
  read.aio_lio_opcode = past.aio_lio_opcode = LIO_READ;
  aiocb* const list[] = {&read, &past};
  CHECK(lio_listio(LIO_WAIT, list, 2, nullptr) == 0);
  CHECK(aio_return(&read) == 4'096 && aio_return(&past) == 4'096);
}

void works_without(std::initializer_list<unsigned> calls) {
  for (const unsigned error : {unsigned{ENOSYS}, unsigned{EPERM}}) {
    CHECK(host::in_child([&] {
            refuse(calls, error);
            use_all_kinds();
          }) == 0);
  }
}

/// How many descriptors of this process are open on the file of this one.
int descriptors_of(int file) {
  struct stat its_own{};
  CHECK(::fstat(file, &its_own) == 0);
  int count = 0;
  for (const auto& each : std::filesystem::directory_iterator("/proc/self/fd")) {
    struct stat other{};
    const bool is_open = ::fstat(std::atoi(each.path().filename().c_str()), &other) == 0;
    if (is_open && other.st_ino == its_own.st_ino && other.st_dev == its_own.st_dev) ++count;
  }
  return count;
}

}  // namespace

// Before Linux 6.10 the kernel is asked in another way which numbers are duplicates.
HOST_CASE(without_the_query_of_duplicates, "filters") {
  constexpr unsigned query = 1'024 + 3;  // F_DUPFD_QUERY
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fcntl, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[1])),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, query, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  CHECK(host::install(filter) == 0);
  for (int i = 0; i < 60; ++i) CHECK(::open("/dev/null", O_RDWR) >= 0);
  for (int i = 0; i < host::rounds(); ++i) {
    Pipe pipe;
    const int numbers[] = {pipe.out(), ::dup(pipe.out())};
    std::string sent;
    char got[20];
    aiocb reads[20];
    for (int k = 0; k < 20; ++k) {
      reads[k] = host::request(numbers[k % 2], &got[k], 1);
      CHECK(aio_read(&reads[k]) == 0);
      sent += static_cast<char>('a' + k);
    }
    CHECK(::write(pipe.in(), sent.data(), sent.size()) == 20);
    for (aiocb& each : reads) CHECK(host::finish(each) == 1);
    CHECK(std::memcmp(got, sent.data(), sent.size()) == 0);
    for (const int each : {numbers[1], pipe.in(), pipe.out()}) ::close(each);
  }
}
HOST_CASE(without_preadv2, "filters") { works_without({SYS_preadv2, SYS_pwritev2}); }
HOST_CASE(without_rings, "filters") {
  works_without({SYS_io_uring_setup, SYS_io_uring_enter, SYS_io_uring_register});
}
HOST_CASE(without_native_aio, "filters") { works_without({SYS_io_setup, SYS_io_submit}); }
HOST_CASE(without_rings_and_native_aio, "filters") {
  works_without({SYS_io_uring_setup, SYS_io_setup});
}
// A wait for more completions than the program waits for would end late. Beside the first of the
// reads others are on their way.
HOST_CASE(suspend_waits_for_one_of_several, "order") {
  CHECK(host::in_child([] {
          refuse_to_wait_for_several();
          host::Load load;
          load.finish_all();
        }) == 0);
}
HOST_CASE(without_eventfd, "filters") { works_without({SYS_eventfd2}); }
HOST_CASE(without_a_table_of_its_own, "filters") { works_without({SYS_close_range, SYS_unshare}); }
// The first keeper has ended, and a second one cannot have a table: the descriptors are then the
// program's, and the library closes none of them.
HOST_CASE(its_own_table_is_refused_later, "filters") {
  for (const unsigned error : {unsigned{ENOSYS}, unsigned{EPERM}}) {
    CHECK(host::in_child([&] {
            use_all_kinds();
            host::until(host::is_alone);
            refuse({SYS_close_range, SYS_unshare}, error);
            Pipe pipe;
            for (int i = 0; i < 2; ++i) {
              char byte = 0;
              aiocb read = host::request(pipe.out(), &byte, 1);
              CHECK(aio_read(&read) == 0);
              CHECK(::write(pipe.in(), "s", 1) == 1 && host::finish(read) == 1);
            }
          }) == 0);
  }
}
HOST_CASE(without_close_range, "filters") { works_without({SYS_close_range}); }
HOST_CASE(without_sockets, "filters") { works_without({SYS_socket, SYS_socketpair}); }
HOST_CASE(without_messages, "filters") {
  works_without({SYS_sendmsg});
  works_without({SYS_recvmsg});
  works_without({SYS_accept4});
  works_without({SYS_getsockopt});
}
// libc's fstat makes one of the two, and so a filter may allow only that one.
HOST_CASE(without_a_call_for_attributes, "filters") {
  works_without({SYS_fstat});
  works_without({SYS_newfstatat});
}
// A sandbox that is entered when the library's threads are there.
HOST_CASE(rings_are_refused_to_all_threads_later, "filters") {
  for (const unsigned error : {unsigned{ENOSYS}, unsigned{EPERM}}) {
    CHECK(host::in_child([&] {
            use_all_kinds();
            refuse({SYS_io_uring_enter, SYS_io_uring_setup}, error, SECCOMP_FILTER_FLAG_TSYNC);
            use_all_kinds();
          }) == 0);
  }
}
HOST_CASE(without_new_names, "filters") {
  works_without({SYS_process_vm_readv, SYS_kcmp, SYS_pidfd_open});
}

HOST_CASE(memory_is_used_up, "limits") {
  use_all_kinds();
  rlimit limit{};
  CHECK(::getrlimit(RLIMIT_AS, &limit) == 0);
  const int file = host::temporary(O_DIRECT, 4'096);
  void* const memory = host::aligned();
  limit.rlim_cur = 1;
  CHECK(::setrlimit(RLIMIT_AS, &limit) == 0);
  aiocb read = host::request(file, memory, 4'096);
  CHECK(aio_read(&read) == 0 && host::finish(read) == 4'096);
}
HOST_CASE(locked_memory_is_not_counted, "limits") {
  const rlimit none{0, 0};
  CHECK(::setrlimit(RLIMIT_MEMLOCK, &none) == 0);
  use_all_kinds();
}

HOST_CASE(fork_storm_from_threads, "fork and exec") {
  std::vector<std::thread> threads;
  static std::atomic<bool> over{false};
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([] {
      const int file = host::temporary(O_DIRECT, 64U << 10);
      void* const memory = host::aligned();
      Pipe pipe;
      char byte = 0;
      while (!over) {
        aiocb read = host::request(file, memory, 4'096);
        aiocb stream = host::request(pipe.out(), &byte, 1);
        CHECK(aio_read(&read) == 0 && aio_read(&stream) == 0);
        CHECK(::write(pipe.in(), "f", 1) == 1);
        CHECK(host::finish(read) == 4'096 && host::finish(stream) == 1);
      }
    });
  }
  for (int i = 0; i < host::rounds(); ++i) {
    CHECK(host::in_child([i] {
            // Also children that do no I/O of their own.
            if (i % 4 != 0) return;
            Pipe pipe;
            char byte = 0;
            aiocb stream = host::request(pipe.out(), &byte, 1);
            CHECK(aio_read(&stream) == 0 && ::write(pipe.in(), "c", 1) == 1);
            CHECK(host::finish(stream) == 1);
          }) == 0);
  }
  over = true;
  for (std::thread& each : threads) each.join();
}
/// What another thread does while this one is inside fork().
std::atomic<int> amid_a_fork{0};  // 1: to begin; 2: done
void let_another_thread_work() {
  if (amid_a_fork != 0) return;
  amid_a_fork = 1;
  while (amid_a_fork != 2) std::this_thread::yield();
}
HOST_CASE(first_request_amid_a_fork, "fork and exec") {
  const auto move_a_byte = [] {
    Pipe pipe;
    char byte = 0;
    aiocb stream = host::request(pipe.out(), &byte, 1);
    CHECK(aio_read(&stream) == 0 && ::write(pipe.in(), "a", 1) == 1);
    CHECK(host::finish(stream) == 1);
  };
  CHECK(pthread_atfork(let_another_thread_work, nullptr, nullptr) == 0);
  std::thread other{[&] {
    while (amid_a_fork != 1) std::this_thread::yield();
    move_a_byte();
    amid_a_fork = 2;
  }};
  CHECK(host::in_child(move_a_byte) == 0);
  other.join();
  move_a_byte();
}
HOST_CASE(first_request_in_a_fork_handler, "fork and exec") {
  static Pipe pipe;
  static char byte;
  static aiocb pending;
  pthread_atfork(
      [] {
        pending = host::request(pipe.out(), &byte, 1);
        CHECK(aio_read(&pending) == 0);
      },
      nullptr, nullptr);
  CHECK(host::in_child([] {
          CHECK(aio_error(&pending) == ECANCELED);  // it is the parent's
          use_all_kinds();
        }) == 0);
  CHECK(::write(pipe.in(), "p", 1) == 1 && host::finish(pending) == 1);
}
HOST_CASE(request_in_the_handler_of_a_child, "fork and exec") {
  pthread_atfork(nullptr, nullptr, use_all_kinds);
  use_all_kinds();
  CHECK(host::in_child([] {}) == 0);
}
HOST_CASE(child_has_its_own_requests, "fork and exec") {
  use_all_kinds();
  Pipe pipe;
  char byte = 0;
  aiocb pending = host::request(pipe.out(), &byte, 1);
  CHECK(aio_read(&pending) == 0);
  CHECK(host::in_child([&] {
          use_all_kinds();
          CHECK(aio_error(&pending) == ECANCELED);  // it is the parent's
        }) == 0);
  CHECK(host::in_child([] { CHECK(host::in_child(use_all_kinds) == 0); }) == 0);
  CHECK(::write(pipe.in(), "p", 1) == 1 && host::finish(pending) == 1);
  use_all_kinds();
}
HOST_CASE(child_closes_nothing_of_its_own, "fork and exec") {
  Pipe pipe;
  char byte = 0;
  aiocb pending = host::request(pipe.out(), &byte, 1);
  CHECK(aio_read(&pending) == 0);
  CHECK(host::in_child([&] {
          CHECK(descriptors_of(pipe.out()) == 2);  // its two ends, and no copy of the library's
          Pipe own[40];
          use_all_kinds();
          for (Pipe& each : own) {
            char here = 0;
            CHECK(::write(each.in(), "k", 1) == 1 && ::read(each.out(), &here, 1) == 1);
          }
        }) == 0);
  CHECK(::write(pipe.in(), "p", 1) == 1 && host::finish(pending) == 1);
}
HOST_CASE(exec_with_requests_pending, "fork and exec") {
  CHECK(host::in_child([] {
          static Pipe pipe;
          static char byte;
          static aiocb pending;
          pending = host::request(pipe.out(), &byte, 1);
          CHECK(aio_read(&pending) == 0);
          host::Load load;
          ::execl("/bin/sh", "sh", "-c", "exit 5", nullptr);
        }) == 5);
}
HOST_CASE(exec_leaves_no_descriptor, "fork and exec") {
  use_all_kinds();
  CHECK(host::in_child([] {
          ::execl("/bin/sh", "sh", "-c",
                  "for f in /proc/self/fd/*; do n=${f##*/}; [ $n -lt 100 ] || exit 9; done",
                  nullptr);
        }) == 0);
}
HOST_CASE(exit_with_requests_pending, "fork and exec") {
  CHECK(host::in_child([] {
          static Pipe pipe;
          static char byte;
          static aiocb pending;
          pending = host::request(pipe.out(), &byte, 1);
          CHECK(aio_read(&pending) == 0);
          host::Load load;
          std::exit(6);
        }) == 6);
}
HOST_CASE(spawned_program_is_undisturbed, "fork and exec") {
  host::Load load;
  pid_t child = 0;
  char name[] = "true";
  char* const arguments[] = {name, nullptr};
  for (int i = 0; i < 10; ++i) {
    load.top_up();
    CHECK(::posix_spawnp(&child, "true", nullptr, nullptr, arguments, environ) == 0);
    int status = 0;
    CHECK(::waitpid(child, &status, 0) == child && status == 0);
  }
  load.finish_all();
}
HOST_CASE(another_user_while_pending, "users") {
  if (::getuid() != 0) host::skip("needs the right to change the user");
  CHECK(host::in_child([] {
          Pipe pipe;
          char byte = 0;
          aiocb pending = host::request(pipe.out(), &byte, 1);
          host::Load load;
          CHECK(aio_read(&pending) == 0);
          CHECK(::setgid(65'534) == 0 && ::setuid(65'534) == 0);
          CHECK(::setuid(0) == -1);
          CHECK(::write(pipe.in(), "u", 1) == 1 && host::finish(pending) == 1);
          load.finish_all();
        }) == 0);
}

HOST_CASE(user_without_room_for_threads, "users") {
  if (::getuid() != 0) host::skip("needs the right to change the user");
  for (const bool syncs : {true, false}) {
    CHECK(host::in_child([syncs] {
            host::end_in_time();
            const int file = host::temporary();
            constexpr std::size_t size = 4U << 20;
            aiocb block = host::request(file, host::aligned(size), size);
            const rlimit none{0, 0};
            CHECK(::setrlimit(RLIMIT_NPROC, &none) == 0);
            CHECK(::setgid(64'999) == 0 && ::setuid(64'999) == 0);
            const int answer = syncs ? aio_fsync(O_SYNC, &block) : aio_write(&block);
            CHECK(answer == 0 || errno == EAGAIN);
            if (answer == 0) CHECK(host::finish(block) >= 0 || errno == ENOMEM || errno == EAGAIN);
          }) == 0);
  }
}

HOST_CASE(bad_descriptor_is_the_requests_error, "answers") {
  char byte = 0;
  aiocb read = host::request(987'654, &byte, 1);
  CHECK(aio_read(&read) == 0);
  CHECK(host::finish(read) == -1 && errno == EBADF);
  aiocb write = host::request(::open("/dev/null", O_RDONLY), &byte, 1);
  CHECK(aio_write(&write) == 0);
  CHECK(host::finish(write) == -1 && errno == EBADF);
}
HOST_CASE(bad_place_is_the_requests_error, "answers") {
  char byte = 0;
  aiocb read = host::request(host::temporary(0, 64), &byte, 1, -5);
  CHECK(aio_read(&read) == 0);
  CHECK(host::finish(read) == -1 && errno == EINVAL);
}
// As in pread(), the place is looked at before the descriptor.
HOST_CASE(bad_place_of_a_bad_descriptor, "answers") {
  char byte = 0;
  for (const int fildes : {987'654, ::open("/dev/null", O_RDONLY), ::open("/dev/null", O_RDWR)}) {
    for (const std::size_t size : {1U, 0U}) {
      aiocb write = host::request(fildes, &byte, size, -5);
      CHECK(aio_write(&write) == 0);
      CHECK(host::finish(write) == -1 && errno == EINVAL);
    }
  }
}
HOST_CASE(bad_descriptor_is_notified, "answers") {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGRTMIN);
  CHECK(pthread_sigmask(SIG_BLOCK, &set, nullptr) == 0);
  char byte = 0;
  aiocb read = host::request(987'654, &byte, 1);
  read.aio_sigevent.sigev_notify = SIGEV_SIGNAL;
  read.aio_sigevent.sigev_signo = SIGRTMIN;
  CHECK(aio_read(&read) == 0);
  const timespec patience = host::patience();
  CHECK(::sigtimedwait(&set, nullptr, &patience) == SIGRTMIN);
}
HOST_CASE(priority_is_looked_at_first, "answers") {
  char byte = 0;
  aiocb read = host::request(987'654, &byte, 1);
  read.aio_reqprio = -1;
  CHECK(aio_read(&read) == -1 && errno == EINVAL);
}
HOST_CASE(list_with_a_bad_descriptor, "answers") {
  char byte = 0;
  const int file = host::temporary(0, 64);
  aiocb good = host::request(file, &byte, 1);
  aiocb bad = host::request(987'654, &byte, 1);
  good.aio_lio_opcode = bad.aio_lio_opcode = LIO_READ;
  aiocb* const list[] = {&good, &bad};
  CHECK(lio_listio(LIO_NOWAIT, list, 2, nullptr) == 0);
  CHECK(host::finish(good) == 1);
  CHECK(host::finish(bad) == -1 && errno == EBADF);
  CHECK(lio_listio(LIO_WAIT, list, 2, nullptr) == -1 && errno == EIO);
}
HOST_CASE(sync_of_a_bad_descriptor, "answers") {
  aiocb sync = host::request(987'654, nullptr, 0);
  CHECK(aio_fsync(77, &sync) == -1 && errno == EINVAL);
  CHECK(aio_fsync(O_SYNC, &sync) == -1 && errno == EBADF);
}
HOST_CASE(zeroed_sigevent_is_silent, "answers") {
  const int file = host::temporary(O_DIRECT, 4'096);
  for (int i = 0; i < 20; ++i) {
    aiocb read{};
    read.aio_fildes = file;
    read.aio_buf = host::aligned();
    read.aio_nbytes = 4'096;
    CHECK(aio_read(&read) == 0 && host::finish(read) == 4'096);
  }
}
namespace {

/// A thread that sees the sync complete sees the writes before it complete.
void sync_waits(int file, int synced) {
  void* const memory = host::aligned(64U << 10);
  for (int i = 0; i < 10; ++i) {
    std::vector<aiocb> writes;
    for (int k = 0; k < 16; ++k) {
      writes.push_back(host::request(file, memory, 64U << 10, k * 65'536L));
    }
    for (aiocb& each : writes) CHECK(aio_write(&each) == 0);
    aiocb sync = host::request(synced, nullptr, 0);
    CHECK(aio_fsync(O_DSYNC, &sync) == 0);
    CHECK(host::finish(sync) == 0);
    for (aiocb& each : writes) CHECK(aio_error(&each) == 0);
    for (aiocb& each : writes) CHECK(aio_return(&each) == 64 << 10);
  }
}

}  // namespace

namespace {

constexpr std::size_t cancels_at_once = 24;

constexpr std::size_t cancelled_size = 1U << 20;

void cancels_are_final(int file, int (*start)(aiocb*)) {
  constexpr std::size_t size = cancelled_size;
  static auto* const memory = static_cast<char*>(host::aligned(size * cancels_at_once));
  std::vector<aiocb> blocks;
  for (std::size_t i = 0; i < cancels_at_once; ++i) {
    blocks.push_back(host::request(file, memory + i * size, size, static_cast<off_t>(i * size)));
  }
  for (aiocb& each : blocks) CHECK(start(&each) == 0);
  std::vector<int> answers;
  for (aiocb& each : blocks) answers.push_back(aio_cancel(file, &each));
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    host::wait_for(blocks[i]);
    const bool cancelled = answers[i] == AIO_CANCELED;
    CHECK(cancelled == (aio_error(&blocks[i]) == ECANCELED));
    CHECK(aio_return(&blocks[i]) == (cancelled ? -1 : static_cast<ssize_t>(size)));
  }
}

}  // namespace

HOST_CASE(cancel_agrees_with_error, "answers") {
  Pipe pipe;
  char byte = 0;
  // The request of another descriptor goes on.
  aiocb other = host::request(pipe.out(), &byte, 1);
  CHECK(aio_read(&other) == 0);
  CHECK(aio_cancel(pipe.in(), &other) == -1 && errno == EINVAL);
  CHECK(aio_error(&other) == EINPROGRESS);
  CHECK(::write(pipe.in(), "c", 1) == 1);
  CHECK(host::finish(other) == 1);
  for (int i = 0; i < 200; ++i) {
    aiocb read = host::request(pipe.out(), &byte, 1);
    CHECK(aio_read(&read) == 0);
    std::thread writer{[&] { CHECK(::write(pipe.in(), "c", 1) == 1); }};
    const int answer = aio_cancel(pipe.out(), &read);
    const int error = aio_error(&read);
    if (answer == AIO_ALLDONE) CHECK(error == 0);
    if (answer == AIO_CANCELED) CHECK(error == ECANCELED);
    writer.join();
    if (host::finish(read) == -1) CHECK(::read(pipe.out(), &byte, 1) == 1);
  }
  // The requests in a device's queue.
  const int file = host::temporary(O_DIRECT, 4U << 20);
  void* const memory = host::aligned(4U << 20);
  host::until([&] {
    aiocb read = host::request(file, memory, 4U << 20);
    CHECK(aio_read(&read) == 0);
    const int answer = aio_cancel(file, &read);
    const int error = aio_error(&read);
    if (answer == AIO_ALLDONE) CHECK(error == 0);
    CHECK((answer == AIO_CANCELED) == (error == ECANCELED));
    host::finish(read);
    return answer != AIO_ALLDONE;
  });
  // Those in the queue of an engine.
  cancels_are_final(host::temporary(O_DSYNC), aio_write);
}
HOST_CASE(cancels_at_once_agree, "answers") {
  Pipe pipe;
  char byte = 0;
  for (int i = 0; i < 5 * host::rounds(); ++i) {
    aiocb read = host::request(pipe.out(), &byte, 1);
    CHECK(aio_read(&read) == 0);
    int answers[2] = {};
    std::thread other{[&] { answers[0] = aio_cancel(pipe.out(), &read); }};
    answers[1] = aio_cancel(pipe.out(), &read);
    other.join();
    const bool is_left = answers[0] == AIO_NOTCANCELED || answers[1] == AIO_NOTCANCELED;
    CHECK(is_left == (aio_error(&read) == EINPROGRESS));
    if (is_left) CHECK(::write(pipe.in(), "c", 1) == 1 && host::finish(read) == 1);
  }
}
// A file in memory has no device; neither has one of a network, or one that a process serves.
HOST_CASE(cancel_of_a_file_in_memory_is_final, "answers") {
  const int file = ::memfd_create("uaio-host", MFD_CLOEXEC);
  CHECK(file >= 0 && ::ftruncate(file, cancels_at_once * cancelled_size) == 0);
  for (int i = 0; i < 4; ++i) {
    cancels_are_final(file, aio_write);
    cancels_are_final(file, aio_read);
  }
}
HOST_CASE(sync_waits_for_direct_writes, "order") {
  const int file = host::temporary(O_DIRECT, 8U << 20);
  sync_waits(file, file);
}
// The file decides, however often it is open.
HOST_CASE(sync_waits_for_other_open_files, "order") {
  const int file = host::temporary(O_DSYNC, 8U << 20);
  const int other = ::open(("/proc/self/fd/" + std::to_string(file)).c_str(), O_RDWR);
  CHECK(other >= 0);
  sync_waits(file, other);
}
HOST_CASE(library_is_not_closed_under_requests, "fork and exec") {
  // A plug-in that the program loads and unloads while requests are in flight.
  host::Load load;
  for (int i = 0; i < 20; ++i) {
    void* const library = ::dlopen("libm.so.6", RTLD_NOW | RTLD_LOCAL);
    CHECK(library != nullptr);
    load.top_up();
    CHECK(::dlclose(library) == 0);
  }
  load.finish_all();
}
