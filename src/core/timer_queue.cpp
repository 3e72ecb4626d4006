// Row, heap and wheel. The base of the wheel separates them: row and heap have nothing later, the
// wheel has nothing earlier.
#include "core/timer_queue.hpp"

#include <utility>

namespace baton {

using Access = OperationAccess;

// Adds the first timer, or one that is due before everything in the wheel. If the first timer is
// due already, the base is set a little earlier, for timers that were due a little earlier.
void TimerQueue::file_otherwise(Operation& operation, Key key) noexcept {
  constexpr Key a_little = Key{1} << 20;  // nanoseconds
  if (empty()) {
    const bool late = last_now_ == 0 || key <= last_now_;
    far_.set_base(late ? key - std::min(key, a_little) : last_now_);
  }
  if (key >= far_.base()) {
    far_.add(operation);
    return;
  }
  Access::set(operation, Access::timer_near);
  near_.add(operation);
  if (near_.size() > std::max(near_min, far_.size())) give_to_wheel();
}

void TimerQueue::move(Operation& operation, Deadline deadline) noexcept {
  BATON_ASSERT(Access::has(operation, Access::timer_armed));
  if (Access::has(operation, Access::timer_near) || deadline < operation.deadline()) {
    remove(operation);
    Access::set_deadline(operation, deadline);
    add(operation);
    return;
  }
  Access::set_deadline(operation, deadline);
}

// Bounded: a postponed timer goes to its right place, and each visit to a slot of the wheel empties
// it into lower levels or the row.
Operation* TimerQueue::first_otherwise() noexcept {
  for (;;) {
    Operation* const next = next_.first();
    if (next == nullptr) {
      if (near_.top() != nullptr || far_.empty()) return near_.top();
      far_.give_first(next_);
    } else if (TimerRow::was_put_off(*next)) {
      next_.pop(*next);
      file(*next);
    } else {
      Operation* const added = near_.top();
      return added != nullptr && added->deadline() < next->deadline() ? added : next;
    }
  }
}

Operation* TimerQueue::pop_due(Deadline now) noexcept {
  const Key key = TimerWheel::key_of(now);
  if (!now.is_never()) last_now_ = key;
  // Timers that are not due yet may as well stay in their slot.
  if (next_.empty() && near_.top() == nullptr && (far_.empty() || far_.first_begins() > key)) {
    return nullptr;
  }
  Operation* const due = first();
  if (due == nullptr || due->deadline() > now) return nullptr;
  Access::clear(*due, Access::timer_armed);
  if (BATON_LIKELY(Access::has(*due, Access::timer_next))) {
    next_.pop(*due);
  } else {
    Access::clear(*due, Access::timer_near);
    near_.remove(*due);
  }
  return due;
}

// Moves the row and the heap into the wheel. The heap holds more timers than the wheel, so the base
// is too late. This happens when a burst has fired and the next timers are an hour away. It is
// rare, and moves no more timers of the wheel than were added meanwhile.
void TimerQueue::give_to_wheel() noexcept {
  Deadline base = near_.top()->deadline();
  if (!next_.empty()) base = std::min(base, next_.begins());
  far_.lower_base(TimerWheel::key_of(base));
  while (Operation* const next = next_.first()) {
    next_.pop(*next);
    far_.add(*next);
  }
  for (Operation* timer = near_.chain(); timer != nullptr;) {
    Operation& next = *std::exchange(timer, Access::sibling(*timer));
    Access::clear(next, Access::timer_near);
    far_.add(next);
  }
}

}  // namespace baton
