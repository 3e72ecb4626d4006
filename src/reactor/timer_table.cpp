// The states of a timer: free, armed, due, running, and free again.
#include "reactor/timer_table.hpp"

#include <utility>

#include "base/assert.hpp"
#include "baton/limits.hpp"
#include "reactor/registration.hpp"

namespace baton::reactor {

using State = ReactorTimer::State;
using Kept = std::shared_ptr<EventHandler>;

namespace {

// Missed expiries are skipped: the next one is in the future. The difference is unsigned, because
// that of two deadlines may exceed the signed range.
Deadline next_after(const ReactorTimer& timer, Deadline now) noexcept {
  if (now <= timer.due) return Deadline::after(timer.interval, timer.due);
  const auto late =
      static_cast<std::uint64_t>(now.ns()) - static_cast<std::uint64_t>(timer.due.ns());
  const auto begun = late % static_cast<std::uint64_t>(timer.interval.count());
  return Deadline::after(timer.interval - Duration{static_cast<std::int64_t>(begun)}, now);
}

}  // namespace

ReactorTimer* TimerTable::take(EventHandler& handler, bool& full) noexcept {
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
  timer->handler = &handler;
  by_handler_.add(*timer);
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

void TimerTable::collect(Deadline now) noexcept {
  for (std::size_t count = 0; count < limits::handlers_per_look; ++count) {
    Operation* const due = armed_.pop_due(now);
    if (due == nullptr) return;
    auto& timer = static_cast<ReactorTimer&>(*due);
    timer.state = State::due;
    timer.next = nullptr;
    (last_due_ != nullptr ? last_due_->next : first_due_) = &timer;
    last_due_ = &timer;
  }
}

ReactorTimer* TimerTable::next_due() noexcept {
  while (ReactorTimer* timer = first_due_) {
    first_due_ = timer->next;
    if (first_due_ == nullptr) last_due_ = nullptr;
    if (!timer->cancelled) {
      timer->state = State::running;
      return timer;
    }
    release(*timer);
  }
  return nullptr;
}

bool TimerTable::cancel(ReactorTimer& timer, Kept& kept) noexcept {
  BATON_ASSERT(timer.state != State::free && !timer.cancelled);
  timer.cancelled = true;
  by_handler_.remove(timer);
  if (timer.state == State::running) return timer.interval > Duration{0};
  kept = std::move(timer.kept);
  if (timer.state == State::armed) {
    armed_.remove(timer);
    release(timer);
  }
  return true;
}

std::size_t TimerTable::cancel_some(const EventHandler& handler, std::span<Kept> kept,
                                    std::size_t& quiet) noexcept {
  std::size_t count = 0;
  for (; count < kept.size(); ++count) {
    ReactorTimer* const timer = by_handler_.first(handler);
    if (timer == nullptr) return count;
    if (cancel(*timer, kept[count])) ++quiet;
  }
  return count;
}

Kept TimerTable::give_up(std::uint32_t index) noexcept {
  Kept kept;
  ReactorTimer& timer = timers_[index];
  if (timer.state != State::free && !timer.cancelled) static_cast<void>(cancel(timer, kept));
  return kept;
}

bool TimerTable::finish(ReactorTimer& timer, bool goes_on, Deadline now, Kept& kept) noexcept {
  BATON_ASSERT(timer.state == State::running);
  if (!goes_on || timer.cancelled || timer.interval <= Duration{0}) {
    release(timer);
    return false;
  }
  timer.kept = std::move(kept);
  arm(timer, next_after(timer, now));
  return true;
}

void TimerTable::forget_running() noexcept {
  for (std::uint32_t i = 0; i < made_; ++i) {
    if (timers_[i].state == State::running) release(timers_[i]);
  }
}

void TimerTable::release(ReactorTimer& timer) noexcept {
  if (!timer.cancelled) by_handler_.remove(timer);
  BATON_ASSERT(timer.kept == nullptr && used_ > 0);
  timer.state = State::free;
  timer.generation = next_generation(timer.generation);
  timer.handler = nullptr;
  timer.next = std::exchange(free_, &timer);
  --used_;
}

}  // namespace baton::reactor
