// The factory of the chaos engine.
#pragma once

#include <memory>

#include "baton/engine.hpp"
#include "baton/error.hpp"
#include "baton/result.hpp"

namespace baton::engines {

/// Opens the engine that ProcessorConfig::inner names, and wraps it in a ChaosEngine. "auto" is the
/// first engine of the registry that opens.
Result<std::unique_ptr<Engine>, Failure> open_chaos(const EngineOptions& options);

}  // namespace baton::engines
