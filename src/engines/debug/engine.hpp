// The debug mode of the engines.
#pragma once

#include <memory>

#include "baton/engine.hpp"

namespace baton::engines {

/// `inner`, watched (debug_engine.hpp). Null: no memory.
std::unique_ptr<Engine> open_debug(std::unique_ptr<Engine> inner, const EngineOptions& options);

}  // namespace baton::engines
