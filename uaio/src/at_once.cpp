#include "at_once.hpp"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <optional>

#include "futex.hpp"

#ifndef RWF_NOWAIT
#define RWF_NOWAIT 0x00000008
#endif

namespace uaio {
namespace {

using Answer = AtOnce::Answer;

// By number: libc's functions are cancellation points, which aio_read and its siblings are not.
ssize_t read_cached(int fildes, const iovec* list, std::size_t count,
                    std::int64_t offset) noexcept {
  return ::syscall(SYS_preadv2, fildes, list, count, offset, 0L, RWF_NOWAIT);
}
ssize_t write_buffered(const Transfer& transfer) noexcept {
  if (is_vectored(transfer.action)) {
    return ::syscall(SYS_pwritev, transfer.fildes, transfer.data, transfer.size, transfer.offset,
                     0L);
  }
  return ::syscall(SYS_pwrite64, transfer.fildes, transfer.data, transfer.size, transfer.offset);
}

AtOnce read_file(const Transfer& transfer) noexcept {
  const iovec whole{transfer.data, transfer.size};
  const bool vectored = is_vectored(transfer.action);
  const auto* const list = vectored ? static_cast<const iovec*>(transfer.data) : &whole;
  const std::size_t count = vectored ? transfer.size : 1;
  ssize_t moved = read_cached(transfer.fildes, list, count, transfer.offset);
  if (moved < 0) {
    // No page in the cache, a file system that cannot tell, a stream, or a bad offset: leave it to
    // the engine. Likewise a call that a filter refuses (ENOSYS, EPERM): the engine has others.
    const bool ours = errno != EAGAIN && errno != EOPNOTSUPP && errno != ESPIPE &&
                      errno != EINVAL && errno != EINTR && errno != ENOSYS && errno != EPERM;
    return ours ? AtOnce{Answer::failed, errno, 0} : AtOnce{};
  }
  const auto bytes = static_cast<std::size_t>(moved);
  if (bytes == 0 || bytes == transfer.bytes) return {Answer::done, 0, bytes};
  // Short: the end of the file, or of what is cached.
  if (vectored) return {};
  const iovec rest{static_cast<char*>(transfer.data) + bytes, transfer.size - bytes};
  moved = read_cached(transfer.fildes, &rest, 1, transfer.offset + static_cast<off_t>(bytes));
  if (moved == 0) return {Answer::done, 0, bytes};
  const std::size_t in_all = bytes + (moved > 0 ? static_cast<std::size_t>(moved) : 0);
  return {in_all == transfer.bytes ? Answer::done : Answer::engine, 0, in_all};
}

AtOnce write_file(const Transfer& transfer) noexcept {
  const ssize_t moved = write_buffered(transfer);
  if (moved >= 0) return {Answer::done, 0, static_cast<std::size_t>(moved)};
  if (errno == ESPIPE || errno == EINVAL || errno == EINTR || errno == ENOSYS) return {};
  return {Answer::failed, errno, 0};
}

/// A write to a stream without readers fails without a signal.
ssize_t write_quietly(const Transfer& transfer) noexcept {
  const SignalsBlocked blocked;
  sigset_t pipe;
  sigset_t before;
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  sigpending(&before);
  const bool vectored = is_vectored(transfer.action);
  const ssize_t moved = vectored
                            ? ::syscall(SYS_writev, transfer.fildes, transfer.data, transfer.size)
                            : ::syscall(SYS_write, transfer.fildes, transfer.data, transfer.size);
  const int error = errno;
  if (moved < 0 && error == EPIPE && sigismember(&before, SIGPIPE) == 0) {
    const timespec none{0, 0};
    sigtimedwait(&pipe, nullptr, &none);
  }
  errno = error;
  return moved;
}

bool is_stream(int fildes, const struct stat& status) noexcept {
  if (S_ISREG(status.st_mode) || S_ISBLK(status.st_mode) || S_ISDIR(status.st_mode)) return false;
  return S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode) || !has_position(fildes);
}

// O_NONBLOCK on a stream: the result is that of read or write now. A background process that reads
// its terminal is stopped by SIGTTIN, unless the signal is blocked: then the read fails.
AtOnce move_stream(const Transfer& transfer, bool is_device) noexcept {
  std::optional<SignalsBlocked> blocked;
  if (is_device) blocked.emplace();
  ssize_t moved = -1;
  do {
    if (!reads(transfer.action)) {
      moved = write_quietly(transfer);
    } else if (is_vectored(transfer.action)) {
      moved = ::syscall(SYS_readv, transfer.fildes, transfer.data, transfer.size);
    } else {
      moved = ::syscall(SYS_read, transfer.fildes, transfer.data, transfer.size);
    }
  } while (moved < 0 && errno == EINTR);
  if (moved < 0) return {Answer::failed, errno, 0};
  return {Answer::done, 0, static_cast<std::size_t>(moved)};
}

}  // namespace

bool is_stream(int fildes) noexcept {
  struct stat status{};
  return ::fstat(fildes, &status) == 0 && is_stream(fildes, status);
}

bool has_position(int fildes) noexcept {
  return ::lseek(fildes, 0, SEEK_CUR) >= 0 &&
         !(::syscall(SYS_preadv, fildes, nullptr, 0L, 0L, 0L) < 0 && errno == ESPIPE);
}

std::size_t move_run(int fildes, Action action, const iovec* list, std::size_t count,
                     std::int64_t offset) noexcept {
  const ssize_t moved = reads(action) ? read_cached(fildes, list, count, offset)
                                      : ::syscall(SYS_pwritev, fildes, list, count, offset, 0L);
  return moved > 0 ? static_cast<std::size_t>(moved) : 0;
}

AtOnce try_at_once(const Transfer& transfer, const Options& options, bool ordered,
                   std::size_t patience) noexcept {
  struct stat status{};
  if ((transfer.flags & O_NONBLOCK) != 0 && ::fstat(transfer.fildes, &status) == 0 &&
      is_stream(transfer.fildes, status)) {
    return move_stream(transfer, S_ISCHR(status.st_mode));
  }
  // The kernel takes -1 for the file's own position.
  if (transfer.offset < 0 || (transfer.flags & O_DIRECT) != 0) return {};
  if (reads(transfer.action)) {
    // preadv2 of no bytes checks nothing; the read() of a directory is an error.
    const bool fits = transfer.bytes != 0 && transfer.bytes <= patience * options.inline_read;
    return fits ? read_file(transfer) : AtOnce{};
  }
  if (transfer.bytes > patience * options.inline_write ||
      (transfer.flags & (O_SYNC | O_DSYNC)) != 0) {
    return {};
  }
  if (ordered && (transfer.flags & O_APPEND) != 0) return {};
  return write_file(transfer);
}

}  // namespace uaio
