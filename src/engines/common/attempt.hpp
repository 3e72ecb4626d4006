// Attempt: the state of a transfer that an engine tries by its own system calls, perhaps more than
// once: whether it has been tried, and the pool of a pooled read.
//
// Until a pooled read has its block, the operation's buffer field holds the pool. The pool is
// therefore kept here from the first try on, and an operation that ends without bytes names neither
// pool nor block.
#pragma once

#include "baton/buffer_pool.hpp"
#include "baton/operation.hpp"
#include "os/system.hpp"

namespace baton::engines {

/// Part of the engine state of an operation.
struct Attempt {
  bool begun = false;          ///< tried before; for a connect: the system has begun it
  BufferPool* pool = nullptr;  ///< of a pooled read, from the first try on
};

/// Checks, on the first call only, for zero bytes to move or a delimiter that is already there.
/// True: complete.
bool needs_no_transfer(Operation& operation, Attempt& attempt) noexcept;

/// Takes a block for a pooled read that has none. False: completed with errc::pool_exhausted.
bool take_block(Operation& operation, Attempt& attempt) noexcept;

/// For a pooled read of a stream socket that is ready and that has not been tried: receives into a
/// block without waiting. True: complete. False: nothing was done. The pool has no block, the
/// socket has no bytes, or the stream has ended.
bool receive_into_block(const os::System& system, Operation& operation) noexcept;

/// After a try that moved nothing: an operation that waits holds no block.
void give_block_back(Operation& operation, const Attempt& attempt) noexcept;

/// Ends a pooled read: an empty block returns to the pool.
void settle_pooled(Operation& operation, const Attempt& attempt) noexcept;

}  // namespace baton::engines
