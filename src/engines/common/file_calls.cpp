// A file is always "ready", and its reads and writes may block all the same. An operation is
// therefore tried with RWF_NOWAIT first: the thread that starts it moves what is in the page cache
// at once. A worker does the rest, and may block.
//
// A read or write of a file is complete when all bytes are moved, at the end of the file, or on an
// error. A short transfer because only a part was cached does not complete it.
//
// Some file systems cannot do this (NFS, FUSE and buffered writes of ext4 answer EOPNOTSUPP). On
// Linux 5.9 and 5.10 RWF_NOWAIT may read 0 bytes before the end of the file (preadv2(2), "Bugs"),
// so 0 bytes are the end only if the size of the file agrees.
//
// RWF_NOWAIT does not keep a transfer of a file opened with O_DIRECT from waiting for the device,
// so a worker does it from the start. The same holds for a write to a file opened with O_DSYNC,
// which some file systems (xfs) sync all the same, and for a transfer that is long although all of
// it is cached. A write beyond RLIMIT_FSIZE raises SIGXFSZ in its thread; workers block all signals
// and get EFBIG.
//
// The number of a file that the program has closed may name a pipe without readers by the time of
// the write. Workers block SIGPIPE. A write that another thread tries has an offset, which pipes
// and sockets refuse (ESPIPE), or RWF_NOSIGNAL. Kernels before Linux 6.18 refuse that flag, and a
// worker writes.
//
// A file opened with O_DIRECT may end between two of its blocks. A read that was cut short there
// cannot be continued if the file has grown since: the offset is none of the device's (EINVAL). So
// the error says that it was at the end.
#include "engines/common/file_calls.hpp"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/assert.hpp"
#include "base/uninitialized.hpp"
#include "baton/limits.hpp"
#include "engines/common/look.hpp"
#include "engines/common/pauses.hpp"
#include "engines/common/rw_flags.hpp"
#include "engines/common/transfer.hpp"

namespace baton::engines {
namespace {

constexpr off_t current_position = -1;
// How soon a worker that waits for data notices a cancel.
constexpr std::uint32_t look_ms = 50;

bool is_read(const Operation& operation) noexcept {
  return operation.kind() == OperationKind::read_file ||
         operation.kind() == OperationKind::read_stream;
}

// EAGAIN: it would block. EOPNOTSUPP, ENOSYS: this file system or kernel cannot. EPERM: a filter
// may refuse the call. After these, EINVAL and EINTR a worker tries without the flag. Everything
// else is the outcome: EBADF, ESPIPE, EISDIR, EFAULT, EIO, ENOSPC, EDQUOT, EFBIG, ENXIO.
bool needs_worker(int error) noexcept {
  return FileCalls::means_never(error) || error == EAGAIN || error == EINVAL || error == EINTR ||
         error == EPERM || error == ESPIPE;
}

}  // namespace

bool FileCalls::means_never(int error) noexcept { return error == EOPNOTSUPP || error == ENOSYS; }

bool FileCalls::growth_is_limited(const os::System& system) noexcept {
  rlimit limit{};
  return system.getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
}

bool FileCalls::lasts(const Operation& operation) noexcept {
  const Handle& handle = *operation.handle();
  return handle.direct() || (handle.syncs() && !is_read(operation)) ||
         remaining_bytes(operation) > limits::copied_in_start_max;
}

bool FileCalls::at_end(const os::System& system, const Operation& operation) noexcept {
  struct stat status{};
  return !is_ordered(operation) && system.fstat(operation.handle()->native(), &status) == 0 &&
         S_ISREG(status.st_mode) &&
         operation.offset() + operation.bytes() >= static_cast<std::uint64_t>(status.st_size);
}

// At the end of a buffer the next one may be the program's own fault; within a buffer the system
// has cut the read short.
bool FileCalls::ended_between_blocks(const os::System& system, const Operation& operation,
                                     int error) noexcept {
  if (error != EINVAL || !is_read(operation) || operation.bytes() == 0) return false;
  return goes_on_within_a_buffer(operation) || at_end(system, operation);
}

ssize_t FileCalls::call(Operation& operation, int flags) const noexcept {
  BATON_UNINITIALIZED std::array<iovec, pieces_max> pieces;
  const int count = static_cast<int>(remaining(operation, pieces));
  const NativeHandle fd = operation.handle()->native();
  // An append goes to the end whatever the offset is; the current position would be moved by it.
  off_t offset = 0;
  if (!operation.has(Operation::append)) {
    offset = is_ordered(operation) ? current_position
                                   : static_cast<off_t>(operation.offset() + operation.bytes());
  }
  if (is_read(operation)) return system_.preadv2(fd, pieces.data(), count, offset, flags);
  const bool on_worker = flags == 0;
  if (offset == current_position && !on_worker) flags |= RWF_NOSIGNAL;
  const ssize_t moved = system_.pwritev2(fd, pieces.data(), count, offset, flags);
  // Some files of /proc take no offset (seq_open clears FMODE_PWRITE). A ring does not ask.
  const bool takes_no_offset = moved < 0 && errno == ESPIPE && operation.handle()->is_file();
  if (!takes_no_offset || !on_worker) return moved;
  return system_.pwritev2(fd, pieces.data(), count, current_position, flags);
}

bool FileCalls::try_now(Operation& operation, Attempt& attempt,
                        std::atomic<bool>& no_wait_writes) const noexcept {
  constexpr int calls_max = 16;  // a longer transfer is for a worker
  if (operation.kind() == OperationKind::sync_file) return false;
  if (needs_no_transfer(operation, attempt)) return true;
  if (!offset_fits(operation)) {
    operation.finish(EINVAL);
    return true;
  }
  // relaxed: only a hint.
  if (!is_read(operation) && !no_wait_writes.load(std::memory_order_relaxed)) return false;
  if (!take_block(operation, attempt)) return true;
  if (lasts(operation) || (!is_read(operation) && growth_is_limited(system_))) return false;
  for (int i = 0; i < calls_max && offset_fits(operation); ++i) {
    const ssize_t moved = call(operation, RWF_NOWAIT);
    if (moved < 0) {
      if (means_never(errno) && !is_read(operation)) {
        no_wait_writes.store(false, std::memory_order_relaxed);
      }
      if (needs_worker(errno)) return false;
      fail_file(operation, errno);
      return true;
    }
    if (moved == 0 && is_read(operation) && !at_end(system_, operation)) return false;
    if (advance_file(operation, static_cast<std::size_t>(moved))) return true;
  }
  return false;
}

// Between two calls a running operation can still be cancelled, and keeps the bytes moved so far.
// Some regular files, such as /proc/kmsg, wait for their data; these can be polled, while all
// others are always ready. EAGAIN: such a file in non-blocking mode, or the answer of a file
// system's server.
void FileCalls::transfer(Operation& operation, Attempt& attempt) const noexcept {
  if (needs_no_transfer(operation, attempt) || !take_block(operation, attempt)) return;
  for (unsigned failures = 0;;) {
    if (operation.cancel_asked()) return operation.finish(ECANCELED);
    if (!offset_fits(operation)) return fail_file(operation, EINVAL);
    if (is_read(operation) && waits_for_data(system_, *operation.handle(), look_ms)) continue;
    const ssize_t moved = call(operation, 0);
    if (moved >= 0) {
      failures = 0;
      if (advance_file(operation, static_cast<std::size_t>(moved))) return;
    } else if (ended_between_blocks(system_, operation, errno)) {
      static_cast<void>(advance_file(operation, 0));
      return;
    } else if (errno == EAGAIN) {
      pause_for(system_, shortage_pause_ms(failures));
      failures = std::min(failures + 1, 3U);  // at most 80 ms, so that a cancel is noticed soon
    } else if (errno != EINTR) {
      return fail_file(operation, errno);
    }
  }
}

// EIO, ENOSPC, EDQUOT: reported and never retried. The kernel has dropped the pages that it could
// not write, and a second sync would falsely succeed. EINVAL, EROFS, EBADF: the outcome.
void FileCalls::sync(Operation& operation) const noexcept {
  const NativeHandle fd = operation.handle()->native();
  const auto sync = operation.has(Operation::data_only) ? system_.fdatasync : system_.fsync;
  do {
    if (operation.cancel_asked()) return operation.finish(ECANCELED);
    if (sync(fd) == 0) return operation.finish(0);
  } while (errno == EINTR);
  operation.finish(errno);
}

}  // namespace baton::engines
