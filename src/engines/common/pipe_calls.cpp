// Owned pipes are non-blocking. A borrowed pipe may be blocking, and keeps its mode. It is read
// with RWF_NOWAIT where the kernel supports that (pipes: Linux 6.5), and written so together with
// RWF_NOSIGNAL. Named pipes and terminals do not support it. A terminal is writable as soon as one
// byte fits and may block for the others. It is readable at its first character and may wait for
// others (VMIN, VTIME). A named pipe may have other readers and writers, which act between a poll
// and the call. So each call opens it anew in non-blocking mode, after a poll. If it cannot, it
// writes PIPE_BUF bytes at most, for which a writable pipe has room, or one byte to a terminal;
// then another reader or writer can block the call. A pseudo-terminal's master cannot be opened
// anew.
//
// SIGPIPE: RWF_NOSIGNAL (Linux 6.18). On older kernels the signal is blocked in this thread around
// the write, and a SIGPIPE that the write has raised is consumed.
#include "engines/common/pipe_calls.hpp"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/sysmacros.h>
#include <time.h>

#include <algorithm>
#include <cstdio>

#include "engines/common/file_calls.hpp"
#include "engines/common/look.hpp"
#include "engines/common/rw_flags.hpp"

namespace baton::engines {
namespace {

constexpr off_t current_position = -1;

/// Try an older call: the kernel does not know this one, or a filter refuses it (EPERM).
bool is_refused(int error) noexcept {
  return FileCalls::means_never(error) || error == EINVAL || error == EPERM;
}

}  // namespace

ssize_t PipeCalls::read(const Handle& handle, iovec* pieces, std::size_t count) noexcept {
  const NativeHandle fd = handle.native();
  const int number = static_cast<int>(count);
  if (!handle.nonblocking()) {
    const ssize_t moved = system_.preadv2(fd, pieces, number, current_position, RWF_NOWAIT);
    if (moved >= 0 || !is_refused(errno)) return moved;
    if (!ready_now(system_, fd, POLLIN)) {
      errno = EAGAIN;
      return -1;
    }
    const int again = open_again(handle, O_RDONLY);
    if (again >= 0) {
      const ssize_t read = system_.readv(again, pieces, number);
      close_again(again);
      return read;
    }
  }
  if (count == 1) return system_.read(fd, pieces[0].iov_base, pieces[0].iov_len);
  return system_.readv(fd, pieces, number);
}

ssize_t PipeCalls::write(const Handle& handle, iovec* pieces, std::size_t count) noexcept {
  if (!handle.writable()) return write_without_signal(handle.native(), pieces, count);  // EBADF
  if (!handle.nonblocking()) {
    if (!handle.is_terminal()) {
      const ssize_t moved = write_with(handle, pieces, count, RWF_NOWAIT);
      if (moved >= 0 || !is_refused(errno)) return moved;
    }
    if (!ready_now(system_, handle.native(), POLLOUT)) {
      // Descriptors that take no writes (signalfd, timerfd, epoll) never report room and answer
      // EINVAL. All others accept an empty write, full or not, without reaching the file.
      iovec nothing{};
      if (system_.writev(handle.native(), &nothing, 1) == 0) errno = EAGAIN;
      return -1;
    }
    const int again = open_again(handle, O_WRONLY);
    if (again >= 0) {
      const ssize_t moved = write_without_signal(again, pieces, count);
      close_again(again);
      return moved;
    }
    std::size_t room = handle.is_terminal() ? 1 : PIPE_BUF;
    std::size_t kept = 0;
    for (; kept < count && room > 0; ++kept) {
      pieces[kept].iov_len = std::min(pieces[kept].iov_len, room);
      room -= pieces[kept].iov_len;
    }
    count = kept;
  }
  const ssize_t moved = write_with(handle, pieces, count, 0);
  if (moved >= 0 || !is_refused(errno)) return moved;
  if (errno != EINVAL) no_signal_writes_.store(false, std::memory_order_relaxed);
  return write_without_signal(handle.native(), pieces, count);
}

/// With RWF_NOSIGNAL and this flag.
ssize_t PipeCalls::write_with(const Handle& handle, const iovec* pieces, std::size_t count,
                              int flag) noexcept {
  if (!no_signal_writes_.load(std::memory_order_relaxed)) return errno = ENOSYS, -1;
  return system_.pwritev2(handle.native(), pieces, static_cast<int>(count), current_position,
                          RWF_NOSIGNAL | flag);
}

bool PipeCalls::is_master(const Handle& handle) const noexcept {
  struct stat status{};
  return system_.fstat(handle.native(), &status) != 0 || status.st_rdev == makedev(5, 2);
}

// Opening a descriptor anew makes another open file description of the same pipe or terminal, with
// a mode of its own. For a master (5, 2: /dev/ptmx) it would create a new pseudo-terminal. Without
// /proc the open fails.
int PipeCalls::open_again(const Handle& handle, int access) noexcept {
  const NativeHandle fd = handle.native();
  struct stat status{};
  if (system_.fstat(fd, &status) != 0 || status.st_rdev == makedev(5, 2)) return -1;
  if (!handle.is_terminal() && !S_ISFIFO(status.st_mode)) return -1;
  char path[40];
  static_cast<void>(std::snprintf(path, sizeof(path), "/proc/thread-self/fd/%d", fd));
  return system_.open(path, access | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0);
}

/// Leaves errno alone.
void PipeCalls::close_again(NativeHandle fd) noexcept {
  const int error = errno;
  static_cast<void>(system_.close(fd));
  errno = error;
}

ssize_t PipeCalls::write_without_signal(NativeHandle fd, const iovec* pieces,
                                        std::size_t count) noexcept {
  sigset_t pipe_signal;
  sigset_t before;
  sigset_t pending;
  sigemptyset(&pipe_signal);
  sigaddset(&pipe_signal, SIGPIPE);
  system_.thread_sigmask(SIG_BLOCK, &pipe_signal, &before);
  const bool was_blocked = sigismember(&before, SIGPIPE) == 1;
  // A signal that was pending before belongs to the program and stays pending. None can be pending
  // unless it was blocked.
  const bool was_pending =
      was_blocked && system_.sigpending(&pending) == 0 && sigismember(&pending, SIGPIPE) == 1;
  const ssize_t moved = system_.writev(fd, pieces, static_cast<int>(count));
  const int error = errno;
  if (moved < 0 && error == EPIPE && !was_pending) {
    const timespec at_once{};
    while (system_.sigtimedwait(&pipe_signal, nullptr, &at_once) < 0 && errno == EINTR) {
    }
  }
  if (!was_blocked) system_.thread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = error;
  return moved;
}

}  // namespace baton::engines
