// The timers: free, armed, due, running, and free again.
#include "reactor/timer_table.hpp"

#include <utility>

#include "base/assert.hpp"

namespace baton::reactor {

using State = ReactorTimer::State;

ReactorTimer* TimerTable::take(bool& full) noexcept {
  full = false;
  ReactorTimer* timer = free_;
  if (timer != nullptr) {
    free_ = timer->next;
  } else {
    full = made_ == timers_.bound();
    if (full || !timers_.ensure(made_)) return nullptr;
    timer = &timers_[made_];
    timer->index = made_++;
  }
  timer->next = nullptr;
  timer->cancelled = false;
  ++used_;
  return timer;
}

void TimerTable::arm(ReactorTimer& timer, Deadline when) noexcept {
  BATON_ASSERT(timer.state == State::free || timer.state == State::running);
  timer.state = State::armed;
  timer.due = when;
  timer.set_deadline(when);
  armed_.add(timer);
}

ReactorTimer* TimerTable::find(TimerKey key) noexcept {
  if (key.index >= made_) return nullptr;
  ReactorTimer& timer = timers_[key.index];
  const bool same = timer.generation == key.generation && timer.state != State::free;
  return same && !timer.cancelled ? &timer : nullptr;
}

ReactorTimer* TimerTable::find_of(const EventHandler& handler) noexcept {
  for (std::uint32_t i = 0; i < made_; ++i) {
    ReactorTimer& timer = timers_[i];
    if (timer.handler == &handler && !timer.cancelled) return &timer;
  }
  return nullptr;
}

std::size_t TimerTable::collect(Deadline now) noexcept {
  std::size_t count = 0;
  while (Operation* due = armed_.pop_due(now)) {
    auto& timer = static_cast<ReactorTimer&>(*due);
    timer.state = State::due;
    timer.next = nullptr;
    (last_due_ != nullptr ? last_due_->next : first_due_) = &timer;
    last_due_ = &timer;
    ++count;
  }
  return count;
}

ReactorTimer* TimerTable::next_due() noexcept {
  while (ReactorTimer* timer = first_due_) {
    first_due_ = timer->next;
    if (first_due_ == nullptr) last_due_ = nullptr;
    if (!timer->cancelled) {
      timer->state = State::running;
      return timer;
    }
    std::shared_ptr<EventHandler> nothing;  // was moved out by cancel
    release(*timer, nothing);
  }
  return nullptr;
}

bool TimerTable::cancel(ReactorTimer& timer, std::shared_ptr<EventHandler>& kept) noexcept {
  switch (timer.state) {
    case State::armed:
      armed_.remove(timer);
      release(timer, kept);
      return true;
    case State::due:
      timer.cancelled = true;
      kept = std::move(timer.kept);
      return true;
    case State::running:
      timer.cancelled = true;
      return timer.interval > Duration{0};
    case State::free:
      break;
  }
  BATON_UNREACHABLE("a timer that is free was found");
}

// What was missed while nobody looked is not made up for: the next one is in the future.
void TimerTable::finish(ReactorTimer& timer, bool goes_on, Deadline now,
                        std::shared_ptr<EventHandler>& kept) noexcept {
  BATON_ASSERT(timer.state == State::running);
  if (!goes_on || timer.cancelled || timer.interval <= Duration{0}) {
    release(timer, kept);
    return;
  }
  const std::int64_t missed = (now.ns() - timer.due.ns()) / timer.interval.count();
  const std::int64_t steps = missed > 0 ? missed + 1 : 1;
  arm(timer, Deadline::after(Duration{timer.interval.count() * steps}, timer.due));
}

void TimerTable::forget_running() noexcept {
  std::shared_ptr<EventHandler> kept;
  for (std::uint32_t i = 0; i < made_; ++i) {
    if (timers_[i].state == State::running) release(timers_[i], kept);
  }
}

void TimerTable::release(ReactorTimer& timer, std::shared_ptr<EventHandler>& kept) noexcept {
  timer.state = State::free;
  ++timer.generation;
  timer.handler = nullptr;
  if (timer.kept != nullptr) kept = std::move(timer.kept);
  timer.next = std::exchange(free_, &timer);
  BATON_ASSERT(used_ > 0);
  --used_;
}

}  // namespace baton::reactor
