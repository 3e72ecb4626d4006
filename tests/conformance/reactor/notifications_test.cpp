// Notifications are bounded, counted, ordered and purgeable; and the wake-up without one.
#include <memory>

#include <stdexcept>
#include "baton/error.hpp"

#include "harness.hpp"

namespace baton::test {
namespace {

struct Told final : EventHandler {
  std::string order;
  std::atomic<int> count{0};
  Next on_input(NativeHandle fd) override { return note('i', fd); }
  Next on_output(NativeHandle fd) override { return note('o', fd); }
  Next on_exception(NativeHandle fd) override { return note('x', fd); }

 private:
  Next note(char what, NativeHandle fd) {
    EXPECT_EQ(fd, invalid_handle);
    order += what;
    ++count;
    return Next::keep;
  }
};

}  // namespace

TEST_P(reactor, tells_in_order) {
  Told told;
  EXPECT_FALSE(loop().notify(told, Interest::in));
  EXPECT_FALSE(loop().notify(told, Interest::out));
  EXPECT_FALSE(loop().notify(told, Interest::urgent));
  EXPECT_FALSE(loop().notify(told, Interest::all));
  EXPECT_EQ(loop().notifications(), 4U);
  run_until([&] { return told.count == 6; });
  EXPECT_EQ(told.order, "ioxoxi");
  EXPECT_EQ(loop().notifications(), 0U);
  EXPECT_EQ(run_what_is_there(), 0U);
}

TEST_P(reactor, runs_work) {
  int ran = 0;
  EXPECT_FALSE(loop().notify([&] { ++ran; }));
  run_until([&] { return ran == 1; });
}

TEST_P(reactor, keeps_a_shared_handler_until_it_is_notified) {
  auto told = std::make_shared<Told>();
  const std::weak_ptr<Told> watch = told;
  EXPECT_FALSE(loop().notify(told, Interest::in));
  told.reset();
  EXPECT_FALSE(watch.expired());
  run_until([&] { return watch.expired(); });
  EXPECT_EQ(loop().notify(std::shared_ptr<EventHandler>{}, Interest::in),
            std::errc::invalid_argument);
}

TEST_P(reactor, notifications_are_bounded) {
  replace({.notifications_max = 3});
  Told told;
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(loop().notify(told, Interest::in));
  EXPECT_EQ(loop().notify(told, Interest::in), errc::limit_reached);
  run_until([&] { return told.count == 3; });
  EXPECT_FALSE(loop().notify(told, Interest::in));
  run_until([&] { return told.count == 4; });
}

TEST_P(reactor, notifications_are_purged) {
  Told told;
  Told other;
  for (int i = 0; i < 4; ++i) EXPECT_FALSE(loop().notify(told, Interest::in | Interest::out));
  EXPECT_FALSE(loop().notify(other, Interest::in));
  EXPECT_EQ(loop().purge(&told, Interest::out), 0U);  // the other half is left
  EXPECT_EQ(loop().notifications(), 5U);
  EXPECT_EQ(loop().purge(&told, Interest::in), 4U);
  EXPECT_EQ(loop().purge(&told), 0U);
  run_until([&] { return other.count == 1; });
  EXPECT_EQ(told.count, 0);
  EXPECT_FALSE(loop().notify(told, Interest::in));
  EXPECT_FALSE(loop().notify(other, Interest::in));
  EXPECT_EQ(loop().purge(nullptr), 2U);
  EXPECT_EQ(run_what_is_there(), 0U);
}

TEST_P(reactor, a_registration_is_notified_once) {
  const SocketPair pair;
  auto& reader = make<Reader>();
  const auto key = loop().add(pair.ours.get(), Interest::in, reader);
  ASSERT_TRUE(key.has_value());
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(loop().notify(*key, Interest::in));
  run_until([&] { return reader.calls > 0; });
  EXPECT_EQ(run_what_is_there(), 0U);
  EXPECT_EQ(reader.calls, 1);
}

// Input is due, and is notified as well, when a call before it throws. Then it is not readable any
// more, so only the notification can call it.
TEST_P(reactor, an_exception_loses_no_notification_that_came_during_the_call) {
  struct Throws final : EventHandler {
    Reactor* loop = nullptr;
    const SocketPair* pair = nullptr;
    RegistrationKey key;
    int inputs = 0;
    Next on_input(NativeHandle) override {
      if (++inputs > 1) return Next::keep;
      EXPECT_EQ(pair->drain(), 1);
      EXPECT_FALSE(loop->notify(key, Interest::out | Interest::urgent));
      return Next::again;
    }
    Next on_output(NativeHandle) override {
      EXPECT_FALSE(loop->notify(key, Interest::in));
      return Next::keep;
    }
    Next on_exception(NativeHandle) override { throw std::runtime_error("expected"); }
  };
  const SocketPair pair;
  auto& handler = make<Throws>();
  handler.loop = &loop();
  handler.pair = &pair;
  const auto key = loop().add(pair.ours.get(), Interest::in, handler);
  ASSERT_TRUE(key.has_value());
  handler.key = *key;
  pair.make_readable();
  EXPECT_THROW(run_what_is_there(), std::runtime_error);
  EXPECT_EQ(handler.inputs, 1);
  static_cast<void>(run_what_is_there());
  EXPECT_EQ(handler.inputs, 2);
}

TEST_P(reactor, a_registration_notified_while_it_runs_is_called_afterwards) {
  const SocketPair pair;
  RegistrationKey own;
  auto& reader = make<Reader>();
  reader.also = [&](NativeHandle) {
    if (reader.calls < 3) {
      EXPECT_FALSE(loop().notify(own, Interest::in));
    }
  };
  const auto key = loop().add(pair.ours.get(), Interest::in, reader);
  ASSERT_TRUE(key.has_value());
  own = *key;
  EXPECT_FALSE(loop().notify(own, Interest::in));
  run_until([&] { return reader.calls == 3; });
  EXPECT_EQ(run_what_is_there(), 0U);
  EXPECT_EQ(reader.calls, 3);
}

// Found by the fuzzer: a handler notified of input just before its call for the same input was
// called twice.
TEST_P(reactor, a_notification_and_a_due_call_are_one_call) {
  const SocketPair pair;
  RegistrationKey own;
  std::string seen;
  const auto key = loop().add(pair.ours.get(), Interest::none, [&](NativeHandle, Interest what) {
    seen += what == Interest::out ? 'o' : 'i';
    if (what == Interest::out) {
      EXPECT_FALSE(loop().notify(own, Interest::in));
    }
    return Next::keep;
  });
  ASSERT_TRUE(key.has_value());
  own = *key;
  EXPECT_FALSE(loop().notify(own, Interest::both));
  run_until([&] { return seen.size() >= 2; });
  EXPECT_EQ(run_what_is_there(), 0U);
  EXPECT_EQ(seen, "oi");
}

TEST_P(reactor, a_suspended_registration_is_notified) {
  const SocketPair pair;
  auto& reader = make<Reader>();
  const auto key = loop().add(pair.ours.get(), Interest::in, reader);
  ASSERT_TRUE(key.has_value());
  EXPECT_FALSE(loop().suspend(*key));
  EXPECT_FALSE(loop().notify(*key, Interest::in));
  run_until([&] { return reader.calls == 1; });
  pair.make_readable();
  EXPECT_EQ(run_what_is_there(), 0U);
}

TEST_P(reactor, removal_forgets_notifications) {
  const SocketPair pair;
  auto& reader = make<Reader>();
  const auto key = loop().add(pair.ours.get(), Interest::in, reader);
  ASSERT_TRUE(key.has_value());
  EXPECT_FALSE(loop().notify(*key, Interest::in));
  EXPECT_EQ(loop().remove(*key), Reactor::Removal::done);
  EXPECT_EQ(run_what_is_there(), 0U);
  EXPECT_EQ(reader.calls, 0);
}

// Notifications that beget notifications do not keep descriptors from their turn.
TEST_P(reactor, notifications_starve_no_registration) {
  const SocketPair pair;
  auto& reader = make<Reader>();
  ASSERT_TRUE(loop().add(pair.ours.get(), Interest::in, reader).has_value());
  int told = 0;
  std::function<void()> endless = [&] {
    ++told;
    if (reader.calls == 0) {
      EXPECT_FALSE(loop().notify([&] { endless(); }));
    }
    if (told == 3) pair.make_readable();
  };
  EXPECT_FALSE(loop().notify([&] { endless(); }));
  run_until([&] { return reader.calls == 1; });
  EXPECT_LE(loop().purge(nullptr), 1U);
}

TEST_P(reactor, every_notification_of_every_thread_arrives) {
  constexpr int senders = 3;
  constexpr int each = 2'000;
  struct Counter final : EventHandler {
    std::atomic<int> count{0};
    Next on_input(NativeHandle) override {
      ++count;
      return Next::keep;
    }
  } counter;
  start_threads(3);
  std::vector<std::thread> threads;
  for (int i = 0; i < senders; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < each; ++k) EXPECT_FALSE(loop().notify(counter, Interest::in));
    });
  }
  for (std::thread& thread : threads) thread.join();
  wait_for([&] { return counter.count == senders * each; });
  join_threads();
  EXPECT_EQ(counter.count, senders * each);
  EXPECT_EQ(loop().statistics().notifications, std::uint64_t{senders} * each);
}

TEST_P(reactor, a_wake_up_is_sticky) {
  loop().wake();
  EXPECT_TRUE(returns_at_once());
  std::thread other([&] { loop().wake(); });
  EXPECT_TRUE(returns_at_once());
  other.join();
}

TEST_P(reactor, work_may_throw_or_be_none) {
  ASSERT_FALSE(loop().notify(std::function<void()>{}));
  EXPECT_EQ(run_what_is_there(), 1U);
  ASSERT_FALSE(loop().notify([] { throw std::runtime_error("expected"); }));
  EXPECT_THROW(static_cast<void>(loop().handle_events(at_last())), std::runtime_error);
  EXPECT_EQ(loop().notifications(), 0U);
}

}  // namespace baton::test
