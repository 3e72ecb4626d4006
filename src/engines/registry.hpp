// The built-in engines, in order of preference.
#pragma once

#include <vector>

#include "baton/registry.hpp"

namespace baton::engines {

std::vector<RegistryEntry<EngineFactory>> builtin();

}  // namespace baton::engines
