// A program that has functions of its own by the names of libc's system calls, as hooks or by
// chance. They are exported, because libc has them. Like the system's AIO, the library never calls
// them: here they do nothing, and note their names. With such a clock a wait would not end.
#include <aio.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>

namespace {

std::atomic<const char*> called{nullptr};

// By another name in C++: the headers declare the true ones.
#define OWN(name)                                                                      \
  extern "C" [[gnu::visibility("default")]] long own_##name() noexcept __asm__(#name); \
  long own_##name() noexcept {                                                         \
    called = #name;                                                                    \
    return -1;                                                                         \
  }

}  // namespace

OWN(accept4)
OWN(bind)
OWN(clock_gettime)
OWN(clone)
OWN(close)
OWN(connect)
OWN(dup2)
OWN(epoll_create1)
OWN(epoll_ctl)
OWN(eventfd)
OWN(fcntl)
OWN(fdatasync)
OWN(fstat)
OWN(fstatfs)
OWN(fsync)
OWN(getpeername)
OWN(getpgrp)
OWN(getpid)
OWN(getsockname)
OWN(getsockopt)
OWN(getuid)
OWN(ioctl)
OWN(isatty)
OWN(listen)
OWN(lseek)
OWN(nanosleep)
OWN(open)
OWN(pipe2)
OWN(poll)
OWN(ppoll)
OWN(preadv)
OWN(preadv2)
OWN(pselect)
OWN(pwritev)
OWN(pwritev2)
OWN(read)
OWN(readv)
OWN(recv)
OWN(recvmsg)
OWN(send)
OWN(sendmsg)
OWN(setsockopt)
OWN(shutdown)
OWN(signalfd)
OWN(socket)
OWN(socketpair)
OWN(tcgetattr)
OWN(unshare)
OWN(write)
OWN(writev)

namespace {

aiocb request(int fildes, void* data, std::size_t size) {
  aiocb block{};
  block.aio_fildes = fildes;
  block.aio_buf = data;
  block.aio_nbytes = size;
  block.aio_sigevent.sigev_notify = SIGEV_NONE;
  return block;
}

bool is_done(aiocb& block, ssize_t result) {
  const aiocb* const list[] = {&block};
  while (::aio_error(&block) == EINPROGRESS) ::aio_suspend(list, 1, nullptr);
  return ::aio_error(&block) == 0 && ::aio_return(&block) == result;
}

/// Both ways of a terminal, with a transfer of no bytes, and a signal.
bool terminals_work() {
  const int master = ::posix_openpt(O_RDWR | O_NOCTTY);
  if (master < 0 || ::grantpt(master) != 0 || ::unlockpt(master) != 0) return false;
  const long terminal =
      ::syscall(SYS_openat, AT_FDCWD, ::ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC, 0);
  char line[8] = "ab\n";
  aiocb in = request(static_cast<int>(terminal), line + 4, 3);
  aiocb none = request(static_cast<int>(terminal), nullptr, 0);
  aiocb out = request(master, line, 3);
  in.aio_sigevent.sigev_notify = SIGEV_SIGNAL;
  in.aio_sigevent.sigev_signo = SIGUSR1;
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGUSR1);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  if (::aio_read(&in) != 0 || ::aio_write(&none) != 0 || !is_done(none, 0)) return false;
  const aiocb* const list[] = {&in};
  const timespec short_time{0, 1'000'000};
  if (::aio_suspend(list, 1, &short_time) != -1 || errno != EAGAIN) return false;
  siginfo_t info{};
  if (::aio_write(&out) != 0 || !is_done(out, 3) || sigwaitinfo(&signals, &info) != SIGUSR1) {
    return false;
  }
  return info.si_code == SI_ASYNCIO && is_done(in, 3);
}

bool requests_work() {
  std::FILE* const file = std::tmpfile();
  int ends[2];
  int sockets[2];
  if (file == nullptr || ::pipe(ends) != 0) return false;
  if (::syscall(SYS_socketpair, 1, 1, 0, sockets) != 0) return false;
  char bytes[8'192] = {};
  aiocb write = request(::fileno(file), bytes, 4'096);
  aiocb sync = request(::fileno(file), nullptr, 0);
  if (::aio_write(&write) != 0 || !is_done(write, 4'096)) return false;
  if (::aio_fsync(O_SYNC, &sync) != 0 || !is_done(sync, 0)) return false;
  for (const int* const pair : {ends, sockets}) {
    const int from = pair[0];
    const int to = pair[1];
    aiocb first = request(from, bytes, 1);
    aiocb second = request(from, bytes + 1, 1);
    aiocb third = request(to, bytes + 2, 1);
    if (::aio_read(&first) != 0 || ::aio_read(&second) != 0) return false;
    if (::aio_cancel(from, &second) != AIO_CANCELED) return false;
    if (::aio_write(&third) != 0 || !is_done(third, 1) || !is_done(first, 1)) return false;
  }
  return true;
}

}  // namespace

int main() {
  const bool work = requests_work() && terminals_work();
  if (const char* const name = called; name != nullptr) {
    std::printf("the library calls the program's own %s\n", name);
    return 1;
  }
  if (!work) std::puts("a request fails");
  return work ? 0 : 2;
}
