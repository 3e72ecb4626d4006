// World: one simulated machine with its time, threads, descriptors, chance and history. It runs
// programs:
//
//   sim::World world;
//   for (std::uint64_t seed = 1; seed <= 100; ++seed) {
//     const sim::Outcome outcome = world.run(seed, {}, [](sim::World& here) {
//       baton::Config config;
//       config.system = &sim::system();
//       config.processors = {{.engine = "simulated"}};
//       baton::Proactor proactor{config};
//       ...                          // the scenario, in thread 1 of the simulated machine
//       here.check(sum == 42, "the sum is right");
//     });
//     if (!outcome.ok()) puts(outcome.report().c_str());
//   }
//
// A scenario starts threads with system().thread_start, waits with system().futex_wait and joins
// all threads before it returns. Its behaviour must depend on the seed alone, and not on addresses,
// the real clock or the environment. All random numbers come from World::random. It must not block
// in the real system, because all its threads are fibers of one real thread.
//
// A violation ends the run at once: the fibers stop where they are and keep what they own, and the
// world makes new objects for the next run. Time is virtual, so sleeping costs nothing.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>

#include "os/system.hpp"
#include "sim/faults.hpp"
#include "sim/history.hpp"
#include "sim/kernel.hpp"
#include "sim/random.hpp"
#include "sim/scheduler.hpp"

namespace baton::sim {

/// The facts that a simulated engine declares; see SimulatedEngine. The caller that opens it draws
/// them.
struct EngineTraits {
  bool start_from_any_thread = true;
  bool start_interrupts_leader = false;
  bool pinned = false;       ///< only if EngineOptions::pinned_ok
  bool bound = false;        ///< pinned to one thread for good
  bool needs_flush = false;  ///< submitted operations begin only with flush or wait
  bool has_descriptor = true;
  std::uint32_t operations_max = 0;
};

struct Options {
  bool verbose = false;  ///< the whole history on standard error
  bool faults = true;    ///< false: a mild world
  /// How to run this seed again: a line for standard error if the program dies in the run.
  std::string replay = {};
  std::uint64_t points_max = 1U << 26;  ///< switches and jumps before it counts as endless
};

struct Outcome {
  std::uint64_t seed = 0;
  std::uint64_t hash = 0;  ///< of every event in order
  std::uint64_t events = 0;
  std::string violation;    ///< empty: none
  std::string last_events;  ///< with a violation
  [[nodiscard]] bool ok() const noexcept { return violation.empty(); }
  /// Lines with the seed, the violation and the last events.
  [[nodiscard]] std::string report() const;
};

class World {
 public:
  World();
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  /// Runs the scenario in a fresh machine. Must not be called inside a scenario.
  Outcome run(std::uint64_t seed, const Options& options,
              const std::function<void(World&)>& scenario);

  /// The world whose scenario runs in this thread; null outside.
  static World* current() noexcept;
  /// The seed of the run and its Options::replay, for LastWords.
  [[nodiscard]] std::uint64_t seed() const noexcept { return seed_; }
  [[nodiscard]] std::string_view replay() const noexcept { return replay_; }

  // -- for scenarios and engines ------------------------------------------------------------------

  /// Ends the run with the violation `what` unless `fact` is true.
  void check(bool fact, const char* what) noexcept {
    if (!fact) [[unlikely]]
      scheduler().violated(what);
  }
  [[noreturn]] void violated(std::string what) noexcept { scheduler().violated(std::move(what)); }
  /// Calls `body`; an exception that leaves it ends the run: "an exception left " and `whose`.
  template <class Body>
  void guarded(const char* whose, const Body& body) {
    try {
      body();
    } catch (const std::exception& exception) {
      violated(std::string{"an exception left "} + whose + ": " + exception.what());
    } catch (...) {
      violated(std::string{"an exception left "} + whose + ": it is no std::exception");
    }
  }
  void note(Event event, std::int64_t a = 0, std::int64_t b = 0) noexcept {
    scheduler().note(event, a, b);
  }
  void point() noexcept { scheduler().point(); }

  [[nodiscard]] Scheduler& scheduler() noexcept { return *scheduler_; }
  [[nodiscard]] const Scheduler& scheduler() const noexcept { return *scheduler_; }
  [[nodiscard]] Kernel& kernel() noexcept { return *kernel_; }
  [[nodiscard]] const Faults& faults() const noexcept { return kernel_->faults(); }
  Random random;
  EngineTraits traits;  ///< of the engines that are opened from now on
  /// Completions that are still in simulated engines; checked when all threads sleep.
  std::uint32_t undelivered = 0;
  /// Operations that were submitted to simulated engines, or continue there, and wait for a flush.
  std::uint32_t unflushed = 0;
  /// Simulated engines without a descriptor, by their traits or for lack of one.
  std::uint32_t without_descriptor = 0;
  /// Threads inside a slow system call; checked when all threads sleep.
  std::uint32_t in_slow_calls = 0;

 private:
  void abandon();
  void make_anew();
  static void enter(void* self);

  History history_;
  std::unique_ptr<Scheduler> scheduler_;
  std::unique_ptr<Kernel> kernel_;
  const std::function<void(World&)>* scenario_ = nullptr;
  std::uint64_t seed_ = 0;
  std::string_view replay_;
};

/// The system calls of the machine whose scenario runs in this thread. REQUIRES, for a call: a
/// scenario runs.
const os::System& system() noexcept;

}  // namespace baton::sim
