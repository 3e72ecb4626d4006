// Owned pipes are non-blocking. A borrowed one may block, and keeps its mode. It is read with
// RWF_NOWAIT where the kernel can (pipes: Linux 6.5), or after a look at its readiness, and it is
// written at most PIPE_BUF bytes after such a look: that much room is what "writable" means for a
// pipe. Between look and call another process can be faster; then the call blocks, which only
// another reader of the same pipe, or writer, can bring about.
//
// SIGPIPE: RWF_NOSIGNAL (Linux 6.18); elsewhere the signal is blocked around the write in this
// thread, and what the write has raised is taken away again.
#include "engines/common/pipe_calls.hpp"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <time.h>

#include <algorithm>

#include "engines/common/file_calls.hpp"

#ifndef RWF_NOWAIT
#define RWF_NOWAIT 0x00000008
#endif
#ifndef RWF_NOSIGNAL
#define RWF_NOSIGNAL 0x00000100
#endif

namespace baton::engines {
namespace {

constexpr off_t current_position = -1;

/// An older call is to be tried: the kernel does not know this one, or a filter refuses it (EPERM).
bool is_refused(int error) noexcept {
  return FileCalls::means_never(error) || error == EINVAL || error == EPERM;
}

}  // namespace

bool ready_now(const os::System& system, NativeHandle fd, short events) noexcept {
  pollfd look{.fd = fd, .events = events, .revents = 0};
  const timespec at_once{};
  // EINTR, ENOMEM: not ready, and readiness is reported again. Errors and hang-ups count as ready.
  return system.ppoll(&look, 1, &at_once, nullptr) > 0;
}

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
  }
  if (count == 1) return system_.read(fd, pieces[0].iov_base, pieces[0].iov_len);
  return system_.readv(fd, pieces, number);
}

ssize_t PipeCalls::write(const Handle& handle, iovec* pieces, std::size_t count) noexcept {
  if (!handle.nonblocking()) {
    if (!ready_now(system_, handle.native(), POLLOUT)) {
      errno = EAGAIN;
      return -1;
    }
    std::size_t room = PIPE_BUF;
    std::size_t kept = 0;
    for (; kept < count && room > 0; ++kept) {
      pieces[kept].iov_len = std::min(pieces[kept].iov_len, room);
      room -= pieces[kept].iov_len;
    }
    count = kept;
  }
  if (no_signal_writes_.load(std::memory_order_relaxed)) {
    const ssize_t moved = system_.pwritev2(handle.native(), pieces, static_cast<int>(count),
                                           current_position, RWF_NOSIGNAL);
    if (moved >= 0 || !is_refused(errno)) return moved;
    if (errno != EINVAL) no_signal_writes_.store(false, std::memory_order_relaxed);
  }
  return write_without_signal(handle.native(), pieces, count);
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
  // One that was pending before is the program's, and is left to it. Without having been blocked
  // none can be pending.
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
