// A thin layer over src/sim for the scenarios of users.
#include "baton/testing/simulation.hpp"

#include <charconv>
#include <cstdlib>
#include <deque>
#include <limits>
#include <stdexcept>
#include <utility>
#include <vector>

#include "sim/world.hpp"

namespace baton::testing {

struct Simulation::Threads {
  struct Body {
    sim::World& world;
    std::function<void()> run;
  };
  std::deque<Body> bodies;             // owned here; the threads use them
  std::vector<std::uint32_t> running;  // not joined yet
};

namespace {

std::uint64_t number_in(const char* variable, const char* text, std::uint64_t least) {
  std::uint64_t number = 0;
  const std::string_view all{text};
  const auto [end, error] = std::from_chars(all.data(), all.data() + all.size(), number);
  if (error != std::errc{} || end != all.data() + all.size() || number < least) {
    constexpr std::size_t shown_max = 60;
    std::string reason = std::string{variable} + " is '" + std::string{all.substr(0, shown_max)};
    reason += all.size() > shown_max ? "...'" : "'";
    reason += ": it takes a number from " + std::to_string(least) + " to " +
              std::to_string(std::numeric_limits<std::uint64_t>::max());
    throw std::invalid_argument(reason);
  }
  return number;
}

SimulationOptions with_environment(SimulationOptions options) {
  if (!options.from_environment) return options;
  if (const char* const text = std::getenv("BATON_SIM_SEEDS"); text != nullptr) {
    options.seeds = number_in("BATON_SIM_SEEDS", text, 1);
  }
  if (const char* const text = std::getenv("BATON_SIM_SEED"); text != nullptr) {
    options.first_seed = number_in("BATON_SIM_SEED", text, 0);
    options.seeds = 1;
  }
  if (const char* const text = std::getenv("BATON_SIM_VERBOSE"); text != nullptr) {
    options.verbose = number_in("BATON_SIM_VERBOSE", text, 0) != 0;
  }
  return options;
}

}  // namespace

Config Simulation::config(SimulatedLevel level) const {
  Config config;
  config.system = &sim::system();
  ProcessorConfig processor;
  processor.engine = level == SimulatedLevel::operations ? "simulated" : "emulated";
  if (level == SimulatedLevel::system_calls) {
    processor.wait = "epoll";
    processor.interrupt = "eventfd";
  }
  processor.mode = Mode::shared;
  config.processors.push_back(std::move(processor));
  return config;
}

std::uint32_t Simulation::random(std::uint32_t bound) noexcept {
  return world_.random.below(bound);
}

void Simulation::start_thread(std::function<void()> body) {
  const auto enter = [](void* argument) {
    auto& self = *static_cast<Threads::Body*>(argument);
    self.world.guarded("a thread", self.run);
  };
  threads_.bodies.push_back(Threads::Body{world_, std::move(body)});
  Threads::Body& kept = threads_.bodies.back();
  const std::uint32_t number = world_.scheduler().start(enter, &kept);
  if (number == 0) {
    world_.violated("start_thread: no memory for another thread, or more than " +
                    std::to_string(sim::Scheduler::threads_max) +
                    " of them: join those that have ended");
  }
  threads_.running.push_back(number);
}

void Simulation::join_threads() {
  for (const std::uint32_t number : std::exchange(threads_.running, {})) {
    world_.scheduler().join(number);
  }
}

void Simulation::sleep(Duration span) noexcept { world_.scheduler().work(span.count()); }

void Simulation::fail(std::string_view what) { world_.violated(std::string{what}); }

SimulationResult simulate(const SimulationOptions& given,
                          const std::function<void(Simulation&)>& scenario) {
  const SimulationOptions options = with_environment(given);
  if (options.seeds == 0) throw std::invalid_argument("SimulationOptions::seeds is 0: at least 1");
  SimulationResult result;
  sim::World world;
  sim::Options how;
  how.verbose = options.verbose;
  how.faults = options.faults;
  for (std::uint64_t i = 0; i < options.seeds; ++i) {
    const std::uint64_t seed = options.first_seed + i;
    const std::string replay = "replay: BATON_SIM_SEED=" + std::to_string(seed) +
                               " and the same program (BATON_SIM_VERBOSE=1 shows every event)\n";
    how.replay = replay;
    // If the run ends in the middle, this object is leaked, like everything that the threads own.
    auto threads = std::make_unique<Simulation::Threads>();
    const sim::Outcome outcome = world.run(seed, how, [&](sim::World& here) {
      Simulation simulation{here, *threads};
      scenario(simulation);
      simulation.join_threads();
    });
    ++result.seeds;
    result.history = sim::History::combine(result.history, outcome.hash);
    if (outcome.ok()) continue;
    static auto* const kept = new std::vector<std::unique_ptr<Simulation::Threads>>;
    kept->push_back(std::move(threads));
    ++result.failures;
    result.report += outcome.report() + replay;
    if (options.failures_max != 0 && result.failures >= options.failures_max) break;
  }
  return result;
}

}  // namespace baton::testing
