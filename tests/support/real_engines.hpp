// The engines of the registry that work on the real system. The simulated engine opens only in a
// simulated machine, where tests/sim/ checks it against the same contract. chaos is another engine
// plus faults; tests that want those name it.
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
