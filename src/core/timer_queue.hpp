// TimerQueue: deadlines in order, intrusive, without allocation. Timers go into a wheel. Most of
// them are cancelled or postponed before they come near, and there that takes a few instructions,
// however many there are. When nothing nearer is left, the timers of the wheel's first slot move to
// a sorted row. Timers that are added later and are due before everything in the wheel go into a
// heap. No timer fires early, and the nearest deadline is exact to the nanosecond.
//
// docs/decisions/0004-timers.md has the figures. Guarded like the lane that owns it.
#pragma once

#include <algorithm>
#include <cstddef>

#include "baton/deadline.hpp"
#include "baton/operation.hpp"
#include "baton/operation_queue.hpp"
#include "core/access.hpp"
#include "core/timer_heap.hpp"
#include "core/timer_row.hpp"
#include "core/timer_wheel.hpp"

namespace baton {

class TimerQueue {
 public:
  [[nodiscard]] bool empty() const noexcept { return size() == 0; }
  [[nodiscard]] std::size_t size() const noexcept {
    return next_.size() + near_.size() + far_.size();
  }
  /// never() when empty. May sort the next timers.
  [[nodiscard]] Deadline nearest() noexcept {
    const Operation* const timer = first();
    return timer != nullptr ? timer->deadline() : Deadline::never();
  }

  /// Uses operation.deadline(). REQUIRES: not in a queue.
  void add(Operation& operation) noexcept;
  /// REQUIRES: in this queue.
  void remove(Operation& operation) noexcept;
  /// Changes the deadline of a timer. A postponed timer keeps its place, except in the heap.
  /// REQUIRES: in this queue.
  void move(Operation& operation, Deadline deadline) noexcept;
  /// A timer for which wanted(const Operation&) is true, or null. Visits the timers in no order.
  template <class Predicate>
  [[nodiscard]] Operation* find(Predicate&& wanted) const noexcept {
    if (Operation* const timer = next_.find(wanted)) return timer;
    Operation* timer = near_.first();
    while (timer != nullptr && !wanted(*timer)) timer = TimerHeap::next_in_tree(*timer);
    if (timer != nullptr) return timer;
    timer = far_.first();
    while (timer != nullptr && !wanted(*timer)) timer = far_.next(*timer);
    return timer;
  }
  /// Queues all timers for which wanted(const Operation&) is true, by links that a timer does not
  /// use. Visits each timer once.
  template <class Predicate>
  void find_all(OperationQueue& found, Predicate&& wanted) const noexcept {
    static_cast<void>(find([&](Operation& timer) {
      if (wanted(timer)) found.push_back(timer);
      return false;
    }));
  }
  /// Calls visit(const Operation&) for at most `visits_max` timers, in no order. Returns their
  /// number.
  template <class Visit>
  std::size_t for_each(std::size_t visits_max, Visit&& visit) const noexcept {
    std::size_t visits = 0;
    static_cast<void>(find([&](const Operation& timer) {
      if (visits == visits_max) return true;
      visit(timer), ++visits;
      return false;
    }));
    return visits;
  }
  /// Removes and returns the earliest timer if it is due at `now`; else returns null.
  Operation* pop_due(Deadline now) noexcept;
  /// For a forked child, where a thread of the parent may have been in the middle of a change.
  /// Calls `end` once for each pending operation that can be found; `end` must leave it not
  /// pending. The queue is empty afterwards.
  void take_apart(void (*end)(Operation&)) noexcept {
    next_.take_apart(end);
    near_.take_apart(end);
    far_.take_apart(end);
  }

 private:
  using Key = TimerWheel::Key;
  /// A heap of this size costs no more than a wheel.
  static constexpr std::size_t near_min = 64;

  /// The earliest, or null.
  [[nodiscard]] Operation* first() noexcept {
    Operation* const next = next_.first();
    if (BATON_LIKELY(next != nullptr && near_.top() == nullptr && !TimerRow::was_put_off(*next))) {
      return next;
    }
    return first_otherwise();
  }
  Operation* first_otherwise() noexcept;
  void file(Operation& operation) noexcept;
  void file_otherwise(Operation& operation, Key key) noexcept;
  void give_to_wheel() noexcept;

  TimerRow next_;
  TimerHeap near_;
  TimerWheel far_;
  Key last_now_ = 0;  // of the last pop_due
};

inline void TimerQueue::file(Operation& operation) noexcept {
  const Key key = TimerWheel::key_of(operation.deadline());
  if (BATON_LIKELY(!far_.empty() && key >= far_.base())) {
    far_.add(operation);
  } else {
    file_otherwise(operation, key);
  }
}

inline void TimerQueue::add(Operation& operation) noexcept {
  BATON_ASSERT(!OperationAccess::has(operation, OperationAccess::timer_armed));
  OperationAccess::set(operation, OperationAccess::timer_armed);
  file(operation);
}

inline void TimerQueue::remove(Operation& operation) noexcept {
  using Access = OperationAccess;
  BATON_ASSERT(Access::has(operation, Access::timer_armed));
  Access::clear(operation, Access::timer_armed);
  if (BATON_UNLIKELY(Access::has(operation, Access::timer_near))) {
    Access::clear(operation, Access::timer_near);
    near_.remove(operation);
  } else if (Access::has(operation, Access::timer_next)) {
    next_.remove(operation);
  } else {
    far_.remove(operation);
  }
}

}  // namespace baton
