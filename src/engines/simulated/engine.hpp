// The factory of the simulated engine.
#pragma once

#include <memory>

#include "baton/engine.hpp"
#include "baton/error.hpp"
#include "baton/result.hpp"

namespace baton::engines {

/// Opens the engine in the simulated machine (src/sim/world.hpp) whose scenario runs in this thread
/// and whose table options.system is; elsewhere it returns a Failure.
Result<std::unique_ptr<Engine>, Failure> open_simulated(const EngineOptions& options);

}  // namespace baton::engines
