// The factory of debug mode.
#pragma once

#include <memory>

#include "baton/engine.hpp"

namespace baton::engines {

/// Wraps `inner` in a DebugEngine (debug_engine.hpp). Null: no memory.
std::unique_ptr<Engine> open_debug(std::unique_ptr<Engine> inner, const EngineOptions& options);

}  // namespace baton::engines
