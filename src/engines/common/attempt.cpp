// Blocks of pooled reads, and operations that are complete without a system call.
#include "engines/common/attempt.hpp"

#include <errno.h>
#include <sys/socket.h>

#include "baton/handle.hpp"
#include "engines/common/transfer.hpp"

namespace baton::engines {

bool needs_no_transfer(Operation& operation, Attempt& attempt) noexcept {
  if (attempt.begun) return false;
  attempt.begun = true;
  return complete_without_transfer(operation);
}

bool take_block(Operation& operation, Attempt& attempt) noexcept {
  if (!operation.has(Operation::pooled)) return true;
  if (attempt.pool == nullptr) {
    attempt.pool = operation.pool();
  } else if (operation.buffer().size > 0) {
    return true;  // has one
  }
  void* const block = attempt.pool->take();
  operation.set_taken_buffer(block, block != nullptr ? attempt.pool->block_size() : 0);
  if (block != nullptr) return true;
  operation.finish(errc::pool_exhausted);
  return false;
}

bool receive_into_block(const os::System& system, Operation& operation) noexcept {
  void* const block = operation.pool()->take();
  if (BATON_UNLIKELY(block == nullptr)) return false;
  const std::size_t size = operation.pool()->block_size();
  const ssize_t moved = system.recv(operation.handle()->native(), block, size, MSG_DONTWAIT);
  if (BATON_LIKELY(moved > 0)) {
    operation.set_taken_buffer(block, size);
    operation.set_bytes(static_cast<std::size_t>(moved));
    operation.finish(0);
    return true;
  }
  const int error = errno;
  operation.pool()->give(block);
  if (moved == 0 || error == EAGAIN || error == EWOULDBLOCK || error == EINTR) return false;
  operation.set_taken_buffer(nullptr, 0);
  fail(operation, error);  // reported only once
  return true;
}

void give_block_back(Operation& operation, const Attempt& attempt) noexcept {
  if (attempt.pool == nullptr || operation.bytes() > 0) return;
  if (operation.buffer().size > 0) attempt.pool->give(operation.buffer().data);
  operation.set_taken_buffer(nullptr, 0);
}

void settle_pooled(Operation& operation, const Attempt& attempt) noexcept {
  if (!operation.has(Operation::pooled)) return;
  // No attempt was made: the buffer field still holds the pool.
  if (attempt.pool == nullptr) operation.set_taken_buffer(nullptr, 0);
  // An empty datagram is a result, but it needs no memory.
  give_block_back(operation, attempt);
}

}  // namespace baton::engines
