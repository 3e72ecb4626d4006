// The wait of a thread that leads several processors, because there are fewer threads than
// processors (model rows C1, C2) or than lanes. It polls the engines' descriptors. An engine
// without a descriptor is waited for in slices.
#pragma once

#include <chrono>
#include <functional>
#include <span>

#include "baton/deadline.hpp"
#include "core/processor.hpp"
#include "os/system.hpp"

namespace baton {

/// The longest time that an engine without a descriptor keeps the others waiting.
inline constexpr Duration wait_slice = std::chrono::milliseconds{2};

/// Sleeps until one of the engines has something, until one of them is due, or until the deadline.
/// Returns the number of engines. Without sleeping, returns the index of an engine that must be
/// waited for by itself: it has no descriptor, or the system refuses to poll so many. REQUIRES: at
/// most limits::lanes_max engines.
[[nodiscard]] std::size_t sleep_by_descriptors(std::span<Engine* const> engines, Deadline until,
                                               const os::System& system) noexcept;

/// Appends what processors[i] finished to batches[i]. Returns when something is complete, after an
/// interrupt of any of them, or at the deadline. `asked` tells whether this wait was interrupted:
/// its mark is set before the engine is interrupted.
void merged_wait(std::span<Processor* const> processors, std::span<OperationQueue> batches,
                 Deadline until, const std::function<bool()>& asked,
                 const os::System& system) noexcept;

}  // namespace baton
