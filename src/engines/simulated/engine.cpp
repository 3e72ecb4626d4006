// Opens the simulated engine.
#include "engines/simulated/engine.hpp"

#include <new>

#include "engines/simulated/simulated_engine.hpp"
#include "sim/world.hpp"

namespace baton::engines {

Result<std::unique_ptr<Engine>, Failure> open_simulated(const EngineOptions& options) {
  sim::World* world = sim::World::current();
  if (world == nullptr || options.system != &sim::system()) {
    return unexpected{Failure{make_error_code(errc::engine_unavailable),
                              "it exists inside a simulation only: see `baton sim`",
                              ReasonCode::unsuitable}};
  }
  try {
    return std::unique_ptr<Engine>(std::make_unique<simulated::SimulatedEngine>(options, *world));
  } catch (const std::bad_alloc&) {
    return unexpected{Failure{std::make_error_code(std::errc::not_enough_memory),
                              "no memory for the table of handles"}};
  }
}

}  // namespace baton::engines
