// The registry: names, order, and a program's own parts in a configuration (P-04).
#include "baton/registry.hpp"

#include <algorithm>
#include <atomic>
#include <thread>

#include "baton/engine.hpp"
#include "engines/registry.hpp"
#include "support.hpp"

namespace baton {
namespace {

WaitStrategyFactory no_wait() {
  return [](const WaitOptions&) -> Result<std::unique_ptr<WaitStrategy>, Failure> {
    return unexpected{Failure{errc::engine_unavailable, "only a name"}};
  };
}
InterruptStrategyFactory no_interrupt() {
  return [](const InterruptOptions&) -> Result<std::unique_ptr<InterruptStrategy>, Failure> {
    return unexpected{Failure{errc::engine_unavailable, "only a name"}};
  };
}
EngineFactory no_engine() {
  return [](const EngineOptions&) -> Result<std::unique_ptr<Engine>, Failure> {
    return unexpected{Failure{errc::engine_unavailable, "only a name"}};
  };
}

template <class Entries>
std::ptrdiff_t position(const Entries& entries, std::string_view name) {
  const auto found = std::find_if(entries.begin(), entries.end(),
                                  [name](const auto& entry) { return entry.name == name; });
  return found == entries.end() ? -1 : found - entries.begin();
}

TEST(Registry, KnowsTheBuiltInPartsWithTheirReasons) {
  for (const char* name : {"emulated", "io_uring", "linux_aio", "posix_aio"}) {
    EXPECT_GE(position(registry().engines(), name), 0) << name;
  }
  for (const char* name : {"epoll", "poll", "select", "rt_signals"}) {
    EXPECT_GE(position(registry().wait_strategies(), name), 0) << name;
  }
  for (const char* name : {"eventfd", "pipe", "signal"}) {
    EXPECT_GE(position(registry().interrupt_strategies(), name), 0) << name;
  }
  for (const auto& entry : registry().engines()) EXPECT_FALSE(entry.reason.empty()) << entry.name;
  for (const auto& entry : registry().wait_strategies()) {
    EXPECT_FALSE(entry.reason.empty()) << entry.name;
    EXPECT_TRUE(entry.factory != nullptr) << entry.name;
  }
}

TEST(Registry, OnlyTheEmulatedEngineWaitsByAStrategy) {
  for (const auto& entry : registry().engines()) {
    EXPECT_EQ(entry.waits_by_strategy, entry.name == "emulated") << entry.name;
  }
}

// The list's facts, without an open engine, equal the facts that the open engine declares.
TEST(Registry, FilesOnlyIsDeclaredByTheEngine) {
  const ProcessorConfig config;
  EngineOptions options;
  options.config = &config;
  options.explain = [](std::string_view) {};
  for (const auto& entry : engines::builtin()) {
    const auto opened = entry.factory(options);
    if (!opened) continue;
    const auto& support = (*opened)->info().support;
    const auto of = [&](OperationKind kind) { return support[static_cast<std::size_t>(kind)]; };
    EXPECT_EQ(of(OperationKind::read_stream) == Support::unsupported, entry.files_only)
        << entry.name;
    EXPECT_NE(of(OperationKind::read_file), Support::unsupported) << entry.name;
  }
}

TEST(Registry, AddedPartsAreLastAndMayBeNamed) {
  ASSERT_FALSE(registry().add("my_wait", no_wait(), "for this test"));
  ASSERT_FALSE(registry().add("my_interrupt", no_interrupt(), "for this test"));
  ASSERT_FALSE(registry().add("my_engine2", no_engine(), "for this test"));
  const auto waits = registry().wait_strategies();
  EXPECT_GT(position(waits, "my_wait"), position(waits, "select"));
  EXPECT_EQ(waits[static_cast<std::size_t>(position(waits, "my_wait"))].reason, "for this test");
  EXPECT_GT(position(registry().engines(), "my_engine2"),
            position(registry().engines(), "emulated"));

  const Config config = parse_ok("engine=my_engine2,wait=my_wait,interrupt=my_interrupt");
  EXPECT_TRUE(config.validate().has_value());
  expect_words(reason_of(Config::parse("wait=my_wai", {})), {"my_wait"});
}

TEST(Registry, RefusesNamesThatAreTakenOrMalformed) {
  ASSERT_FALSE(registry().add("taken", no_wait(), "first"));
  EXPECT_EQ(registry().add("taken", no_wait(), "second"), errc::bad_configuration);
  EXPECT_EQ(registry().add("epoll", no_wait(), "built in"), errc::bad_configuration);
  EXPECT_EQ(registry().add("emulated", no_engine(), "built in"), errc::bad_configuration);
  for (const char* name : {"", "auto", "Upper", "with space", "a-b", "a,b", "ä"}) {
    EXPECT_EQ(registry().add(name, no_wait(), ""), errc::bad_configuration) << name;
    EXPECT_EQ(registry().add(name, no_engine(), ""), errc::bad_configuration) << name;
    EXPECT_EQ(registry().add(name, no_interrupt(), ""), errc::bad_configuration) << name;
  }
  EXPECT_EQ(registry().add("no_factory", WaitStrategyFactory{}, ""), errc::bad_configuration);
  // One name may be an engine and a strategy: they are never asked for in the same place.
  EXPECT_FALSE(registry().add("taken", no_interrupt(), ""));
}

TEST(Registry, OfManyThreadsOneWins) {
  std::atomic<int> accepted{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&accepted] {
      if (!registry().add("contended", no_interrupt(), "race")) ++accepted;
      (void)registry().interrupt_strategies();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(accepted, 1);
}

}  // namespace
}  // namespace baton
