// The meaning of a kernel completion for its operation.
#pragma once

#include "engines/io_uring/request.hpp"
#include "os/system.hpp"

namespace baton::engines::uring {

enum class Verdict : std::uint8_t {
  finished,   ///< the outcome is recorded in the operation
  again,      ///< continue with the rest, or retry
  poll,       ///< wait for readiness, then retry
  by_worker,  ///< retry by a kernel worker
  turn_away,  ///< no descriptor left: turn one peer away, then as back_off
  back_off    ///< retry later
};

/// `result` is the kernel's answer to the operation's present step. A finished pooled read has its
/// block, or the block is back in the pool.
Verdict judge(Operation& operation, const Message* message, int result,
              const os::System& system) noexcept;

/// False: the kernel would misinterpret it; the error is recorded.
bool is_valid(Operation& operation) noexcept;

/// Begins a pooled read: it waits for readiness or, because files are always ready, takes its block
/// at once. False: the pool is empty, and the outcome is recorded.
bool start_pooled(Operation& operation) noexcept;

/// Ends an operation that was cancelled; the bytes moved so far stay recorded.
void finish_cancelled(Operation& operation) noexcept;

/// The same for an operation whose ring is lost.
void finish_lost(Operation& operation) noexcept;

/// A direct transfer at the position of the file may leave that where it is (seen on Linux 6.18),
/// and the next one would move the same bytes. An append needs no position.
bool needs_position(Operation& operation) noexcept;

}  // namespace baton::engines::uring
