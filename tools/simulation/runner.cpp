// Runs the seeds one after the other.
#include "simulation/runner.hpp"

#include "simulation/program.hpp"
#include "simulation/reactor_program.hpp"

namespace baton::tools::simulation {

namespace {
std::unique_ptr<Scenario> scenario_of(const ProgramOptions& options) {
  if (options.reactor) return std::make_unique<ReactorProgram>();
  return std::make_unique<Program>();
}
}  // namespace

RunResult run_seeds(const SeedRange& range, const ProgramOptions& options, bool verbose,
                    std::uint64_t violations_max, const Told& told) {
  RunResult result;
  sim::World world;
  auto program = scenario_of(options);
  for (std::uint64_t seed = range.first;; ++seed) {
    sim::Options how;
    how.verbose = verbose;
    if (told.replay) how.replay = told.replay(seed);
    how.points_max = std::uint64_t{options.operations} * 2'000 + 10'000'000;
    const sim::Outcome outcome =
        world.run(seed, how, [&](sim::World& here) { program->run(here, options); });
    ++result.seeds;
    result.history = sim::History::combine(result.history, outcome.hash);
    result.started += program->started();
    result.events += outcome.events;
    if (!outcome.ok()) {
      ++result.violations;
      if (told.violation) told.violation(seed, outcome.report());
      // Fibers that never continue refer to the old program.
      static_cast<void>(program.release());
      program = scenario_of(options);
    }
    if (told.progress) told.progress(seed, result);
    if (seed == range.last || (violations_max != 0 && result.violations >= violations_max)) break;
  }
  return result;
}

}  // namespace baton::tools::simulation
