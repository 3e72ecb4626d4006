// The Demultiplexer's second client: the same tests of a Reactor on level, edge and one-shot
// strategies.
#include <gtest/gtest.h>

#include <chrono>

#include "fake_strategies.hpp"
#include "support/descriptors.hpp"
#include "support/patience.hpp"
#include "support/sleeping_thread.hpp"
#include "test_reactor.hpp"

namespace baton::test {
namespace {

class test_reactor : public testing::TestWithParam<const char*> {
 protected:
  test_reactor() { add_fake_strategies(); }
  void SetUp() override {
    reactor_ = std::make_unique<TestReactor>(
        demux::Options{.wait = GetParam(), .one_thread_waits = true}, 8);
  }
  TestReactor& reactor() { return *reactor_; }
  /// Dispatches until something holds; the test fails when it does not.
  void until(const std::function<bool()>& condition) {
    const Deadline limit = at_last();
    while (!condition()) {
      reactor_->dispatch(limit);
      ASSERT_TRUE(is_ahead(limit));
    }
  }
  /// Dispatches ready events.
  std::size_t settle() {
    std::size_t calls = 0;
    for (int i = 0; i < 5; ++i) calls += reactor_->dispatch(Deadline::immediately());
    return calls;
  }

 private:
  std::unique_ptr<TestReactor> reactor_;
};
INSTANTIATE_TEST_SUITE_P(, test_reactor,
                         testing::Values("epoll", "poll", "select", "rt_signals", "fake_edge",
                                         "fake_one_shot"),
                         [](const auto& parameter) { return std::string(parameter.param); });

TEST_P(test_reactor, calls_the_handler_of_the_descriptor) {
  const SocketPair one;
  const SocketPair two;
  ssize_t got_one = 0;
  ssize_t got_two = 0;
  auto first =
      reactor().add(one.ours.get(), Interest::in, [&](Interest) { got_one += one.drain(); });
  auto second =
      reactor().add(two.ours.get(), Interest::in, [&](Interest) { got_two += two.drain(); });
  ASSERT_TRUE(first && second);
  settle();
  for (int i = 1; i <= 5; ++i) {
    two.make_readable();
    until([&] { return got_two == i; });
  }
  EXPECT_EQ(got_one, 0);
  EXPECT_TRUE(reactor().remove(*first));
  EXPECT_FALSE(reactor().remove(*first));
  EXPECT_TRUE(reactor().remove(*second));
}

// A handler that takes a byte at a time is called until there is none, by an edge strategy, too.
TEST_P(test_reactor, calls_again_while_something_is_left) {
  const SocketPair pair;
  int got = 0;
  ASSERT_TRUE(reactor().add(pair.ours.get(), Interest::in, [&](Interest) {
    char byte = 0;
    if (::read(pair.ours.get(), &byte, 1) == 1) ++got;
  }));
  for (int i = 0; i < 7; ++i) pair.make_readable();
  until([&] { return got == 7; });
}

TEST_P(test_reactor, a_handler_removes_itself) {
  const SocketPair pair;
  TestReactor::Registration self;
  int calls = 0;
  auto added = reactor().add(pair.ours.get(), Interest::out, [&](Interest) {
    ++calls;
    EXPECT_TRUE(reactor().remove(self));
  });
  ASSERT_TRUE(added);
  self = *added;
  until([&] { return calls == 1; });
  EXPECT_EQ(settle(), 0U);
}

// Both are ready in one round; the first handler removes the other registration and closes its
// descriptor, and a third takes its place. The other's handler must not run, and the third's only
// for its own descriptor.
TEST_P(test_reactor, a_handler_removes_another_in_the_same_round) {
  SocketPair pairs[2];
  TestReactor::Registration registrations[2];
  const SocketPair third;
  int calls[2] = {};
  int third_calls = 0;
  for (int self = 0; self < 2; ++self) {
    const int other = 1 - self;
    auto added = reactor().add(pairs[self].ours.get(), Interest::in, [&, self, other](Interest) {
      if (pairs[self].drain() == 0) return;
      ++calls[self];
      if (!reactor().remove(registrations[other])) return;
      pairs[other].ours.close();
      ASSERT_TRUE(reactor().add(third.ours.get(), Interest::in, [&](Interest) {
        if (third.drain() > 0) ++third_calls;
      }));
    });
    ASSERT_TRUE(added);
    registrations[self] = *added;
  }
  settle();
  for (const SocketPair& pair : pairs) pair.make_readable();
  until([&] { return calls[0] + calls[1] == 1; });
  settle();
  EXPECT_EQ(calls[0] + calls[1], 1);
  EXPECT_EQ(third_calls, 0);
  third.make_readable();
  until([&] { return third_calls == 1; });
}

TEST_P(test_reactor, woken_from_another_thread) {
  std::atomic<bool> entered{false};
  std::size_t calls = 1;
  WatchedThread dispatcher([&] {
    entered = true;
    calls = reactor().dispatch(Deadline::never());
  });
  dispatcher.until_asleep([&] { return entered.load(); });
  reactor().wake();
  dispatcher.join();
  EXPECT_EQ(calls, 0U);
}

TEST_P(test_reactor, added_from_another_thread) {
  const SocketPair pair;
  std::atomic<bool> entered{false};
  std::atomic<bool> called{false};
  WatchedThread dispatcher([&] {
    entered = true;
    while (!called) reactor().dispatch(Deadline::never());
  });
  dispatcher.until_asleep([&] { return entered.load(); });
  ASSERT_TRUE(reactor().add(pair.ours.get(), Interest::in, [&](Interest) {
    if (pair.drain() > 0) called = true;
  }));
  pair.make_readable();
  dispatcher.join();
  EXPECT_TRUE(called);
}

TEST_P(test_reactor, a_hang_up_reaches_the_handler) {
  SocketPair pair;
  bool ended = false;
  TestReactor::Registration self;
  auto added = reactor().add(pair.ours.get(), Interest::in, [&](Interest) {
    char byte = 0;
    if (::read(pair.ours.get(), &byte, 1) != 0) return;
    ended = true;
    reactor().remove(self);
  });
  ASSERT_TRUE(added);
  self = *added;
  pair.peer.close();
  until([&] { return ended; });
  EXPECT_EQ(settle(), 0U);
}

TEST_P(test_reactor, a_full_table_refuses) {
  const std::vector<SocketPair> pairs(9);
  for (std::size_t i = 0; i < 8; ++i) {
    ASSERT_TRUE(reactor().add(pairs[i].ours.get(), Interest::in, [](Interest) {}));
  }
  auto refused = reactor().add(pairs[8].ours.get(), Interest::in, [](Interest) {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error(), errc::no_free_handles);
}

}  // namespace
}  // namespace baton::test
