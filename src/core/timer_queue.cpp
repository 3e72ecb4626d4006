// Near and far. The base of the wheel parts them: the heap has nothing later, the wheel nothing
// earlier.
#include "core/timer_queue.hpp"

#include <utility>

namespace baton {

using Access = OperationAccess;

// The first, or one that comes before all in the wheel.
void TimerQueue::add_otherwise(Operation& operation, Key key) noexcept {
  if (empty()) far_.set_base(last_now_ != 0 ? std::min(key, last_now_) : key);
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
    operation.set_deadline(deadline);
    add(operation);
    return;
  }
  operation.set_deadline(deadline);
}

Operation* TimerQueue::find(bool (*wanted)(const Operation&)) const noexcept {
  Operation* timer = near_.first();
  while (timer != nullptr && !wanted(*timer)) timer = TimerHeap::next_in_tree(*timer);
  if (timer != nullptr) return timer;
  timer = far_.first();
  while (timer != nullptr && !wanted(*timer)) timer = far_.next(*timer);
  return timer;
}

Operation* TimerQueue::pop_due(Deadline now) noexcept {
  const Key key = TimerWheel::key_of(now);
  if (!now.is_never()) last_now_ = key;
  if (near_.top() == nullptr) {
    if (far_.empty() || far_.first_begins() > key) return nullptr;
    fetch_near();
  }
  Operation* due = near_.top();
  if (due->deadline() > now) return nullptr;
  remove(*due);
  return due;
}

// Bounded: each look at a slot empties it, and what it held goes down a level or comes here.
void TimerQueue::fetch_near() noexcept {
  while (near_.top() == nullptr && !far_.empty()) {
    for (Operation* timer = far_.take_first(); timer != nullptr;) {
      Operation& next = *std::exchange(timer, Access::sibling(*timer));
      Access::set(next, Access::timer_near);
      near_.add(next);
    }
  }
}

// More has come near than there is far away: the base is too late, as after the last timers of a
// burst have gone and those of an hour later have been looked at. Seldom: what is in the wheel and
// has to move is not more than what has come meanwhile.
void TimerQueue::give_to_wheel() noexcept {
  far_.lower_base(TimerWheel::key_of(near_.top()->deadline()));
  for (Operation* timer = near_.chain(); timer != nullptr;) {
    Operation& next = *std::exchange(timer, Access::sibling(*timer));
    Access::clear(next, Access::timer_near);
    far_.add(next);
  }
}

}  // namespace baton
