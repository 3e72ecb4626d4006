// Wraps an engine for debug mode.
#include "engines/debug/engine.hpp"

#include <new>
#include <utility>

#include "engines/debug/debug_engine.hpp"

namespace baton::engines {

std::unique_ptr<Engine> open_debug(std::unique_ptr<Engine> inner, const EngineOptions& options) {
  try {
    return std::make_unique<debug::DebugEngine>(std::move(inner), options);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

}  // namespace baton::engines
