// The engines of the registry that work on the real system. The simulated one opens in a simulated
// machine only, where tests/sim/ judges it by the same contract, and chaos is another one with
// troubles, which tests that look for those name.
#pragma once

#include <vector>

#include "baton/registry.hpp"

namespace baton::test {

inline auto real_engines() {
  auto engines = registry().engines();
  std::erase_if(engines, [](const auto& engine) {
    return engine.name == "simulated" || engine.only_by_name;
  });
  return engines;
}

}  // namespace baton::test
