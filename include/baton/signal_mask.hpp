// SignalMask: the argument of WaitStrategy::wait and the result of InterruptStrategy::signal_mask.
// A header of its own, because only strategies that use signals need the system's type.
#pragma once

#include <csignal>

namespace baton {

struct SignalMask {
  sigset_t set;  ///< the system's set
};

}  // namespace baton
