// The table of the Reactor's timers: exhausted identifiers, and the lists of handlers.
#include "reactor/timer_table.hpp"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "reactor/registration.hpp"

namespace baton::reactor {
namespace {

using Kept = std::shared_ptr<EventHandler>;
using std::chrono::hours;

const Deadline later = Deadline::after(hours{1});

ReactorTimer& armed(TimerTable& table, EventHandler& handler) {
  bool full = false;
  ReactorTimer* const timer = table.take(handler, full);
  EXPECT_NE(timer, nullptr);
  table.arm(*timer, later);
  return *timer;
}

std::size_t cancel_all(TimerTable& table, const EventHandler& handler) {
  std::array<Kept, 4> kept;
  std::size_t count = 0;
  while (table.cancel_some(handler, kept, count) == kept.size()) {
  }
  return count;
}

// 0 names nothing, so no generation may be 0 after 2^32 uses of a place.
TEST(TimerTable, AGenerationIsNeverZero) {
  EventHandler handler;
  TimerTable table(1);
  ReactorTimer& timer = armed(table, handler);
  timer.generation = UINT32_MAX;
  Kept kept;
  EXPECT_TRUE(table.cancel(timer, kept));
  const TimerKey key = armed(table, handler).key();
  EXPECT_EQ(key.generation, 1U);
  EXPECT_EQ(table.find(key), &timer);
  EXPECT_EQ(next_generation(1), 2U);
  EXPECT_EQ(next_generation(UINT32_MAX), 1U);
}

// The handler is running: only what would follow can be prevented.
TEST(TimerTable, ACancelOfARunningTimerPreventsItsRepetition) {
  EventHandler handler;
  TimerTable table(2);
  for (const Duration interval : {Duration{0}, Duration{1}}) {
    ReactorTimer& timer = armed(table, handler);
    timer.interval = interval;
    table.collect(later);
    ASSERT_EQ(table.next_due(), &timer);
    Kept kept;
    EXPECT_EQ(table.cancel(timer, kept), interval > Duration{0});
    EXPECT_FALSE(table.finish(timer, true, later, kept));
  }
  EXPECT_EQ(table.size(), 0U);
}

TEST(TimersByHandler, GrowWithTheHandlersAndNotWithTheirTimers) {
  TimersByHandler timers;
  ASSERT_EQ(timers.buckets(), 64U);
  std::array<EventHandler, 65> handlers;
  std::array<ReactorTimer, 65> made;
  for (std::size_t i = 0; i < made.size(); ++i) made[i].handler = &handlers[i];
  for (int round = 0; round < 200; ++round) {
    timers.add(made[0]);
    timers.remove(made[0]);
  }
  EXPECT_EQ(timers.buckets(), 64U);
  for (ReactorTimer& timer : made) timers.add(timer);
  EXPECT_EQ(timers.buckets(), 128U);
  for (std::size_t i = 0; i < made.size(); ++i) EXPECT_EQ(timers.first(handlers[i]), &made[i]);
}

// No missed period is made up for, even if the first time is further back than a signed number
// reaches.
TEST(TimerTable, TheNextTimeIsInTheFuture) {
  EventHandler handler;
  TimerTable table(1);
  constexpr std::int64_t now = 1'000'000'000'007;
  constexpr std::int64_t first = INT64_MIN;
  const auto next = [&](std::int64_t due, std::int64_t interval) {
    bool full = false;
    ReactorTimer* const timer = table.take(handler, full);
    timer->interval = Duration{interval};
    table.arm(*timer, Deadline::at_ns(due));
    table.collect(Deadline::at_ns(now));
    Kept kept;
    EXPECT_EQ(table.next_due(), timer);
    EXPECT_TRUE(table.finish(*timer, true, Deadline::at_ns(now), kept));
    const std::int64_t after = timer->due.ns();
    EXPECT_TRUE(table.cancel(*timer, kept));
    return after;
  };
  EXPECT_EQ(next(now, 10), now + 10);
  EXPECT_EQ(next(now - 7, 10), now + 3);
  EXPECT_EQ(next(now - 10, 10), now + 10);
  EXPECT_EQ(next(now - 1'000'007, 1'000), now + 993);
  EXPECT_EQ(next(now - 5, INT64_MAX), INT64_MAX);
  EXPECT_EQ(next(first, 1), now + 1);
  EXPECT_EQ(next(first, 1'000'000), now + 1'000'000 - 775'815);
  EXPECT_EQ(next(first, INT64_MAX), INT64_MAX - 1);
}

TEST(TimerTable, EachHandlerHasItsOwnTimers) {
  constexpr std::size_t count = 300;  // more than the lists begin with
  std::vector<EventHandler> handlers(count);
  TimerTable table(10 * count);
  for (int i = 0; i < 7; ++i) {
    for (EventHandler& handler : handlers) armed(table, handler);
  }
  for (std::size_t i = 0; i < count; i += 2) EXPECT_EQ(cancel_all(table, handlers[i]), 7U);
  EXPECT_EQ(table.size(), 7 * count / 2);
  for (std::size_t i = 0; i < count; ++i) {
    EXPECT_EQ(cancel_all(table, handlers[i]), i % 2 == 0 ? 0U : 7U);
  }
  EXPECT_EQ(table.size(), 0U);
}

// The first, the last and one in between leave the list of their handler.
TEST(TimerTable, TimersLeaveTheListOfTheirHandlerInAnyOrder) {
  for (std::size_t first = 0; first < 3; ++first) {
    EventHandler handler;
    TimerTable table(3);
    std::array<ReactorTimer*, 3> timers{};
    for (ReactorTimer*& timer : timers) timer = &armed(table, handler);
    Kept kept;
    EXPECT_TRUE(table.cancel(*timers[first], kept));
    EXPECT_TRUE(table.cancel(*timers[(first + 2) % 3], kept));
    EXPECT_EQ(cancel_all(table, handler), 1U);
    EXPECT_EQ(table.size(), 0U);
  }
}

}  // namespace
}  // namespace baton::reactor
