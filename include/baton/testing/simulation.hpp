// Simulation: runs a scenario of your own - a server, its clients, the checks - in a simulated
// machine in which everything can go wrong, and replays it from a seed.
//
//   using baton::testing::Simulation;
//   const auto result = baton::testing::simulate({.seeds = 200}, [](Simulation& here) {
//     baton::Proactor proactor{here.config()};
//     ...                                        // sockets, files and timers as anywhere else
//     proactor.run();
//     here.check(answers == questions, "every question is answered");
//   });
//   if (!result.ok()) std::fputs(result.report.c_str(), stderr);
//
// One real thread runs everything, on virtual time: sleeping costs nothing. Network, disks and
// schedule are drawn anew for each seed - latency, bandwidth, short transfers, resets, refused and
// slow connects, full and failing disks, cancels that come too late - and the same seed always
// gives the same run. docs/guide/testing.md shows how to write a scenario;
// docs/internals/simulation.md lists what is simulated and what is not. The idea is FoundationDB's.
//
// Rules for a scenario. It uses Proactors opened with Simulation::config() only. Its behaviour
// depends on nothing but the seed: not on addresses, the real clock, files of the real system. It
// never blocks in the real system: no std::thread, std::mutex or sleep; threads come from
// start_thread. A failed check, an exception that leaves it or a lost wake-up ends the run in the
// middle: destructors of that run never execute, and what it owned is kept for the leak checker.
//
// A scenario that ends the program - a failed assert, std::terminate, a stack that overflows -
// names its seed and its thread on standard error before. For that, simulate() handles SIGABRT,
// SIGSEGV, SIGBUS, SIGFPE and SIGILL while it runs; handlers of the program's own follow.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "baton/config.hpp"
#include "baton/deadline.hpp"
#include "baton/export.hpp"

namespace baton {
namespace sim {
class World;
}

namespace testing {

/// The parts that are simulated under the proactor.
enum class SimulatedLevel : std::uint8_t {
  operations,   ///< the engine `simulated`: faults at each operation; the quickest
  system_calls  ///< the engine `emulated` over simulated system calls: EINTR, wrong readiness, ...
};

/// Which machines are simulated.
struct SimulationOptions {
  std::uint64_t first_seed = 1;  ///< the others follow it
  std::uint64_t seeds = 200;     ///< at least 1
  /// False: nothing fails, all transfers are whole; schedules still differ. For finding out whether
  /// a scenario is right at all.
  bool faults = true;
  /// Every event of the machine, on standard error.
  bool verbose = false;
  /// Ends after so many seeds that failed; 0: runs them all.
  std::uint64_t failures_max = 1;
  /// Lets the environment replace what stands here: BATON_SIM_SEED=N runs the seed N alone,
  /// BATON_SIM_SEEDS=N so many, BATON_SIM_VERBOSE=1 sets `verbose` and 0 clears it.
  bool from_environment = true;
};

/// The outcome of all seeds.
struct SimulationResult {
  std::uint64_t seeds = 0;     ///< that were run
  std::uint64_t failures = 0;  ///< of these
  /// Covers every event of every seed in order: two equal ones mean equal runs.
  std::uint64_t history = 0;
  /// For each failure: the seed, the broken promise, the last events, and how to replay it.
  std::string report;
  /// Whether no seed failed.
  [[nodiscard]] bool ok() const noexcept { return failures == 0; }
};

/// The machine of one run, for the scenario. Valid while the scenario runs; any of its threads may
/// use it.
class BATON_EXPORT Simulation {
 public:
  /// A configuration for proactors in this machine: one processor, mode `shared`. Modes, limits and
  /// further processors may be changed; `system` and `engine` have to stay.
  [[nodiscard]] Config config(SimulatedLevel level = SimulatedLevel::operations) const;

  /// Part of the seed's chance, 0 to bound - 1. REQUIRES: bound > 0.
  std::uint32_t random(std::uint32_t bound) noexcept;

  /// Runs `body` in a thread of the machine, which is joined when the scenario returns. Each
  /// thread, the scenario's own included, has a stack of 512 KiB. More than 4096 threads that are
  /// not joined end the run; so does an exception, of any type, that leaves `body`.
  void start_thread(std::function<void()> body);
  /// Waits for the threads started so far.
  void join_threads();

  /// Time passes for this thread.
  void sleep(Duration span) noexcept;

  /// A broken promise ends the run, with these words.
  void check(bool fact, std::string_view what) {
    if (!fact) fail(what);
  }
  /// Ends the run, with these words.
  [[noreturn]] void fail(std::string_view what);

  Simulation(const Simulation&) = delete;
  Simulation& operator=(const Simulation&) = delete;

 private:
  friend BATON_EXPORT SimulationResult simulate(const SimulationOptions& options,
                                                const std::function<void(Simulation&)>& scenario);
  struct Threads;
  Simulation(sim::World& world, Threads& threads) noexcept : world_(world), threads_(threads) {}

  sim::World& world_;
  Threads& threads_;
};

/// Runs the scenario once for each seed. Not from inside a scenario. Throws std::invalid_argument
/// when a value - of the options, or of the environment - makes no sense, and says what would.
BATON_EXPORT SimulationResult simulate(const SimulationOptions& options,
                                       const std::function<void(Simulation&)>& scenario);

}  // namespace testing
}  // namespace baton
