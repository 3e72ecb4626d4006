// The calls of POSIX AIO, and their errnos.
#include "engines/posix_aio/request.hpp"

#include <aio.h>
#include <errno.h>
#include <fcntl.h>

#include <new>
#include <utility>

#include "base/assert.hpp"
#include "base/tsan.hpp"
#include "engines/common/transfer.hpp"

namespace baton::engines::posix_aio {

// O_DSYNC means synchronised data integrity, as fdatasync does.
#ifndef O_DSYNC
#define O_DSYNC O_SYNC
#endif

struct RequestTable::Chunk {
  Request requests[chunk_size];
  aiocb blocks[chunk_size];
};

RequestTable::RequestTable() = default;
RequestTable::~RequestTable() = default;

bool RequestTable::grow() noexcept {
  if (chunks_count_ == chunks_.size()) return false;
  auto chunk = std::unique_ptr<Chunk>{new (std::nothrow) Chunk{}};
  if (chunk == nullptr) return false;
  for (std::uint32_t i = chunk_size; i > 0; --i) {
    chunk->requests[i - 1].block = &chunk->blocks[i - 1];
    give_back(chunk->requests[i - 1]);
  }
  chunks_[chunks_count_++] = std::move(chunk);
  return true;
}

Request* RequestTable::take() noexcept {
  if (free_ == nullptr && !grow()) return nullptr;
  Request* const taken = free_;
  free_ = taken->next;
  return taken;
}

void RequestTable::give_back(Request& request) noexcept {
  request.operation = nullptr;
  request.next = free_;
  free_ = &request;
}

// EAGAIN: the system has no room, or no thread. EBADF (fsync), EINVAL, EOVERFLOW, ENOSYS: the
// outcome.
int begin(const os::System& system, NotifyStrategy& notify, Request& request) noexcept {
  const Operation& operation = *request.operation;
  aiocb& block = *request.block;
  block = aiocb{};
  block.aio_fildes = operation.handle()->native();
  if (operation.kind() != OperationKind::sync_file) {
    iovec piece{};
    const std::size_t pieces = remaining(operation, {&piece, 1});
    BATON_ASSERT(pieces == 1);
    block.aio_buf = piece.iov_base;
    block.aio_nbytes = piece.iov_len;
    // An append goes to the end, whatever the offset.
    if (!operation.has(Operation::append)) {
      block.aio_offset = static_cast<off_t>(operation.offset() + operation.bytes());
    }
  }
  notify.prepare(block);
  BATON_TSAN_RELEASE(request.operation);
  int result = 0;
  switch (operation.kind()) {
    case OperationKind::read_file:
      result = system.aio_read(&block);
      break;
    case OperationKind::write_file:
      result = system.aio_write(&block);
      break;
    case OperationKind::sync_file:
      result = system.aio_fsync(operation.has(Operation::data_only) ? O_DSYNC : O_SYNC, &block);
      break;
    default:
      BATON_UNREACHABLE("a kind that is not supported");
  }
  if (result == 0) return 0;
  const int error = errno;
  notify.not_taken();
  return error;
}

bool is_over(const os::System& system, Request& request) noexcept {
  request.error = system.aio_error(request.block);
  if (request.error == EINPROGRESS) return false;
  BATON_TSAN_ACQUIRE(request.operation);
  // Once for each request, successful or not: it releases the system's record of it.
  const ssize_t result = system.aio_return(request.block);
  BATON_ASSERT(request.error != 0 || result >= 0);
  request.moved = request.error == 0 ? static_cast<std::size_t>(result) : 0;
  return true;
}

// AIO_CANCELED: it has ended, with ECANCELED. AIO_NOTCANCELED: it runs to its end. AIO_ALLDONE: it
// had ended. EBADF: the owner of a borrowed descriptor has closed it; the request ends by itself.
void ask_to_cancel(const os::System& system, Request& request) noexcept {
  static_cast<void>(system.aio_cancel(request.block->aio_fildes, request.block));
}

}  // namespace baton::engines::posix_aio
