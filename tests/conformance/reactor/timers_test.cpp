// Timers.
#include <memory>

#include <stdexcept>
#include "baton/error.hpp"

#include "harness.hpp"

namespace baton::test {
namespace {

using std::chrono::milliseconds;

Deadline in(int ms) { return Deadline::after(milliseconds{ms}); }

}  // namespace

TEST_P(reactor, timers_come_in_order_and_not_early) {
  std::string order;
  const Deadline early = in(1);
  const Deadline late = in(6);
  ASSERT_TRUE(loop()
                  .schedule(
                      [&](TimerKey, Deadline due) {
                        EXPECT_EQ(due, late);
                        EXPECT_GE(Deadline::after(Duration{0}), late);
                        order += 'b';
                        return Next::keep;
                      },
                      late)
                  .has_value());
  ASSERT_TRUE(loop().schedule([&](TimerKey, Deadline) { return order += 'a', Next::keep; }, early));
  EXPECT_EQ(loop().timers(), 2U);
  run_until([&] { return order.size() == 2; });
  EXPECT_EQ(order, "ab");
  EXPECT_EQ(loop().timers(), 0U);
}

TEST_P(reactor, a_periodic_timer_goes_on_until_it_answers) {
  int ticks = 0;
  TimerKey own;
  const auto key = loop().schedule(
      [&](TimerKey timer, Deadline) {
        EXPECT_EQ(timer, own);
        return ++ticks < 3 ? Next::keep : Next::remove;
      },
      in(1), milliseconds{1});
  ASSERT_TRUE(key.has_value());
  own = *key;
  run_until([&] { return loop().timers() == 0; });
  EXPECT_EQ(ticks, 3);
}

TEST_P(reactor, a_cancelled_timer_does_not_come) {
  int ticks = 0;
  auto tick = [&](TimerKey, Deadline) { return ++ticks, Next::keep; };
  const auto first = loop().schedule(tick, Deadline::immediately());
  const auto second = loop().schedule(tick, in(60'000));
  const auto third = loop().schedule(tick, in(1));
  ASSERT_TRUE(first && second && third);
  EXPECT_TRUE(loop().cancel(*first));
  EXPECT_FALSE(loop().cancel(*first));
  EXPECT_TRUE(loop().cancel(*second));
  run_until([&] { return ticks == 1; });
  EXPECT_FALSE(loop().cancel(*third));
  EXPECT_FALSE(loop().cancel({}));
  EXPECT_EQ(loop().timers(), 0U);
}

// Both are due in one look; the one that comes first cancels the other.
TEST_P(reactor, a_timer_that_is_queued_is_cancelled) {
  std::array<TimerKey, 2> keys;
  int ticks = 0;
  for (std::size_t i = 0; i < 2; ++i) {
    const auto key = loop().schedule(
        [&, i](TimerKey, Deadline) {
          ++ticks;
          EXPECT_TRUE(loop().cancel(keys[1 - i]));
          return Next::keep;
        },
        Deadline::immediately());
    ASSERT_TRUE(key.has_value());
    keys[i] = *key;
  }
  run_until([&] { return ticks == 1; });
  EXPECT_EQ(run_what_is_there(), 0U);
  EXPECT_EQ(ticks, 1);
}

TEST_P(reactor, a_periodic_timer_may_cancel_itself) {
  int ticks = 0;
  const auto key = loop().schedule(
      [&](TimerKey timer, Deadline) {
        ++ticks;
        EXPECT_TRUE(loop().cancel(timer));
        EXPECT_FALSE(loop().cancel(timer));
        return Next::keep;
      },
      Deadline::immediately(), milliseconds{1});
  ASSERT_TRUE(key.has_value());
  run_until([&] { return loop().timers() == 0; });
  EXPECT_EQ(ticks, 1);
}

TEST_P(reactor, all_timers_of_a_handler_are_cancelled) {
  struct Ticks final : EventHandler {
    int count = 0;
    Next on_timeout(TimerKey, Deadline) override { return ++count, Next::keep; }
  } ticks, others;
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(loop().schedule(ticks, Deadline::immediately()));
    ASSERT_TRUE(loop().schedule(others, Deadline::immediately()));
  }
  EXPECT_EQ(loop().cancel_timers(ticks), 3U);
  run_until([&] { return others.count == 3; });
  EXPECT_EQ(ticks.count, 0);
}

TEST_P(reactor, timers_are_bounded_and_reused) {
  replace({.timers_max = 2});
  int ticks = 0;
  auto tick = [&](TimerKey, Deadline) { return ++ticks, Next::keep; };
  for (int i = 0; i < 10; ++i) {
    const auto first = loop().schedule(tick, Deadline::immediately());
    const auto second = loop().schedule(tick, in(60'000));
    ASSERT_TRUE(first && second);
    EXPECT_EQ(loop().schedule(tick, in(1)).error(), errc::limit_reached);
    EXPECT_TRUE(loop().cancel(*second));
    run_until([&] { return ticks == i + 1; });
    EXPECT_FALSE(loop().cancel(*first));
  }
}

TEST_P(reactor, a_shared_handler_lives_as_long_as_its_timer) {
  struct Ticks final : EventHandler {
    Next on_timeout(TimerKey, Deadline) override { return Next::keep; }
  };
  auto handler = std::make_shared<Ticks>();
  const std::weak_ptr<Ticks> watch = handler;
  ASSERT_TRUE(loop().schedule(std::shared_ptr<EventHandler>(handler), Deadline::immediately()));
  const auto later = loop().schedule(std::shared_ptr<EventHandler>(handler), in(60'000));
  ASSERT_TRUE(later.has_value());
  handler.reset();
  run_until([&] { return loop().timers() == 1; });
  EXPECT_FALSE(watch.expired());
  EXPECT_TRUE(loop().cancel(*later));
  EXPECT_TRUE(watch.expired());
}

// A thread that waits for ever is woken for a later timer.
TEST_P(reactor, a_timer_added_by_another_thread_is_heard) {
  std::atomic<int> ticks{0};
  start_threads(2);
  for (int i = 1; i <= 20; ++i) {
    ASSERT_TRUE(loop().schedule([&](TimerKey, Deadline) { return ++ticks, Next::keep; },
                                Deadline::immediately()));
    wait_for([&] { return ticks == i; });
  }
  join_threads();
}

TEST_P(reactor, timers_that_cannot_be_scheduled_or_cancelled) {
  EXPECT_EQ(loop().schedule(std::shared_ptr<EventHandler>{}, Deadline::immediately()).error(),
            std::errc::invalid_argument);
  EXPECT_FALSE(loop().cancel(TimerKey{.index = 7, .generation = 1})) << "there never was one";
  const auto key =
      loop().schedule([](TimerKey, Deadline) { return Next::remove; }, Deadline::immediately());
  ASSERT_TRUE(key.has_value());
  run_until([&] { return loop().timers() == 0; });
  EXPECT_FALSE(loop().cancel(*key));
  EXPECT_FALSE(loop().cancel(TimerKey{.index = key->index, .generation = key->generation + 1}));
}

TEST_P(reactor, a_timers_exception_comes_through_and_ends_it) {
  ASSERT_TRUE(loop().schedule([](TimerKey, Deadline) -> Next { throw std::runtime_error("mine"); },
                              Deadline::immediately()));
  EXPECT_THROW(static_cast<void>(loop().handle_events(at_last())), std::runtime_error);
  EXPECT_EQ(loop().timers(), 0U);
}

TEST_P(reactor, a_periodic_timer_that_wants_more_goes_on) {
  int calls = 0;
  ASSERT_TRUE(
      loop().schedule([&](TimerKey, Deadline) { return ++calls < 3 ? Next::again : Next::drop; },
                      Deadline::immediately(), std::chrono::milliseconds{1}));
  run_until([&] { return loop().timers() == 0; });
  EXPECT_EQ(calls, 3);
}

// More than the reactor expires or cancels in one step.
TEST_P(reactor, many_timers_of_one_deadline_and_one_handler) {
  struct Ticks final : EventHandler {
    int count = 0;
    Next on_timeout(TimerKey, Deadline) override { return ++count, Next::keep; }
  } ticks, others;
  constexpr int count = 1'000;
  for (int i = 0; i < count; ++i) {
    ASSERT_TRUE(loop().schedule(ticks, Deadline::immediately()));
    ASSERT_TRUE(loop().schedule(others, Deadline::immediately()));
  }
  run_until([&] { return ticks.count + others.count > 0; });
  const auto cancelled = static_cast<int>(loop().cancel_timers(ticks));
  EXPECT_EQ(loop().cancel_timers(ticks), 0U);
  run_until([&] { return others.count == count; });
  EXPECT_EQ(run_what_is_there(), 0U);
  EXPECT_EQ(ticks.count + cancelled, count);
  EXPECT_EQ(loop().timers(), 0U);
}

// An exception does not end a periodic timer.
TEST_P(reactor, a_periodic_timer_survives_an_exception) {
  int calls = 0;
  ASSERT_TRUE(loop().schedule(
      [&](TimerKey, Deadline) -> Next {
        if (++calls == 1) throw std::runtime_error("mine");
        return Next::remove;
      },
      Deadline::immediately(), milliseconds{1}));
  EXPECT_THROW(static_cast<void>(loop().handle_events(at_last())), std::runtime_error);
  run_until([&] { return loop().timers() == 0; });
  EXPECT_EQ(calls, 2);
}

}  // namespace baton::test
