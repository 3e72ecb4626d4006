// World: one simulated machine - time, threads, descriptors, chance and history - and how to run a
// program in it.
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
// A scenario starts threads with system().thread_start, waits with
// system().futex_wait and joins them all before it returns. What it does must depend on nothing but
// the seed: not on addresses, the real clock, the environment; everything that it draws comes from
// World::random. It must not block in the real system, for all threads are fibers of one.
//
// A violation ends the run in the middle: the fibers are left where they are, with what they own,
// and the world makes itself anew. Time is virtual; sleeping costs nothing.
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

/// What a simulated engine says of itself; drawn by whoever opens it, see SimulatedEngine.
struct EngineTraits {
  bool start_from_any_thread = true;
  bool start_interrupts_leader = false;
  bool pinned = false;       ///< only if EngineOptions::pinned_ok
  bool bound = false;        ///< pinned for good
  bool needs_flush = false;  ///< what is submitted begins with flush or wait
  bool has_descriptor = true;
  std::uint32_t operations_max = 0;
};

struct Options {
  bool verbose = false;  ///< the whole history on standard error
  bool faults = true;    ///< false: a mild world
  /// How to run this seed again: a line for standard error if the program dies on the way.
  std::string replay = {};
  std::uint64_t points_max = 1U << 26;  ///< switches and jumps before it counts as no end
};

struct Outcome {
  std::uint64_t seed = 0;
  std::uint64_t hash = 0;  ///< of every event in order
  std::uint64_t events = 0;
  std::string violation;    ///< empty: none
  std::string last_events;  ///< with a violation
  [[nodiscard]] bool ok() const noexcept { return violation.empty(); }
  /// The seed, the violation, the last events; some lines.
  [[nodiscard]] std::string report() const;
};

class World {
 public:
  World();
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  /// Runs the scenario in a fresh machine. Not from inside a scenario.
  Outcome run(std::uint64_t seed, const Options& options,
              const std::function<void(World&)>& scenario);

  /// The world whose scenario runs in this thread; null outside.
  static World* current() noexcept;
  /// Of the run, for whom it dies in: its seed, and Options::replay.
  [[nodiscard]] std::uint64_t seed() const noexcept { return seed_; }
  [[nodiscard]] std::string_view replay() const noexcept { return replay_; }

  // -- for scenarios and engines ------------------------------------------------------------------

  /// A broken promise ends the run.
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
  EngineTraits traits;  ///< of engines opened from now on
  /// Completions that lie in simulated engines, for the look at a machine that sleeps.
  std::uint32_t undelivered = 0;
  /// What simulated engines were given, or go on with, and have not been told to hand over.
  std::uint32_t unflushed = 0;
  /// Simulated engines that have no descriptor: by their traits, or for want of one.
  std::uint32_t without_descriptor = 0;
  /// Threads inside a system call that takes its time, for the same look.
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

/// The table of system calls of the machine whose scenario runs in this thread. REQUIRES, to call
/// any of them: there is one.
const os::System& system() noexcept;

}  // namespace baton::sim
