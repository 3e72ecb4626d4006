// Attempt: what an engine remembers of a transfer that it tries by its own system calls, perhaps
// more than once: whether the operation was looked at, and where the block of a pooled read is
// from.
//
// What surprises: until a pooled read has its block, the operation's place for the buffer holds the
// pool. So the pool is kept here from the first try on, and an operation that comes out without
// bytes names neither.
#pragma once

#include "baton/buffer_pool.hpp"
#include "baton/operation.hpp"

namespace baton::engines {

/// Part of the engine state of an operation.
struct Attempt {
  bool begun = false;          ///< looked at; of a connect: the system has it
  BufferPool* pool = nullptr;  ///< of a pooled read, from the first try on
};

/// Zero bytes to move, or the delimiter already there: looked at once. True: complete.
bool needs_no_transfer(Operation& operation, Attempt& attempt) noexcept;

/// For a pooled read: takes its block, if it has none. False: completed with errc::pool_exhausted.
bool take_block(Operation& operation, Attempt& attempt) noexcept;

/// Nothing came: an operation that waits has no block.
void give_block_back(Operation& operation, const Attempt& attempt) noexcept;

/// Ends a pooled read: a block that holds nothing goes back.
void settle_pooled(Operation& operation, const Attempt& attempt) noexcept;

}  // namespace baton::engines
