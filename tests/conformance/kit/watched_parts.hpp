// Parts of a program's own, watched. Tests of roles and of idleness have to know who waits, and see
// it in the table of system calls, which parts from outside do not call through; so their waits are
// counted around the call.
#pragma once

#include "baton/engine.hpp"
#include "baton/wait_strategy.hpp"

namespace baton::conformance {

EngineFactory watched(EngineFactory factory);
WaitStrategyFactory watched(WaitStrategyFactory factory);

}  // namespace baton::conformance
