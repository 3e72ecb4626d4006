// The way of an event: asking the system, taking what is queued, calling the handler. What every
// event passes is in this file, so that the compiler sees it as a whole.
#include <algorithm>
#include <utility>

#include "base/assert.hpp"
#include "reactor/impl.hpp"

namespace baton {

Result<std::size_t> Reactor::Impl::turn(Deadline until, std::size_t calls_max,
                                        bool return_after_calls) {
  if (in_wrong_process()) return unexpected{make_error_code(errc::after_fork)};
  Member me;
  lock();
  if (const std::error_code error = enter(me)) {
    unlock();
    return unexpected{error};
  }
  bool late = false;
  while (!ended() && me.calls < calls_max) {
    if (BATON_UNLIKELY(leader_ == nullptr)) take_lead(me);
    if (may_take(me) && run_next(me)) {
      if (BATON_UNLIKELY(me.thrown != nullptr)) break;
      continue;
    }
    me.helps = false;
    if (return_after_calls && (me.calls > 0 || me.woken)) break;
    if (late) break;
    if (leader_ == &me) {
      lead(me, until);
      if (BATON_UNLIKELY(me.thrown != nullptr)) break;
    } else {
      rest(me, until);
    }
    late = !until.is_never() && (until.ns() <= 0 || now() >= until);
  }
  leave(me);
  unlock();
  if (me.thrown != nullptr) std::rethrow_exception(me.thrown);
  return static_cast<std::size_t>(me.calls);
}

// -- asking the system ----------------------------------------------------------------------------

inline void Reactor::Impl::lead(Member& me, Deadline until) {
  if (BATON_UNLIKELY(!late_.empty())) resume_late_ones();
  if (BATON_UNLIKELY(pinned_)) share_out();
  // What is left from before comes after what the system has found: so it is asked, and not waited
  // for.
  const bool at_once = wake_asked_ || (something_left() && work_for_leader());
  leader_deadline_ = at_once ? Deadline::immediately() : std::min(until, timers_.nearest());
  leader_waits_ = true;
  leader_interrupted_ = false;
  unlock();
  bool interrupted = false;
  const std::span reports = std::span{reports_}.first(tuning_.reports_max);
  std::size_t count = 0;
  if (BATON_LIKELY(!by_token_)) {
    count = demux_->wait(reports, leader_deadline_, interrupted);
  } else {
    token_.acquire(nullptr, nullptr);
    count = demux_->wait(reports, leader_deadline_, interrupted);
    token_.release();
  }
  lock();
  leader_waits_ = false;
  ++statistics_.waits;
  if (count == 1 && lazy_level_ && !interrupted && !pinned_ && nothing_but_reports()) {
    return lead_one(me, reports.front());
  }
  for (const Report& report : reports.first(count)) accept(report);
  if (BATON_UNLIKELY(!again_.empty() || !notifications_.empty())) refill();
  if (BATON_UNLIKELY(!timers_.nearest().is_never())) timers_.collect(now());
  if (BATON_UNLIKELY(interrupted || wake_asked_)) after_interrupt(me, interrupted);
  if (BATON_UNLIKELY(pinned_)) share_out();
}

// One report and nothing else: not worth a queue.
inline void Reactor::Impl::lead_one(Member& me, const Report& report) {
  Registration& registration = table_[report.token.index];
  const bool stale = registration.watched_as != report.token.generation;
  if (BATON_UNLIKELY(stale || registration.running || registration.ending)) return accept(report);
  registration.ready = report.ready;
  run_ready(me, registration);
}

inline void Reactor::Impl::accept(const Report& report) noexcept {
  Registration& registration = table_[report.token.index];
  // The Demultiplexer has looked at this before the mutex was taken; here it is settled.
  if (BATON_UNLIKELY(registration.watched_as != report.token.generation || registration.ending)) {
    ++statistics_.stale_reports;
    return;
  }
  if (BATON_UNLIKELY(registration.running || !level_))
    return accept_specially(registration, report);
  registration.ready = registration.ready | report.ready;
  put_ready(registration);
}

// -- taking what is queued ------------------------------------------------------------------------

// Notifications first, as many as there were when the system was last asked, then timers, then what
// is ready.
inline bool Reactor::Impl::run_next(Member& me) {
  if (BATON_UNLIKELY(notifications_now_ > 0 || timers_.has_due())) {
    if (run_from_program(me)) return true;
  }
  if (Registration* const registration = ready_.pop()) return run_ready(me, *registration), true;
  if (BATON_UNLIKELY(!closing_.empty())) return run_close(me), true;
  // Who leads asks the system first, and refills then; while it waits, it cannot.
  if (!leader_waits_ || (again_.empty() && notifications_.empty())) return false;
  refill();
  return true;
}

inline void Reactor::Impl::run_ready(Member& me, Registration& registration) {
  const Interest told = registration.told;
  const Interest what = (registration.ready & registration.desired()) | told;
  registration.ready = registration.told = Interest::none;
  if (BATON_UNLIKELY(!any(what))) return;
  if (BATON_UNLIKELY(!lazy_level_)) before_call(registration);
  registration.running = true;
  enter_handler(me);
  unlock();
  Next next = Next::keep;
  Answers answers;
  try {
    if (BATON_LIKELY(what == Interest::in)) {
      next = registration.handler->on_input(registration.fd);
    } else {
      call(registration, what, told, answers);
    }
  } catch (...) {
    me.thrown = std::current_exception();
  }
  lock();
  me.in_handler = false;
  registration.running = false;
  // The usual case: it is still in the set, for nobody asked the system meanwhile, and nothing else
  // happened to it.
  const bool plain = what == Interest::in && next == Next::keep && lazy_level_;
  if (BATON_LIKELY(plain && registration.armed == registration.wanted && !registration.suspended &&
                   !registration.ending && !any(registration.told))) {
    return;
  }
  if (what == Interest::in) note_answer(next, what, answers);
  after_answers(registration, answers);
}

}  // namespace baton
