// Every engine: an interrupt ends one wait, and a child of fork leaves its parent's engine alone.
// Whether the interrupt has ended a wait is counted, on a system that does not sleep.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "../../support/child.hpp"
#include "../../support/counting_system.hpp"
#include "../../support/failing_system.hpp"
#include "../../support/patience.hpp"
#include "baton/engine.hpp"
#include "baton/registry.hpp"
#include "engines/debug/engine.hpp"

namespace baton::test {
namespace {

/// Every engine of the system with each of its parts, and those around another one.
std::vector<ProcessorConfig> every_engine() {
  std::vector<ProcessorConfig> all;
  for (const char* const interrupt : {"eventfd", "pipe", "signal"}) {
    for (const char* const wait : {"epoll", "poll", "select", "rt_signals"}) {
      all.emplace_back().engine = "emulated";
      all.back().wait = wait;
      all.back().interrupt = interrupt;
    }
  }
  for (const char* const notify : {"suspend", "sigwait", "callback"}) {
    all.emplace_back().engine = "posix_aio";
    all.back().notify = notify;
  }
  for (const char* const interrupt : {"eventfd", "ring"}) {
    all.emplace_back().engine = "io_uring";
    all.back().interrupt = interrupt;
  }
  all.emplace_back().engine = "linux_aio";
  all.emplace_back().engine = "chaos";
  all.back().inner = "emulated";
  all.emplace_back().engine = "emulated";
  all.back().debug = true;
  return all;
}

std::string name_of(const testing::TestParamInfo<ProcessorConfig>& info) {
  const ProcessorConfig& config = info.param;
  std::string name = config.debug ? "debug_" + config.engine : config.engine;
  for (const std::string& part : {config.wait, config.interrupt, config.notify}) {
    if (part != "auto") name += "_" + part;
  }
  return name;
}

class Engines : public testing::TestWithParam<ProcessorConfig> {
 protected:
  void SetUp() override {
    const ProcessorConfig& config = GetParam();
    const auto engines = registry().engines();
    const auto entry = std::find_if(engines.begin(), engines.end(),
                                    [&](const auto& one) { return one.name == config.engine; });
    ASSERT_NE(entry, engines.end());
    EngineOptions options;
    options.system = &counting_system();
    options.config = &config;
    options.handles_max = 100;
    options.one_thread_waits = true;
    before_ = held_now().descriptors;
    auto opened = entry->factory(options);
    if (!opened) {
      const bool needs_nothing = config.engine == "emulated" || config.engine == "chaos";
      ASSERT_FALSE(needs_nothing) << opened.error().reason;
      GTEST_SKIP() << opened.error().reason;
    }
    engine_ = std::move(*opened);
    if (config.debug) engine_ = engines::open_debug(std::move(engine_), options);
    look();
  }

  Engine& engine() { return *engine_; }
  void destroy() { engine_.reset(); }
  /// How many there were before it was opened.
  [[nodiscard]] std::size_t descriptors_before() const { return before_; }

  /// One wait that is to return with nothing.
  void wait(Deadline deadline) {
    OperationQueue completed;
    engine_->wait(completed, deadline);
    EXPECT_TRUE(completed.empty());
  }
  /// Opens everything that is opened late.
  void look() { wait(Deadline::immediately()); }

  /// Interrupts the engine and waits: this wait has to end, and later ones must not.
  void expect_interrupts() {
    const Sleepless sleepless;
    engine_->interrupt();
    wait(at_last());
    EXPECT_EQ(sleepless.sleeps(), 0U) << "the interrupt is lost";
    // A wait may end early: a ring that is destroyed interrupts its threads later.
    for (int i = 0; i < 100 && sleepless.sleeps() == 0; ++i) wait(at_last());
    EXPECT_GT(sleepless.sleeps(), 0U) << "the interrupt ends every wait";
  }

 private:
  std::size_t before_ = 0;
  std::unique_ptr<Engine> engine_;
};

// Twenty times: an interrupt that is lost sometimes is lost here.
TEST_P(Engines, an_interrupt_is_sticky_and_ends_one_wait) {
  for (int i = 0; i < 20 && !HasFailure(); ++i) expect_interrupts();
}

TEST_P(Engines, several_interrupts_end_one_wait) {
  for (int i = 0; i < 3; ++i) engine().interrupt();
  expect_interrupts();
}

TEST_P(Engines, of_a_parent_may_be_destroyed_in_its_child) {
  const pid_t child = start_child([&] {
    // The engine's pages are not in the child; it has something of its own at those addresses.
    std::vector<void*> pages(1'000);
    for (void*& each : pages) {
      each = ::mmap(nullptr, 4'096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    }
    engine().after_fork_in_child();
    destroy();
    unsigned char state = 0;
    for (void* const each : pages) {
      if (::mincore(each, 4'096, &state) != 0) return 2;
    }
    return held_now().descriptors == descriptors_before() ? 0 : 1;
  });
  EXPECT_EQ(status_of(child), 0);
  expect_interrupts();  // the parent's is as it was
}

// Config::high_descriptors, for a proactor inside a foreign program.
class HighDescriptors : public testing::TestWithParam<ProcessorConfig> {
 protected:
  static std::set<int> numbers() {
    std::set<int> all;
    for (const auto& each : std::filesystem::directory_iterator{"/proc/self/fd"}) {
      all.insert(std::stoi(each.path().filename().string()));
    }
    return all;
  }
};

TEST_P(HighDescriptors, leave_the_low_numbers_to_the_program) {
  const auto engines = registry().engines();
  const auto entry = std::find_if(engines.begin(), engines.end(),
                                  [](const auto& one) { return one.name == GetParam().engine; });
  ASSERT_NE(entry, engines.end());
  const std::set<int> before = numbers();
  EngineOptions options;
  options.system = Config::high_descriptors();
  options.config = &GetParam();
  options.handles_max = 100;
  options.one_thread_waits = true;
  const auto engine = entry->factory(options);
  if (!engine) GTEST_SKIP() << engine.error().reason;
  OperationQueue completed;
  (*engine)->wait(completed, Deadline::immediately());
  for (const int each : numbers()) {
    EXPECT_TRUE(before.contains(each) || each >= Config::lowest_high_descriptor()) << each;
  }
}

INSTANTIATE_TEST_SUITE_P(every, HighDescriptors, testing::ValuesIn(every_engine()), name_of);
INSTANTIATE_TEST_SUITE_P(every, Engines, testing::ValuesIn(every_engine()), name_of);

}  // namespace
}  // namespace baton::test
