// TimerQueue: deadlines in order, intrusive, without allocation. What is near stands in a heap,
// whose order is exact, everything else in a wheel, where a timer that is cancelled or put off
// before it comes near - as most are - costs a few instructions however many there are. All in the
// heap are due before all in the wheel; when the heap is empty, the wheel's first slot goes there.
// Nothing fires early, and the nearest deadline is exact to the nanosecond.
//
// docs/decisions/0004-timers.md has the figures. Guarded as the lane it belongs to.
#pragma once

#include <algorithm>
#include <cstddef>

#include "baton/deadline.hpp"
#include "baton/operation.hpp"
#include "core/access.hpp"
#include "core/timer_heap.hpp"
#include "core/timer_wheel.hpp"

namespace baton {

class TimerQueue {
 public:
  [[nodiscard]] bool empty() const noexcept { return size() == 0; }
  [[nodiscard]] std::size_t size() const noexcept { return near_.size() + far_.size(); }
  /// never() when empty. May sort what comes next.
  [[nodiscard]] Deadline nearest() noexcept {
    if (BATON_UNLIKELY(near_.top() == nullptr)) fetch_near();
    return near_.top() != nullptr ? near_.top()->deadline() : Deadline::never();
  }

  /// Uses operation.deadline(). REQUIRES: not in a queue.
  void add(Operation& operation) noexcept;
  /// REQUIRES: in this queue.
  void remove(Operation& operation) noexcept;
  /// Another deadline for a timer. One that is put off before it comes near stays where it is.
  /// REQUIRES: in this queue.
  void move(Operation& operation, Deadline deadline) noexcept;
  /// One that is wanted, or null; looks at every timer.
  [[nodiscard]] Operation* find(bool (*wanted)(const Operation&)) const noexcept;
  /// Calls visit(const Operation&) for at most so many, in no order; how many.
  template <class Visit>
  std::size_t for_each(std::size_t visits_max, Visit&& visit) const noexcept {
    std::size_t visits = 0;
    Operation* timer = near_.first();
    for (; timer != nullptr && visits < visits_max; timer = TimerHeap::next_in_tree(*timer)) {
      visit(*timer), ++visits;
    }
    timer = visits < visits_max ? far_.first() : nullptr;
    for (; timer != nullptr && visits < visits_max; timer = far_.next(*timer)) {
      visit(*timer), ++visits;
    }
    return visits;
  }
  /// The earliest if it is due at `now`, removed; else null.
  Operation* pop_due(Deadline now) noexcept;
  /// For a forked child, where a thread of the parent may have been in the midst of a change: calls
  /// `end` once for each pending operation that can be found; it must leave them not pending. The
  /// queue is empty then.
  void take_apart(void (*end)(Operation&)) noexcept {
    near_.take_apart(end);
    far_.take_apart(end);
  }

 private:
  using Key = TimerWheel::Key;
  /// A heap of so many costs no more than a wheel.
  static constexpr std::size_t near_min = 64;

  void add_otherwise(Operation& operation, Key key) noexcept;
  void fetch_near() noexcept;
  void give_to_wheel() noexcept;

  TimerHeap near_;
  TimerWheel far_;
  Key last_now_ = 0;  // of pop_due
};

inline void TimerQueue::add(Operation& operation) noexcept {
  BATON_ASSERT(!OperationAccess::has(operation, OperationAccess::timer_armed));
  OperationAccess::set(operation, OperationAccess::timer_armed);
  const Key key = TimerWheel::key_of(operation.deadline());
  if (BATON_LIKELY(!far_.empty() && key >= far_.base())) {
    far_.add(operation);
  } else {
    add_otherwise(operation, key);
  }
}

inline void TimerQueue::remove(Operation& operation) noexcept {
  BATON_ASSERT(OperationAccess::has(operation, OperationAccess::timer_armed));
  const bool near = OperationAccess::has(operation, OperationAccess::timer_near);
  OperationAccess::clear(operation, OperationAccess::timer_near);
  OperationAccess::clear(operation, OperationAccess::timer_armed);
  if (near) {
    near_.remove(operation);
  } else {
    far_.remove(operation);
  }
}

}  // namespace baton
