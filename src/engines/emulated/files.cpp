// Files, and what else only workers can do: sync, and the blocking connect and close.
//
// A file is always "ready", and its reads and writes may block all the same. So an operation is
// first tried with RWF_NOWAIT: what is in the page cache is moved at once, by the thread that
// starts. The rest is done by a worker, which blocks.
//
// A read or write of a file is complete when all is moved, at the end of the file, or by an error:
// a part that happens to be in the cache is no result.
//
// Not every file system can (NFS, FUSE and buffered writes of ext4 answer EOPNOTSUPP), and on Linux
// 5.9 and 5.10 RWF_NOWAIT may read 0 bytes before the end of the file (preadv2(2), "Bugs"); so 0
// bytes are the end only when the size of the file says so.
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>

#include <array>
#include <cstdint>
#include <limits>

#include "base/assert.hpp"
#include "baton/endpoint.hpp"
#include "engines/common/transfer.hpp"
#include "engines/emulated/perform.hpp"
#include "engines/emulated/record.hpp"

#ifndef RWF_NOWAIT
#define RWF_NOWAIT 0x00000008
#endif

namespace baton::engines::emulated {
namespace {

constexpr off_t current_position = -1;
constexpr std::uint64_t offset_max = std::numeric_limits<off_t>::max();

bool is_read(const Operation& operation) noexcept {
  return operation.kind() == OperationKind::read_file ||
         operation.kind() == OperationKind::read_stream;
}

// -1 would mean the current position, and beyond the maximum lies the sign.
bool offset_fits(const Operation& operation) noexcept {
  return is_ordered(operation) ||
         (operation.offset() <= offset_max && operation.bytes() <= offset_max - operation.offset());
}

// Records `moved` more bytes; true when complete. Unlike a stream's, a plain file operation goes on
// until all is moved.
bool file_advance(Operation& operation, std::size_t moved) noexcept {
  const bool plain = !operation.has(Operation::exactly) && !operation.has(Operation::until);
  const bool of_file =
      operation.kind() == OperationKind::read_file || operation.kind() == OperationKind::write_file;
  if (!plain || !of_file || moved == 0) return advance(operation, moved);
  operation.add_bytes(moved);
  if (remaining_bytes(operation) > 0) return false;
  operation.finish(0);
  return true;
}

// ENOSPC, EDQUOT, EFBIG, EIO after a part: a short transfer, as POSIX has it; the next one meets
// the error. Who wants all gets the error with the bytes.
void fail_file(Operation& operation, int error) noexcept {
  const bool part_is_enough = operation.bytes() > 0 && !operation.has(Operation::exactly) &&
                              !operation.has(Operation::until);
  operation.finish(part_is_enough ? 0 : error);
}

bool means_never(int error) noexcept { return error == EOPNOTSUPP || error == ENOSYS; }

// EAGAIN: it would block. EOPNOTSUPP, ENOSYS: not by this file system or kernel. EINVAL, EINTR: a
// worker finds out, without the flag. Everything else is the outcome: EBADF, ESPIPE, EISDIR,
// EFAULT, EIO, ENOSPC, EDQUOT, EFBIG, ENXIO, EPERM.
bool needs_worker(int error) noexcept {
  return means_never(error) || error == EAGAIN || error == EINVAL || error == EINTR;
}

}  // namespace

ssize_t Performer::transfer_file(Operation& operation, int flags) noexcept {
  std::array<iovec, pieces_max> pieces;
  const int count = static_cast<int>(remaining(operation, pieces));
  const NativeHandle fd = operation.handle()->native();
  const off_t offset = is_ordered(operation)
                           ? current_position
                           : static_cast<off_t>(operation.offset() + operation.bytes());
  return is_read(operation) ? system_.preadv2(fd, pieces.data(), count, offset, flags)
                            : system_.pwritev2(fd, pieces.data(), count, offset, flags);
}

bool Performer::at_end_of_file(const Operation& operation) noexcept {
  struct stat status{};
  return !is_ordered(operation) && system_.fstat(operation.handle()->native(), &status) == 0 &&
         S_ISREG(status.st_mode) &&
         operation.offset() + operation.bytes() >= static_cast<std::uint64_t>(status.st_size);
}

bool Performer::try_file(Operation& operation, std::atomic<bool>& no_wait_writes) noexcept {
  constexpr int calls_max = 16;  // then it is work
  if (operation.kind() == OperationKind::sync_file) return false;
  if (needs_no_transfer(operation)) return true;
  if (!offset_fits(operation)) {
    operation.finish(EINVAL);
    return true;
  }
  // relaxed: a hint of the past.
  if (!is_read(operation) && !no_wait_writes.load(std::memory_order_relaxed)) return false;
  if (!take_block(operation)) return true;
  for (int i = 0; i < calls_max && offset_fits(operation); ++i) {
    const ssize_t moved = transfer_file(operation, RWF_NOWAIT);
    if (moved < 0) {
      if (means_never(errno) && !is_read(operation)) {
        no_wait_writes.store(false, std::memory_order_relaxed);
      }
      if (needs_worker(errno)) return false;
      fail_file(operation, errno);
      return true;
    }
    if (moved == 0 && is_read(operation) && !at_end_of_file(operation)) return false;
    if (file_advance(operation, static_cast<std::size_t>(moved))) return true;
  }
  return false;
}

// -- on a worker ----------------------------------------------------------------------------------

void Performer::work(Operation& operation) noexcept {
  switch (operation.kind()) {
    case OperationKind::read_file:
    case OperationKind::write_file:
    case OperationKind::read_stream:
    case OperationKind::write_stream:
      return work_file(operation);
    case OperationKind::sync_file:
      return work_sync(operation);
    case OperationKind::connect: {
      const Endpoint& peer = *operation.endpoint();
      const bool connected =
          system_.connect(operation.handle()->native(), static_cast<const sockaddr*>(peer.data()),
                          peer.size()) == 0;
      return operation.finish(connected ? 0 : errno);
    }
    case OperationKind::close:
      return operation.finish(close_now(operation.handle()->native()));
    default:
      BATON_UNREACHABLE("a kind that is no work");
  }
}

// Between two calls a running operation can still be cancelled, with the bytes moved so far.
void Performer::work_file(Operation& operation) noexcept {
  if (needs_no_transfer(operation) || !take_block(operation)) return;
  for (;;) {
    if (operation.cancel_asked()) return operation.finish(ECANCELED);
    if (!offset_fits(operation)) return fail_file(operation, EINVAL);
    const ssize_t moved = transfer_file(operation, 0);
    if (moved >= 0) {
      if (file_advance(operation, static_cast<std::size_t>(moved))) return;
    } else if (errno != EINTR) {
      return fail_file(operation, errno);
    }
  }
}

// EIO, ENOSPC, EDQUOT: reported once, and never repeated: the kernel has forgotten the pages that
// it could not write, and a second sync would falsely succeed. EINVAL, EROFS, EBADF: the outcome.
void Performer::work_sync(Operation& operation) noexcept {
  const NativeHandle fd = operation.handle()->native();
  const auto sync = operation.has(Operation::data_only) ? system_.fdatasync : system_.fsync;
  do {
    if (operation.cancel_asked()) return operation.finish(ECANCELED);
    if (sync(fd) == 0) return operation.finish(0);
  } while (errno == EINTR);
  operation.finish(errno);
}

// EINTR: the number is gone all the same (Linux); closing it again would hit somebody else's. EIO,
// ENOSPC, EDQUOT: late news of earlier writes, reported; the descriptor is closed. EBADF: not ours.
int Performer::close_now(NativeHandle fd) noexcept {
  if (system_.close(fd) == 0 || errno == EINTR) return 0;
  return errno;
}

}  // namespace baton::engines::emulated
