// The simulator itself: the same seed gives the same history, threads and time behave as specified,
// and faults are detected.
#include <gtest/gtest.h>

#include <atomic>
#include <limits>
#include <vector>

#include "baton/proactor.hpp"
#include "sim/world.hpp"
#include "simulation/runner.hpp"

namespace baton {
namespace {

using sim::Outcome;
using sim::World;
using tools::simulation::EngineChoice;
using tools::simulation::ProgramOptions;
using tools::simulation::run_seeds;
using tools::simulation::RunResult;

constexpr std::int64_t for_ever = std::numeric_limits<std::int64_t>::max();

RunResult run(std::uint64_t first, std::uint64_t last, ProgramOptions options,
              std::uint32_t operations = 500) {
  options.operations = operations;
  tools::simulation::Told told;
  told.violation = [](std::uint64_t, const std::string& report) { ADD_FAILURE() << report; };
  return run_seeds({first, last}, options, false, 1, told);
}

RunResult run(std::uint64_t first, std::uint64_t last, EngineChoice engine) {
  ProgramOptions options;
  options.engine = engine;
  return run(first, last, options);
}

class SimulatedProgram : public testing::TestWithParam<EngineChoice> {};

TEST_P(SimulatedProgram, HasTheSameHistoryTwice) {
  const RunResult one = run(1, 20, GetParam());
  const RunResult two = run(1, 20, GetParam());
  EXPECT_EQ(one.history, two.history);
  EXPECT_EQ(one.events, two.events);
  EXPECT_EQ(one.started, two.started);
  // Some worlds are too poor for a proactor; most are not.
  EXPECT_GE(one.started, 20U * 500U * 3U / 4U);
}

TEST_P(SimulatedProgram, HasTheSameHistoryWhateverRanBefore) {
  const RunResult alone = run(30, 30, GetParam());
  std::uint64_t of_30 = 0;
  tools::simulation::Told told;
  ProgramOptions options;
  options.operations = 500;
  options.engine = GetParam();
  std::uint64_t before = 0;
  told.progress = [&](std::uint64_t seed, const RunResult& so_far) {
    if (seed == 29) before = so_far.history;
    if (seed == 30) of_30 = so_far.history - sim::History::combine(before, 0);
  };
  run_seeds({21, 30}, options, false, 0, told);
  EXPECT_EQ(of_30, alone.history);
}

TEST_P(SimulatedProgram, HasAHistoryThatAddsUp) {
  const RunResult whole = run(1, 12, GetParam());
  const RunResult first = run(1, 5, GetParam());
  const RunResult second = run(6, 12, GetParam());
  EXPECT_EQ(sim::History::merge(first.history, second.history, second.seeds), whole.history);
  EXPECT_NE(first.history, second.history);
}

INSTANTIATE_TEST_SUITE_P(Engines, SimulatedProgram,
                         testing::Values(EngineChoice::simulated, EngineChoice::emulated,
                                         EngineChoice::any),
                         [](const auto& chosen) {
                           switch (chosen.param) {
                             case EngineChoice::simulated:
                               return "simulated";
                             case EngineChoice::emulated:
                               return "emulated";
                             default:
                               return "any";
                           }
                         });

TEST(SimulatedReactor, HasARepeatableHistoryThatAddsUp) {
  ProgramOptions options;
  options.reactor = true;
  const RunResult whole = run(1, 40, options);
  const RunResult first = run(1, 15, options);
  const RunResult second = run(16, 40, options);
  EXPECT_EQ(sim::History::merge(first.history, second.history, second.seeds), whole.history);
  EXPECT_NE(first.history, second.history);
  EXPECT_GE(whole.started, 40U * 500U * 3U / 4U);
}

// -- the machine ----------------------------------------------------------------------------------

TEST(SimulatedMachine, SleepsInNoTime) {
  World world;
  const Outcome outcome = world.run(1, {}, [](World& here) {
    const std::int64_t begin = sim::system().monotonic_ns();
    std::atomic<std::uint32_t> word{0};
    constexpr std::int64_t hour = 3'600'000'000'000;
    while (sim::system().futex_wait(&word, 0, begin + hour)) {
    }
    here.check(sim::system().monotonic_ns() >= begin + hour, "an hour has passed");
  });
  EXPECT_TRUE(outcome.ok()) << outcome.report();
}

TEST(SimulatedMachine, FindsAThreadThatSleepsForEver) {
  World world;
  const Outcome outcome = world.run(7, {}, [](World&) {
    std::atomic<std::uint32_t> word{0};
    // It is never woken.
    while (word.load() == 0) sim::system().futex_wait(&word, 0, for_ever);
  });
  EXPECT_FALSE(outcome.ok());
  EXPECT_NE(outcome.report().find("seed 7"), std::string::npos);
  EXPECT_NE(outcome.report().find("lost"), std::string::npos);
  // The world is usable afterwards.
  EXPECT_TRUE(world.run(8, {}, [](World&) {}).ok());
}

// Two threads that add without a lock lose some: in some seeds, and in the same ones every time.
TEST(SimulatedMachine, FindsARace) {
  struct Shared {
    int sum = 0;
    static void add(void* argument) {
      auto& shared = *static_cast<Shared*>(argument);
      for (int i = 0; i < 10; ++i) {
        const int seen = shared.sum;
        sim::system().lock_point();
        shared.sum = seen + 1;
      }
    }
  };
  World world;
  std::vector<std::uint64_t> lost[2];
  for (auto& seeds : lost) {
    for (std::uint64_t seed = 1; seed <= 50; ++seed) {
      const Outcome outcome = world.run(seed, {}, [](World& here) {
        Shared shared;
        const std::uint32_t one = here.scheduler().start(Shared::add, &shared);
        const std::uint32_t two = here.scheduler().start(Shared::add, &shared);
        here.scheduler().join(one);
        here.scheduler().join(two);
        here.check(shared.sum == 20, "an addition is lost");
      });
      if (!outcome.ok()) seeds.push_back(seed);
    }
  }
  EXPECT_FALSE(lost[0].empty());
  EXPECT_EQ(lost[0], lost[1]);
}

TEST(SimulatedMachine, KeepsTheExceptionOfEachThread) {
  World world;
  const Outcome outcome = world.run(3, {}, [](World& here) {
    const auto throws = [](void*) {
      for (int i = 0; i < 20; ++i) {
        try {
          throw i;
        } catch (int caught) {
          sim::system().yield();  // another thread throws and catches meanwhile
          World::current()->check(caught == i, "the exception is this thread's");
          try {
            throw;
          } catch (int again) {
            World::current()->check(again == i, "and so is the one thrown again");
          }
        }
      }
    };
    const std::uint32_t one = here.scheduler().start(throws, nullptr);
    const std::uint32_t two = here.scheduler().start(throws, nullptr);
    here.scheduler().join(one);
    here.scheduler().join(two);
  });
  EXPECT_TRUE(outcome.ok()) << outcome.report();
}

// For all traits of the engine: waits over several engines are short then, and the judge must
// expect it.
TEST(SimulatedMachine, CountsAnEngineThatGotNoDescriptor) {
  World world;
  sim::Options options;
  options.faults = false;
  const Outcome outcome = world.run(1, options, [](World& here) {
    const os::System& system = sim::system();
    std::vector<int> taken;
    for (int fd = system.eventfd(0, 0); fd >= 0; fd = system.eventfd(0, 0)) taken.push_back(fd);
    here.check(!taken.empty(), "descriptors are taken");
    {
      Config config;
      config.system = &system;
      config.processors = {{.engine = "simulated"}};
      const Proactor proactor{config};
      here.check(here.without_descriptor == 1, "the machine had none left for the engine");
    }
    here.check(here.without_descriptor == 0, "the engine has ended");
    for (const int fd : taken) system.close(fd);
  });
  EXPECT_TRUE(outcome.ok()) << outcome.report();
}

// Seeds for which an earlier judge reported a false violation of such an engine.
TEST(SimulatedMachine, JudgesAnEngineThatGotNoDescriptorAsOneWithout) {
  ProgramOptions options;
  options.engine = EngineChoice::simulated;
  options.threads = 14;
  for (const std::uint64_t seed : {266U, 3700U, 4541U}) {
    EXPECT_EQ(run(seed, seed, options, 5'000).seeds, 1U);
  }
}

// Seeds for which the program or its judge reported a false violation: a pair was opened while
// everything was closed; a thread ended with a lane that an exception had left (twice); the close
// of an accepted connection was slow.
TEST(SimulatedMachine, DoesNotTakeItsOwnFaultsForTheLibrarys) {
  struct Case {
    std::uint64_t seed;
    std::uint32_t operations;
  };
  constexpr Case cases[] = {{88'508, 7'000}, {86'358, 500}, {107'828, 2'000}, {191'392, 1'000}};
  for (const Case& each : cases) {
    EXPECT_EQ(run(each.seed, each.seed, {}, each.operations).violations, 0U);
  }
}

TEST(SimulatedMachine, IsNotThereOutsideOfARun) {
  Config config;
  config.processors = {{.engine = "simulated"}};
  config.require = {"simulated"};
  const auto opened = Proactor::open(config);
  ASSERT_FALSE(opened);
  EXPECT_NE(opened.error().reason.find("baton sim"), std::string::npos) << opened.error().reason;
}

}  // namespace
}  // namespace baton
