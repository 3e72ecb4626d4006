// SignalMask: what WaitStrategy::wait is given and InterruptStrategy::signal_mask answers. A header
// of its own, for only strategies that deal with signals need the system's type.
#pragma once

#include <csignal>

namespace baton {

struct SignalMask {
  sigset_t set;  ///< the system's set
};

}  // namespace baton
