// The meaning of the kernel's completion for its operation.
#pragma once

#include "engines/io_uring/request.hpp"
#include "os/system.hpp"

namespace baton::engines::uring {

enum class Verdict : std::uint8_t {
  finished,   ///< the outcome is recorded in the operation
  again,      ///< go on with the rest, or once more
  poll,       ///< wait for readiness, then once more
  by_worker,  ///< once more, by a worker of the kernel
  turn_away,  ///< no descriptor left: tell one peer, then as back_off
  back_off    ///< once more, later
};

/// `result` is what the kernel answered to the operation's present step. A finished pooled read has
/// its block or has given it back.
Verdict judge(Operation& operation, const Message* message, int result,
              const os::System& system) noexcept;

/// False: the kernel would misunderstand it; the error is recorded.
bool is_valid(Operation& operation) noexcept;

/// A pooled read begins: waits for readiness, or (files are always ready) takes its block at once.
/// False: the pool is empty, the outcome is recorded.
bool start_pooled(Operation& operation) noexcept;

/// Records the end of an operation that was cancelled; bytes moved before stay recorded.
void finish_cancelled(Operation& operation) noexcept;

/// The same for one whose ring was taken away, and for one without memory for its request.
void finish_lost(Operation& operation) noexcept;
void finish_without_memory(Operation& operation) noexcept;

}  // namespace baton::engines::uring
