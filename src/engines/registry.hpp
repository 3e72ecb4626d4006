// The built-in engines, in order of preference.
#pragma once

#include <memory>
#include <vector>

#include "baton/registry.hpp"

namespace baton::engines {

std::vector<RegistryEntry<EngineFactory>> builtin();

/// Wraps an engine for debug mode, which watches operations and buffers. Null: no memory.
std::unique_ptr<Engine> watched(std::unique_ptr<Engine> engine, const EngineOptions& options);

}  // namespace baton::engines
