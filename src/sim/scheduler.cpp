// The choice of the next thread.
#include "sim/scheduler.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include "base/assert.hpp"

namespace baton::sim {

Scheduler::Thread::Thread(Scheduler& of, std::uint32_t index)
    : scheduler(of), number(index), fiber(thread_main, this) {}

Scheduler::Scheduler(Random& random, History& history) : random_(random), history_(history) {
  ready_.reserve(threads_max);  // a switch needs no memory
  sleeping_.reserve(threads_max);
}
Scheduler::~Scheduler() = default;

// -- a run ----------------------------------------------------------------------------------------

void Scheduler::reset() noexcept {
  now_ = 1'000'000'000;  // not 0: a clock that begins at 0 would hide a time that was never set
  next_due_ = next_deadline_ = never;
  disturbed_ = false;
  put_off_ = 0;
  order_ = 0;
  current_ = main_ = nullptr;
  ready_.clear();
  sleeping_.clear();
  for (const Due& due : events_) {
    if (due.target != nullptr) due.target->events_ = 0;
  }
  events_.clear();
  violation_.clear();
}

bool Scheduler::run(const Schedule& schedule, std::uint64_t points_max, void (*entry)(void*),
                    void* argument) {
  BATON_ASSERT(current_ == nullptr);
  reset();
  schedule_ = schedule;
  switches_left_ = points_max;
  draw_switch();
  const std::uint32_t number = start(entry, argument);
  BATON_ASSERT(number != 0);
  main_ = threads_[number - 1].get();
  std::erase(ready_, main_);
  current_ = main_;
  Fiber::run(root_, main_->fiber);
  if (violation_.empty()) {
    for (const auto& thread : threads_) {
      if (thread->state == State::ended) thread->state = State::pooled;
      if (thread->state != State::pooled)
        violation_ = "the program has ended, and a thread has not";
    }
  }
  return violation_.empty();
}

// A fiber runs one thread after the other and waits in the pool in between.
void Scheduler::thread_main(void* argument) noexcept {
  Thread& self = *static_cast<Thread*>(argument);
  Scheduler& all = self.scheduler;
  for (;;) {
    self.entry(self.argument);
    all.note(Event::fiber_end, self.number);
    self.state = State::ended;
    all.wake(&self, ~0U);
    if (&self == all.main_) {
      self.state = State::pooled;
      all.current_ = nullptr;
      Fiber::run(self.fiber, all.root_);
    } else {
      all.go_on();
    }
  }
}

void Scheduler::violated(std::string what) noexcept {
  if (violation_.empty()) violation_ = std::move(what);
  leave();
}

// Leaves all threads where they are; none of them continues.
void Scheduler::leave() noexcept {
  Thread& self = *current_;
  Fiber::run(self.fiber, root_);
  BATON_UNREACHABLE("a run that was violated goes on");
}

// -- threads --------------------------------------------------------------------------------------

Scheduler::Thread* Scheduler::take_from_pool() noexcept try {
  for (const auto& each : threads_) {
    if (each->state == State::pooled) return each.get();
  }
  if (threads_.size() == threads_max) return nullptr;
  threads_.push_back(
      std::make_unique<Thread>(*this, static_cast<std::uint32_t>(threads_.size()) + 1));
  return threads_.back().get();
} catch (const std::bad_alloc&) {
  return nullptr;
}

std::uint32_t Scheduler::start(void (*entry)(void*), void* argument) noexcept {
  Thread* const thread = take_from_pool();
  if (thread == nullptr) return 0;
  thread->entry = entry;
  thread->argument = argument;
  thread->starved_until = 0;
  thread->lock = nullptr;
  make_ready(*thread);
  note(Event::fiber_start, thread->number);
  return thread->number;
}

void Scheduler::join(std::uint32_t number) noexcept {
  Thread& thread = *threads_[number - 1];
  while (thread.state != State::ended) sleep(&thread, never);
  thread.state = State::pooled;
}

void Scheduler::make_ready(Thread& thread) noexcept {
  thread.state = State::ready;
  ready_.push_back(&thread);
}

void Scheduler::draw_switch() noexcept {
  until_switch_ = 1 + random_.below(2 * schedule_.points_per_switch);
}

void Scheduler::switch_by_chance() noexcept {
  draw_switch();
  if (--switches_left_ == 0) violated("no end: the program spins, or the work never comes to rest");
  if (random_.chance(schedule_.pause)) {
    put_off(random_.between(1'000, 1'000'000));
    return;
  }
  if (ready_.empty()) return;
  if (random_.chance(schedule_.starve)) {
    current_->starved_until = now_ + random_.between(10'000, 5'000'000);
  }
  make_ready(*current_);
  go_on();
}

void Scheduler::put_off(std::int64_t span_ns) noexcept {
  ++put_off_;
  work(span_ns);
  --put_off_;
  disturbed_ = true;
}

void Scheduler::yield() noexcept {
  point();
  if (ready_.empty()) return;
  make_ready(*current_);
  go_on();
}

// Chooses a thread that can run and is not starved at present. If all are starved, any of them.
Scheduler::Thread* Scheduler::pick() noexcept {
  std::size_t chosen = random_.below(static_cast<std::uint32_t>(ready_.size()));
  for (std::size_t i = 0; i < ready_.size(); ++i) {
    const std::size_t at = (chosen + i) % ready_.size();
    if (ready_[at]->starved_until <= now_) {
      chosen = at;
      break;
    }
  }
  Thread* thread = ready_[chosen];
  ready_[chosen] = ready_.back();
  ready_.pop_back();
  return thread;
}

// Switches away from the running thread, which is in one of the lists or has ended.
void Scheduler::go_on() noexcept {
  while (ready_.empty()) {
    if (next_due_ == never) {
      if (const char* wrong = wrong_while_all_sleep(never)) violated(wrong);
      violated("every thread sleeps, nothing is to come, and work is pending: a wake-up was lost");
    }
    if (--switches_left_ == 0) violated("no end: time passes, and the work never comes to rest");
    if (next_due_ > now_) {
      if (const char* wrong = wrong_while_all_sleep(next_due_)) violated(wrong);
      note(Event::jump, next_due_ - now_);
      now_ = next_due_;
    }
    fire_due();
  }
  go_to(*pick());
}

const char* Scheduler::wrong_while_all_sleep(std::int64_t until) const noexcept {
  if (put_off_ != 0) return nullptr;
  for (const Thread* thread : sleeping_) {
    // relaxed: all threads are fibers of one.
    if (thread->lock != nullptr && thread->lock->load(std::memory_order_relaxed) == 0) {
      return "a lock is free, and a thread sleeps for it";
    }
  }
  return idle_look_ != nullptr ? idle_look_(idle_context_, until) : nullptr;
}

void Scheduler::go_to(Thread& next) noexcept {
  Thread& self = *current_;
  if (&next == &self) return;
  note(Event::fiber_switch, self.number, next.number);
  current_ = &next;
  Fiber::run(self.fiber, next.fiber);
}

// -- sleeping -------------------------------------------------------------------------------------

bool Scheduler::sleep(const void* key, std::int64_t deadline_ns) noexcept {
  Thread& self = *current_;
  if (deadline_ns <= now_) return false;
  if (random_.chance(schedule_.spurious)) {
    deadline_ns = std::min(deadline_ns, now_ + random_.between(0, 20'000));
  }
  self.state = State::sleeping;
  self.key = key;
  self.deadline = deadline_ns;
  self.woken = false;
  sleeping_.push_back(&self);
  next_deadline_ = std::min(next_deadline_, deadline_ns);
  next_due_ = std::min(next_due_, deadline_ns);
  note(Event::sleep, self.number, deadline_ns != never ? 1 : 0);
  go_on();
  return self.woken;
}

bool Scheduler::sleep_for_lock(const std::atomic<std::uint32_t>& word,
                               std::int64_t deadline_ns) noexcept {
  Thread& self = *current_;
  self.lock = &word;
  const bool woken = sleep(&word, deadline_ns);
  self.lock = nullptr;
  return woken;
}

std::uint32_t Scheduler::wake(const void* key, std::uint32_t count) noexcept {
  std::uint32_t woken = 0;
  const std::size_t size = sleeping_.size();
  if (size == 0) return 0;
  // Begins anywhere in the list, so that no thread is always the first.
  const std::size_t begin = size > 1 ? random_.below(static_cast<std::uint32_t>(size)) : 0;
  std::size_t kept = size;
  for (std::size_t i = 0; i < kept && woken < count;) {
    const std::size_t at = (begin + i) % kept;
    Thread* thread = sleeping_[at];
    if (thread->key != key) {
      ++i;
      continue;
    }
    thread->woken = true;
    sleeping_[at] = sleeping_.back();
    sleeping_.pop_back();
    --kept;
    i = 0;
    make_ready(*thread);
    note(Event::wake, thread->number);
    ++woken;
  }
  return woken;
}

void Scheduler::work(std::int64_t span_ns) noexcept {
  const std::int64_t end = now_ + span_ns;
  while (now_ < end) sleep(&end, end);
}

void Scheduler::expire() noexcept {
  std::int64_t nearest = never;
  for (std::size_t i = 0; i < sleeping_.size();) {
    Thread* thread = sleeping_[i];
    if (thread->deadline > now_) {
      nearest = std::min(nearest, thread->deadline);
      ++i;
      continue;
    }
    sleeping_[i] = sleeping_.back();
    sleeping_.pop_back();
    make_ready(*thread);
    note(Event::time_out, thread->number);
  }
  next_deadline_ = nearest;
}

// -- events ---------------------------------------------------------------------------------------

void Scheduler::at(std::int64_t when_ns, Target& target, std::uint32_t what) noexcept {
  ++target.events_;
  events_.push_back({when_ns, order_++, &target, what});
  std::push_heap(events_.begin(), events_.end());
  next_due_ = std::min(next_due_, when_ns);
}

void Scheduler::forget(Target& target) noexcept {
  if (target.events_ == 0) return;
  for (Due& due : events_) {
    if (due.target == &target) due.target = nullptr;
  }
  target.events_ = 0;
}

void Scheduler::fire_due() noexcept {
  while (!events_.empty() && events_.front().when <= now_) {
    std::pop_heap(events_.begin(), events_.end());
    const Due due = events_.back();
    events_.pop_back();
    if (due.target == nullptr) continue;  // forgotten
    --due.target->events_;
    due.target->fire(due.what);
  }
  if (next_deadline_ <= now_) expire();
  next_due_ = std::min(next_deadline_, events_.empty() ? never : events_.front().when);
}

}  // namespace baton::sim
