// The wait and interrupt strategies: the built-in ones in order of preference, then what programs added.
#pragma once

#include <vector>

#include "baton/registry.hpp"

namespace baton::demux {

std::vector<RegistryEntry<WaitStrategyFactory>> builtin_wait_strategies();
std::vector<RegistryEntry<InterruptStrategyFactory>> builtin_interrupt_strategies();

}  // namespace baton::demux
