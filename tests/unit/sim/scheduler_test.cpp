// Violations that the simulated machine itself finds, and the text of its history.
#include <algorithm>
#include <set>
#include <stdexcept>
#include <string>

#include "machine.hpp"

namespace baton::sim::test {
namespace {

std::string violation_of(const std::function<void(World&)>& scenario, const Options& options = {}) {
  World world;
  const Outcome outcome = world.run(1, options, scenario);
  EXPECT_FALSE(outcome.ok());
  EXPECT_TRUE(world.run(2, {}, [](World&) {}).ok()) << "the world is usable afterwards";
  EXPECT_NE(outcome.report().find(outcome.violation), std::string::npos);
  return outcome.violation;
}

TEST(SimulatedMachine, FindsAProgramThatSpins) {
  const Options few{.points_max = 1000};
  EXPECT_NE(violation_of(
                [](World&) {
                  for (;;) system().lock_point();
                },
                few)
                .find("spins"),
            std::string::npos);
}

TEST(SimulatedMachine, FindsAProgramThatIsNeverIdle) {
  const Options few{.points_max = 1000};
  EXPECT_NE(violation_of(
                [](World&) {
                  for (;;) sleep_for(system(), 1'000'000'000);
                },
                few)
                .find("no end"),
            std::string::npos);
}

TEST(SimulatedMachine, FindsAThreadThatIsLeftBehind) {
  EXPECT_NE(violation_of(
                [](World&) {
                  std::uint64_t thread = 0;
                  const auto sleeps = [](void*) { sleep_for(system(), 1'000'000'000'000); };
                  EXPECT_EQ(system().thread_start(&thread, sleeps, nullptr), 0);
                },
                {.faults = false})
                .find("a thread has not"),
            std::string::npos);
}

// The longest time for which one of two threads that always can run did not run.
std::int64_t longest_pause(std::uint32_t starve) {
  struct Two {
    Scheduler& scheduler;
    std::int64_t longest = 0;
    void run() {
      std::int64_t last = scheduler.now();
      for (int i = 0; i < 50'000; ++i) {
        scheduler.point();
        longest = std::max(longest, scheduler.now() - last);
        last = scheduler.now();
      }
    }
  };
  Random random{1};
  History history;
  Scheduler scheduler{random, history};
  Two two{scheduler};
  const Schedule schedule{.points_per_switch = 8, .point_ns = 1'000, .starve = starve};
  const auto first = [](void* all) {
    auto& both = *static_cast<Two*>(all);
    const std::uint32_t second =
        both.scheduler.start([](void* it) { static_cast<Two*>(it)->run(); }, all);
    both.run();
    both.scheduler.join(second);
  };
  EXPECT_TRUE(scheduler.run(schedule, 1'000'000, first, &two)) << scheduler.violation();
  return two.longest;
}

TEST(SimulatedMachine, KeepsAStarvedThreadFromRunning) {
  EXPECT_LT(longest_pause(0), 300'000);
  EXPECT_GT(longest_pause(2'000), 600'000);
}

TEST(SimulatedMachine, FindsAnExceptionThatLeavesTheScenario) {
  EXPECT_NE(violation_of([](World&) {
              throw std::runtime_error{"nobody catches me"};
            }).find("nobody catches me"),
            std::string::npos);
}

TEST(SimulatedMachine, CallsTheObserversBeforeTimeJumps) {
  const auto idle = [](void* context, std::int64_t until) -> const char* {
    *static_cast<std::int64_t*>(context) = until;
    return until == Scheduler::never ? "it sleeps for ever, says who looks" : nullptr;
  };
  std::int64_t last = 0;
  EXPECT_EQ(violation_of([&](World& here) {
              here.scheduler().on_idle(idle, &last);
              sleep_for(system(), 1'000'000);
              here.check(last != 0, "it was asked");
              here.scheduler().sleep(&last, Scheduler::never);
              here.scheduler().sleep(&last, Scheduler::never);  // the first may end for nothing
            }),
            "it sleeps for ever, says who looks");
  EXPECT_EQ(violation_of([&](World& here) {
              here.scheduler().on_idle(
                  [](void*, std::int64_t) -> const char* { return "not while all sleep"; },
                  nullptr);
              sleep_for(system(), 1'000'000);
            }),
            "not while all sleep");
}

TEST(SimulatedMachine, HasWordsForEveryEvent) {
  std::set<std::string> words;
  for (int event = 0; event <= static_cast<int>(Event::act); ++event) {
    words.insert(to_string(static_cast<Event>(event)));
  }
  EXPECT_EQ(words.size(), static_cast<std::size_t>(Event::act) + 1);
}

TEST(SimulatedMachine, PrintsItsHistoryIfVerbose) {
  World world;
  ::testing::internal::CaptureStderr();
  const Outcome outcome =
      world.run(1, {.verbose = true}, [](World& here) { here.note(Event::act); });
  const std::string text = ::testing::internal::GetCapturedStderr();
  EXPECT_TRUE(outcome.ok());
  EXPECT_TRUE(outcome.report().empty());
  EXPECT_NE(text.find("thread starts"), std::string::npos) << text;
}

}  // namespace
}  // namespace baton::sim::test
