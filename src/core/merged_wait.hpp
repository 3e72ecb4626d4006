// The wait of a thread that leads: in its engine, or, when it leads several processors because
// there are fewer threads than processors, in all of them at once (model rows C1, C2): by their
// descriptors where they have one, in slices where they have none.
#pragma once

#include <functional>
#include <span>

#include "baton/deadline.hpp"
#include "core/processor.hpp"
#include "os/system.hpp"

namespace baton {

/// Appends what processors[i] finished to batches[i]. Returns when something is complete, after an
/// interrupt of any of them, or at the deadline. `asked` tells whether an interrupt was meant for
/// this wait: it is set before the engine is interrupted.
void merged_wait(std::span<Processor* const> processors, std::span<OperationQueue> batches,
                 Deadline until, const std::function<bool()>& asked,
                 const os::System& system) noexcept;

}  // namespace baton
