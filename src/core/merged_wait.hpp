// The wait of a thread that leads several processors, because there are fewer threads than
// processors (model rows C1, C2) or than lanes: by their descriptors where they have one, in slices
// where they have none.
#pragma once

#include <chrono>
#include <functional>
#include <span>

#include "baton/deadline.hpp"
#include "core/processor.hpp"
#include "os/system.hpp"

namespace baton {

/// The longest that an engine without a descriptor keeps the others waiting.
inline constexpr Duration wait_slice = std::chrono::milliseconds{2};

/// Sleeps until one of the engines has something, something rests no longer, or the deadline.
/// Answers their number; or, without sleeping, the index of one that can be waited for in itself
/// only: it has no descriptor, or the system refuses to wait for so many. REQUIRES: at most
/// limits::lanes_max.
[[nodiscard]] std::size_t sleep_by_descriptors(std::span<Engine* const> engines, Deadline until,
                                               const os::System& system) noexcept;

/// Appends what processors[i] finished to batches[i]. Returns when something is complete, after an
/// interrupt of any of them, or at the deadline. `asked` tells whether an interrupt was meant for
/// this wait: it is set before the engine is interrupted.
void merged_wait(std::span<Processor* const> processors, std::span<OperationQueue> batches,
                 Deadline until, const std::function<bool()>& asked,
                 const os::System& system) noexcept;

}  // namespace baton
