// Wraps parts of a user's program to count their waits. Tests of roles and of idleness need the
// number of waiting threads. They read it from the system-call table, which foreign parts do not
// use, so the waits of those are counted around the call.
#pragma once

#include "baton/engine.hpp"
#include "baton/wait_strategy.hpp"

namespace baton::conformance {

EngineFactory watched(EngineFactory factory);
WaitStrategyFactory watched(WaitStrategyFactory factory);

}  // namespace baton::conformance
