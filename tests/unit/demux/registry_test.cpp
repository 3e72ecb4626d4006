// Strategies that programs add.
#include "demux/registry.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "demux/demultiplexer.hpp"
#include "support/descriptors.hpp"

namespace baton::test {
namespace {

using demux::Demultiplexer;

template <class Entries>
std::vector<std::string> names(const Entries& entries) {
  std::vector<std::string> list;
  for (const auto& entry : entries) list.push_back(entry.name);
  return list;
}

TEST(demux_registry, order_of_preference) {
  EXPECT_EQ(names(demux::builtin_wait_strategies()).front(), "epoll");
  EXPECT_EQ(names(demux::builtin_interrupt_strategies()).front(), "eventfd");
  for (const auto& entry : demux::wait_strategies()) EXPECT_FALSE(entry.reason.empty());
  for (const auto& entry : demux::interrupt_strategies()) EXPECT_FALSE(entry.reason.empty());
}

// Additions stay, also when the tests are repeated in one process.
std::string new_name(const char* stem) {
  static int count = 0;
  return std::string(stem) + "_" + std::to_string(++count);
}

// A whole strategy by delegation: a program's wrapper of an existing one.
TEST(demux_registry, a_programs_own_wait_strategy_by_name) {
  static int opened = 0;
  opened = 0;
  const std::string name = new_name("counted_poll");
  const WaitStrategyFactory factory = [](const WaitOptions& options) {
    ++opened;
    return demux::find_wait_strategy("poll")->factory(options);
  };
  ASSERT_FALSE(demux::add_wait_strategy({name, factory, "a program's own"}));
  EXPECT_TRUE(demux::find_wait_strategy(name).has_value());
  EXPECT_EQ(names(demux::wait_strategies()).back(), name);
  auto demux = Demultiplexer::open({.wait = name, .descriptors_max = 8});
  ASSERT_TRUE(demux.has_value()) << demux.error().reason;
  EXPECT_EQ(opened, 1);

  const SocketPair pair;
  std::error_code error;
  ASSERT_FALSE((*demux)->attach(1, pair.ours.get()));
  EXPECT_EQ((*demux)->watch(1, Interest::in, error), demux::Watch::armed);
  pair.make_readable();
  std::array<Report, 2> reports;
  bool interrupted = false;
  EXPECT_EQ((*demux)->wait(reports, Deadline::never(), interrupted), 1U);
  (*demux)->detach(1);
}

TEST(demux_registry, a_programs_own_interrupt_strategy_by_name) {
  static int opened = 0;
  opened = 0;
  const std::string name = new_name("counted_pipe");
  const InterruptStrategyFactory factory = [](const InterruptOptions& options) {
    ++opened;
    return demux::find_interrupt_strategy("pipe")->factory(options);
  };
  ASSERT_FALSE(demux::add_interrupt_strategy({name, factory, "a program's own"}));
  auto demux = Demultiplexer::open({.interrupt = name, .descriptors_max = 8});
  ASSERT_TRUE(demux.has_value()) << demux.error().reason;
  EXPECT_EQ(opened, 1);
  (*demux)->interrupt();
  std::array<Report, 2> reports;
  bool interrupted = false;
  (*demux)->wait(reports, Deadline::never(), interrupted);
  EXPECT_TRUE(interrupted);
}

TEST(demux_registry, bad_names_and_taken_names) {
  const WaitStrategyFactory factory = demux::find_wait_strategy("poll")->factory;
  for (const char* name : {"", "auto", "epoll", "Poll", "my-wait", "a b", "a,b"}) {
    EXPECT_EQ(demux::add_wait_strategy({name, factory, ""}), errc::bad_configuration) << name;
  }
  EXPECT_EQ(demux::add_wait_strategy({"no_factory", {}, ""}), errc::bad_configuration);
  EXPECT_EQ(demux::add_interrupt_strategy({"no_factory", {}, ""}), errc::bad_configuration);
  EXPECT_FALSE(demux::find_wait_strategy("no_factory").has_value());
}

// A name is registered once: the first registration stays.
TEST(demux_registry, strategies_know_the_registered_descriptors) {
  const Fd fd(::dup(0));
  for (const char* const name : {"poll", "select", "rt_signals"}) {
    const auto strategy = demux::find_wait_strategy(name)->factory({});
    ASSERT_TRUE(strategy.has_value()) << name << ": " << strategy.error().reason;
    EXPECT_EQ((*strategy)->modify(fd.get(), Interest::in, Token{1, 1}),
              std::errc::no_such_file_or_directory)
        << name;
  }
}

TEST(demux_registry, from_many_threads) {
  std::atomic<int> taken{0};
  const std::string stem = new_name("many") + "_";
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int name = 0; name < 10; ++name) {
        auto factory = demux::find_wait_strategy("poll")->factory;
        if (!demux::add_wait_strategy({stem + std::to_string(name), std::move(factory), "x"})) {
          ++taken;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(taken, 10);
}

}  // namespace
}  // namespace baton::test
