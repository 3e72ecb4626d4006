// The queue of timers - row, heap and wheel - against a sorted reference (P-36).
#include "core/timer_queue.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "core/access.hpp"
#include "core/timer_row.hpp"
#include "core/timer_wheel.hpp"
#include "support/slowness.hpp"

namespace baton {
namespace {

using test::slowness;
using Reference = std::set<std::pair<std::int64_t, Operation*>>;

TEST(TimerQueue, is_never_due_when_empty) {
  TimerQueue queue;
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(queue.size(), 0U);
  EXPECT_TRUE(queue.nearest().is_never());
  EXPECT_EQ(queue.pop_due(Deadline::never()), nullptr);
}

TEST(TimerQueue, never_gives_a_timer_early) {
  TimerQueue queue;
  Operation timer;
  timer.set_deadline(Deadline::at_ns(100));
  queue.add(timer);
  EXPECT_EQ(queue.pop_due(Deadline::at_ns(99)), nullptr);
  EXPECT_EQ(queue.pop_due(Deadline::at_ns(100)), &timer);
  EXPECT_TRUE(queue.empty());
}

// Heartbeats and timeouts that are set in one loop are due together.
TEST(TimerWheel, gives_timers_of_one_instant_in_steps_that_grow_with_their_number) {
  for (const std::size_t count : {std::size_t{1'000}, std::size_t{32'000}}) {
    TimerWheel wheel;
    const auto timers = std::make_unique<Operation[]>(count);
    for (std::size_t i = 0; i < count; ++i) {
      timers[i].set_deadline(Deadline::at_ns(1'000'000));
      wheel.add(timers[i]);
    }
    std::size_t given = 0;
    while (!wheel.empty()) {
      TimerRow row;
      wheel.give_first(row);
      while (Operation* const timer = row.first()) {
        EXPECT_EQ(timer, &timers[given]) << "in the order in which they came";
        row.pop(*timer);
        ++given;
      }
    }
    EXPECT_EQ(given, count);
    constexpr std::size_t levels = 11;
    EXPECT_LE(wheel.steps(), levels * count);
  }
}

// A million random additions, removals, moves and expiries, near and far; the order is exact at
// every step. `spans_ns`: the possible distances; each timer draws one.
void agree_with_reference(std::uint64_t seed, int steps,
                          std::initializer_list<std::uint64_t> spans_ns, std::int64_t start_ns) {
  std::mt19937_64 random{seed};
  const std::vector<std::uint64_t> spans{spans_ns};
  constexpr std::size_t population = 2'000;
  const auto timers = std::make_unique<Operation[]>(population);
  std::vector<bool> armed(population);
  TimerQueue queue;
  Reference reference;
  std::int64_t now = start_ns;
  const auto draw = [&] {
    const std::uint64_t span = spans[random() % spans.size()];
    return Deadline::at_ns(now + static_cast<std::int64_t>(random() % span));
  };
  for (int step = 0; step < steps; ++step) {
    const std::size_t at = random() % population;
    Operation& timer = timers[at];
    const auto what = random() % 8;
    if (!armed[at]) {
      timer.set_deadline(draw());
      queue.add(timer);
      reference.emplace(timer.deadline().ns(), &timer);
      armed[at] = true;
    } else if (what < 3) {
      queue.remove(timer);
      reference.erase({timer.deadline().ns(), &timer});
      armed[at] = false;
    } else if (what < 6) {
      reference.erase({timer.deadline().ns(), &timer});
      queue.move(timer, draw());
      reference.emplace(timer.deadline().ns(), &timer);
    } else if (what == 6) {
      now += static_cast<std::int64_t>(random() % (spans[random() % spans.size()] / 64 + 1));
    }
    while (Operation* due = queue.pop_due(Deadline::at_ns(now))) {
      // The order among equal deadlines is not promised, so the time is compared.
      ASSERT_EQ(due->deadline().ns(), reference.begin()->first);
      ASSERT_EQ(reference.erase({due->deadline().ns(), due}), 1U);
      armed[static_cast<std::size_t>(due - timers.get())] = false;
    }
    ASSERT_EQ(queue.size(), reference.size());
    // Not every step asks for the nearest, so that the wheel is also filled and emptied unsorted.
    if (!reference.empty() && random() % 4 == 0) {
      ASSERT_EQ(queue.nearest().ns(), reference.begin()->first);
      ASSERT_GT(queue.nearest().ns(), now);
    }
  }
  std::int64_t last = 0;
  std::size_t left = 0;
  while (Operation* due = queue.pop_due(Deadline::never())) {
    ASSERT_GE(due->deadline().ns(), last);
    last = due->deadline().ns();
    ++left;
  }
  ASSERT_EQ(left, reference.size());
}

TEST(TimerQueue, agrees_with_a_sorted_reference_when_all_are_near) {
  agree_with_reference(20020301, 1'000'000 / slowness, {5'000}, 0);
}

// More timers at one nanosecond than a row holds.
TEST(TimerQueue, agrees_with_a_sorted_reference_when_many_are_due_at_once) {
  agree_with_reference(20020302, 200'000 / slowness, {1, 3, 50}, 1'000'000'000);
}

TEST(TimerQueue, agrees_with_a_sorted_reference_from_microseconds_to_a_day) {
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    agree_with_reference(seed, 250'000 / slowness,
                         {1'000, 1'000'000, 30'000'000'000, 86'400'000'000'000}, 5'000'000'000'000);
  }
}

// The whole range of the clock: the first level and the last, times before its begin, and never.
TEST(TimerQueue, sorts_all_times_there_are) {
  const std::int64_t times[] = {
      INT64_MIN, INT64_MIN + 1, -1,        0,         1,           63, 64,   4'095,
      1LL << 40, INT64_MAX - 1, INT64_MAX, INT64_MAX, (1LL << 62), 65, 4'096};
  std::mt19937_64 random{3};
  std::vector<std::int64_t> order(std::begin(times), std::end(times));
  for (int round = 0; round < 200; ++round) {
    std::shuffle(order.begin(), order.end(), random);
    std::vector<Operation> timers(order.size());
    TimerQueue queue;
    for (std::size_t i = 0; i < order.size(); ++i) {
      timers[i].set_deadline(Deadline::at_ns(order[i]));
      queue.add(timers[i]);
      if (round % 2 == 0) {
        EXPECT_EQ(queue.nearest().ns(),
                  *std::min_element(order.begin(), order.begin() + static_cast<int>(i) + 1));
      }
    }
    std::vector<std::int64_t> sorted(std::begin(times), std::end(times));
    std::sort(sorted.begin(), sorted.end());
    for (const std::int64_t time : sorted) {
      EXPECT_EQ(queue.nearest().ns(), time);
      const Operation* due = queue.pop_due(Deadline::never());
      ASSERT_NE(due, nullptr);
      EXPECT_EQ(due->deadline().ns(), time);
    }
  }
}

// Timers of an hour, postponed repeatedly, and not popped until they are due.
TEST(TimerQueue, a_deferred_timer_is_due_at_its_last_time) {
  constexpr std::size_t population = 1'000;
  constexpr std::int64_t hour = 3'600'000'000'000;
  const auto timers = std::make_unique<Operation[]>(population);
  TimerQueue queue;
  for (std::size_t i = 0; i < population; ++i) {
    timers[i].set_deadline(Deadline::at_ns(hour + static_cast<std::int64_t>(i)));
    queue.add(timers[i]);
  }
  std::int64_t now = 0;
  for (int turn = 0; turn < 20; ++turn) {
    now += hour / 2;
    EXPECT_EQ(queue.pop_due(Deadline::at_ns(now)), nullptr);
    for (std::size_t i = 0; i < population; ++i) {
      queue.move(timers[i], Deadline::at_ns(now + hour + static_cast<std::int64_t>(i)));
    }
  }
  EXPECT_EQ(queue.nearest().ns(), now + hour);
  for (std::size_t i = 0; i < population; ++i) {
    const auto due = now + hour + static_cast<std::int64_t>(i);
    EXPECT_EQ(queue.pop_due(Deadline::at_ns(due - 1)), nullptr);
    EXPECT_EQ(queue.pop_due(Deadline::at_ns(due)), &timers[i]);
  }
  EXPECT_TRUE(queue.empty());
}

// A request for the nearest timer sorts them. Then some are postponed, others are cancelled, and
// more timers than there are come before them, which moves all of them once more.
TEST(TimerQueue, sorted_timers_may_still_change) {
  constexpr std::size_t sorted = 40;
  for (const std::size_t added : {std::size_t{0}, std::size_t{10}, std::size_t{300}}) {
    const auto timers = std::make_unique<Operation[]>(sorted + added);
    TimerQueue queue;
    std::vector<std::int64_t> due;
    for (std::size_t i = 0; i < sorted; ++i) {
      timers[i].set_deadline(Deadline::at_ns(1'000'000 + static_cast<std::int64_t>(i * 10)));
      queue.add(timers[i]);
    }
    EXPECT_EQ(queue.nearest().ns(), 1'000'000);
    for (std::size_t i = 0; i < sorted; ++i) {
      if (i % 3 == 0) {  // the first, too
        const auto later = 1'000'000 + static_cast<std::int64_t>(i * 31);
        queue.move(timers[i], Deadline::at_ns(later));
        due.push_back(later);
      } else if (i % 3 == 1) {
        queue.remove(timers[i]);
      } else {
        due.push_back(timers[i].deadline().ns());
      }
    }
    for (std::size_t i = sorted; i < sorted + added; ++i) {
      const auto early = 1'000'200 - static_cast<std::int64_t>(i * 7 % 500);
      timers[i].set_deadline(Deadline::at_ns(early));
      queue.add(timers[i]);
      due.push_back(early);
    }
    std::sort(due.begin(), due.end());
    EXPECT_EQ(queue.size(), due.size());
    for (const std::int64_t next : due) {
      ASSERT_EQ(queue.nearest().ns(), next);
      ASSERT_EQ(queue.pop_due(Deadline::at_ns(next - 1)), nullptr);
      const Operation* timer = queue.pop_due(Deadline::at_ns(next));
      ASSERT_NE(timer, nullptr);
      ASSERT_EQ(timer->deadline().ns(), next);
    }
    EXPECT_TRUE(queue.empty());
  }
}

// Far timers have been sorted, and then more near timers come than there are far ones: all have to
// be in order.
TEST(TimerQueue, near_timers_after_far_ones_were_sorted) {
  constexpr std::size_t population = 500;
  std::mt19937_64 random{17};
  const auto timers = std::make_unique<Operation[]>(2 * population);
  TimerQueue queue;
  for (std::size_t i = 0; i < population; ++i) {
    timers[i].set_deadline(
        Deadline::at_ns(3'600'000'000'000 + static_cast<std::int64_t>(random() % 1'000'000)));
    queue.add(timers[i]);
  }
  EXPECT_GE(queue.nearest().ns(), 3'600'000'000'000);
  for (std::size_t i = population; i < 2 * population; ++i) {
    timers[i].set_deadline(Deadline::at_ns(static_cast<std::int64_t>(random() % 1'000'000'000)));
    queue.add(timers[i]);
  }
  std::int64_t last = 0;
  for (std::size_t i = 0; i < 2 * population; ++i) {
    EXPECT_EQ(queue.size(), 2 * population - i);
    const Operation* due = queue.pop_due(Deadline::never());
    ASSERT_NE(due, nullptr);
    EXPECT_GE(due->deadline().ns(), last);
    last = due->deadline().ns();
  }
}

TEST(TimerQueue, finds_what_it_holds_and_only_that) {
  constexpr std::size_t population = 500;
  std::mt19937_64 random{7};
  const auto timers = std::make_unique<Operation[]>(population);
  TimerQueue queue;
  for (std::size_t i = 0; i < population; ++i) {
    timers[i].set_deadline(Deadline::at_ns(static_cast<std::int64_t>(random() % 1'000)));
    queue.add(timers[i]);
  }
  for (std::size_t i = 0; i < population; ++i) timers[i].set_tag(i % 7 == 0 ? 1 : 0);
  const auto tagged = [](const Operation& timer) { return timer.tag() == 1; };
  std::set<Operation*> gone;
  for (int i = 0; i < 100; ++i) gone.insert(queue.pop_due(Deadline::never()));
  // Each matching timer is found once.
  while (Operation* found = queue.find(tagged)) {
    EXPECT_TRUE(tagged(*found) && gone.insert(found).second);
    queue.remove(*found);
  }
  for (std::size_t i = 0; i < population; ++i) {
    EXPECT_TRUE(!tagged(timers[i]) || gone.contains(&timers[i]));
  }
  while (queue.pop_due(Deadline::never()) != nullptr) {
  }
  EXPECT_EQ(queue.find(tagged), nullptr);
}

// A lane cancels thousands that another thread has marked: a search for each would pass the same
// timers again and again.
TEST(TimerQueue, finds_all_that_are_wanted_in_one_search) {
  constexpr std::size_t population = 500;
  std::mt19937_64 random{17};
  const auto timers = std::make_unique<Operation[]>(population);
  TimerQueue queue;
  for (std::size_t i = 0; i < population; ++i) {
    timers[i].set_deadline(Deadline::at_ns(static_cast<std::int64_t>(random() >> random() % 64)));
    timers[i].set_tag(i % 7 == 0 ? 1 : 0);
    queue.add(timers[i]);
  }
  OperationQueue found;
  std::size_t visits = 0;
  queue.find_all(found, [&visits](const Operation& timer) {
    ++visits;
    return timer.tag() == 1;
  });
  EXPECT_EQ(visits, population);
  EXPECT_EQ(found.size(), (population + 6) / 7);
  while (!found.empty()) {
    Operation& timer = found.pop_front();
    EXPECT_EQ(timer.tag(), 1U);
    queue.remove(timer);
  }
  EXPECT_EQ(queue.size(), population - (population + 6) / 7);
  while (queue.pop_due(Deadline::never()) != nullptr) {
  }
}

TEST(TimerQueue, is_taken_apart_in_every_state) {
  constexpr std::size_t population = 500;
  std::mt19937_64 random{11};
  for (const bool broken : {false, true}) {
    const auto timers = std::make_unique<Operation[]>(population);
    TimerQueue queue;
    for (std::size_t i = 0; i < population; ++i) {
      timers[i].set_deadline(Deadline::at_ns(static_cast<std::int64_t>(random() % 1'000)));
      OperationAccess::activate(timers[i], OperationState::started);
      queue.add(timers[i]);
    }
    for (int i = 0; i < 100; ++i) OperationAccess::abandon(*queue.pop_due(Deadline::never()));
    if (broken) {  // circles
      for (int i = 0; i < 100; ++i) {
        OperationAccess::sibling(timers[random() % population]) = &timers[random() % population];
        OperationAccess::child(timers[random() % population]) = &timers[random() % population];
      }
    }
    queue.take_apart([](Operation& timer) {
      EXPECT_TRUE(timer.is_pending());
      OperationAccess::abandon(timer);
    });
    EXPECT_TRUE(queue.empty());
    for (std::size_t i = 0; i < population; ++i) {
      if (!broken) {
        EXPECT_FALSE(timers[i].is_pending());
      } else if (timers[i].is_pending()) {
        OperationAccess::abandon(timers[i]);
      }
    }
  }
}

// A root with a million children is taken apart in a loop: no recursion, no stack.
TEST(TimerQueue, a_million_timers_at_once) {
  constexpr std::size_t population = 1'000'000 / slowness;
  const auto timers = std::make_unique<Operation[]>(population);
  TimerQueue queue;
  for (std::size_t i = 0; i < population; ++i) {
    timers[i].set_deadline(Deadline::at_ns(static_cast<std::int64_t>(i * 7919 % population)));
    queue.add(timers[i]);
  }
  std::int64_t last = -1;
  for (std::size_t i = 0; i < population; ++i) {
    Operation* due = queue.pop_due(Deadline::never());
    ASSERT_NE(due, nullptr);
    ASSERT_EQ(due->deadline().ns(), last + 1);
    last = due->deadline().ns();
  }
  EXPECT_TRUE(queue.empty());
}

TEST(TimerQueue, ForEachVisitsEachOnceAndAtMostSoMany) {
  constexpr std::size_t count = 100;
  Operation timers[count];
  TimerQueue queue;
  for (std::size_t i = 0; i < count; ++i) {
    timers[i].set_deadline(Deadline::at_ns(static_cast<std::int64_t>((i * 37) % count)));
    queue.add(timers[i]);
  }
  EXPECT_NE(queue.pop_due(Deadline::never()), nullptr);  // a heap with some shape
  std::set<const Operation*> seen;
  EXPECT_EQ(queue.for_each(count, [&](const Operation& timer) { seen.insert(&timer); }), count - 1);
  EXPECT_EQ(seen.size(), count - 1);
  EXPECT_EQ(queue.for_each(10, [](const Operation&) {}), 10U);
  while (queue.pop_due(Deadline::never()) != nullptr) {
  }
}

}  // namespace
}  // namespace baton
