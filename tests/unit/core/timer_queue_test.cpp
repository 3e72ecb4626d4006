// The pairing heap of timers, against a sorted reference (P-36).
#include "core/timer_queue.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "core/access.hpp"

namespace baton {
namespace {

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

// A million random additions, removals and expiries; the order is exact at every step.
TEST(TimerQueue, agrees_with_a_sorted_reference_over_a_million_operations) {
  std::mt19937_64 random{20020301};
  constexpr std::size_t population = 2'000;
  const auto timers = std::make_unique<Operation[]>(population);
  std::vector<bool> armed(population);
  TimerQueue queue;
  Reference reference;
  std::int64_t now = 0;
  for (int step = 0; step < 1'000'000; ++step) {
    const std::size_t at = random() % population;
    Operation& timer = timers[at];
    if (!armed[at]) {
      timer.set_deadline(Deadline::at_ns(now + static_cast<std::int64_t>(random() % 5'000)));
      queue.add(timer);
      reference.emplace(timer.deadline().ns(), &timer);
      armed[at] = true;
    } else if (random() % 2 == 0) {
      queue.remove(timer);
      reference.erase({timer.deadline().ns(), &timer});
      armed[at] = false;
    } else {
      now += static_cast<std::int64_t>(random() % 64);
    }
    while (Operation* due = queue.pop_due(Deadline::at_ns(now))) {
      // The order among equal deadlines is not promised, so the time is compared.
      ASSERT_EQ(due->deadline().ns(), reference.begin()->first);
      ASSERT_EQ(reference.erase({due->deadline().ns(), due}), 1U);
      armed[static_cast<std::size_t>(due - timers.get())] = false;
    }
    ASSERT_EQ(queue.size(), reference.size());
    if (!reference.empty()) {
      ASSERT_EQ(queue.nearest().ns(), reference.begin()->first);
      ASSERT_GT(queue.nearest().ns(), now);
    }
  }
  while (queue.pop_due(Deadline::never()) != nullptr) {
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
  // Each that is wanted, and still there, is found once.
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

TEST(TimerQueue, is_taken_apart_whatever_state_it_is_in) {
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
  constexpr std::size_t population = 1'000'000;
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
