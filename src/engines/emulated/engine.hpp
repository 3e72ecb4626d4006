// The factory of the emulated engine.
#pragma once

#include <memory>

#include "baton/engine.hpp"
#include "baton/error.hpp"
#include "baton/result.hpp"

namespace baton::engines {

/// Opens the engine over the wait and interrupt strategies that options.config names. It works on
/// every POSIX system that has one of them; a Failure is the strategy's.
Result<std::unique_ptr<Engine>, Failure> open_emulated(const EngineOptions& options);

}  // namespace baton::engines
