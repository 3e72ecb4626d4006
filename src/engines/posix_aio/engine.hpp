// The factory of the POSIX AIO engine.
#pragma once

#include <memory>

#include "baton/engine.hpp"
#include "baton/error.hpp"
#include "baton/result.hpp"

namespace baton::engines {

/// Opens the engine with the notify strategy that options.config names. A Failure says that the
/// system's AIO does not work, or what prevents the strategy: no free signal, a thread that the
/// signal would hit, too many engines in one process.
Result<std::unique_ptr<Engine>, Failure> open_posix_aio(const EngineOptions& options);

}  // namespace baton::engines
