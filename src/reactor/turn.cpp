// The path of an event: polling the system, taking queued registrations, calling the handler. The
// whole path is in this file, so that the compiler can inline it.
#include <algorithm>
#include <utility>

#include "base/assert.hpp"
#include "reactor/impl.hpp"

namespace baton {

Result<std::size_t> Reactor::Impl::turn(Deadline until, std::size_t calls_max,
                                        bool return_after_calls) {
  if (in_wrong_process()) return unexpected{make_error_code(errc::after_fork)};
  Inside here{*this};
  Member me;
  me.returns = return_after_calls;
  me.forks = forks_;
  lock();
  me.ends = ends_.load(std::memory_order_acquire) & ~1U;
  if (const std::error_code error = enter(me)) {
    unlock();
    return unexpected{error};
  }
  bool late = false;
  const bool stays = !return_after_calls && until.is_never();
  while (!is_over(me) && me.calls < calls_max) {
    if (BATON_UNLIKELY(leader_ == nullptr)) take_lead(me);
    if (may_take(me) && run_next(me)) {
      if (BATON_UNLIKELY(me.leaves || (!until.is_never() && is_late(me, until)))) break;
      continue;
    }
    me.helps = false;
    if (return_after_calls && (me.calls > 0 || wake_asked_)) break;
    if (late) break;
    if (leader_ == &me) {
      if (stays && only_reports_) {
        lead_fast(me);
      } else {
        lead(me, until);
      }
      if (BATON_UNLIKELY(me.leaves)) break;
    } else {
      rest(me, until);
      // The thread has the token now and polls once, even if it is late. Otherwise a call that does
      // not wait would never poll.
      if (BATON_UNLIKELY(by_token_)) continue;
    }
    late = !until.is_never() && is_past(until);
  }
  come_out();
  std::error_code error = me.error;
  if (BATON_LIKELY(!error)) {
    if (BATON_UNLIKELY(me.leaves)) error = demux_->broken();
    leave(me);
    unlock();
  }
  if (me.thrown != nullptr) std::rethrow_exception(me.thrown);
  if (BATON_UNLIKELY(error)) return unexpected{error};
  return static_cast<std::size_t>(me.calls);
}

// -- polling the system ---------------------------------------------------------------------------

inline void Reactor::Impl::begin_wait(Deadline until) noexcept {
  leader_deadline_ = until;
  leader_waits_ = true;
  leader_interrupted_ = false;
  refills_ = 0;
  unlock();
}

inline void Reactor::Impl::end_wait() noexcept {
  lock();
  leader_waits_ = false;
  ++statistics_.waits;
}

// Work that is left from before comes after new reports, so the system is polled without a wait. A
// thread that has left the work to another one looks again soon whether that one has taken it.
Deadline Reactor::Impl::until_when(Deadline until) noexcept {
  const bool left = something_left();
  if (left && work_for_leader()) return Deadline::immediately();
  const Deadline limit = left ? Deadline::after(pace_.shortest(), now()) : Deadline::never();
  return std::min({until, timers_.nearest(), limit});
}

void Reactor::Impl::lead(Member& me, Deadline until) {
  if (BATON_UNLIKELY(!late_.empty())) resume_late_ones();
  if (BATON_UNLIKELY(shares())) share_out();
  begin_wait(until_when(until));
  const std::span reports = std::span{reports_}.first(tuning_.reports_max);
  const std::size_t count = demux_->wait_raw(reports, leader_deadline_);
  end_wait();
  bool interrupted = accept_each(reports.first(count));
  if (BATON_UNLIKELY(count == reports.size() && some_come_unasked())) {
    interrupted = accept_the_rest(reports) || interrupted;
  }
  after_reports(me, interrupted);
  only_reports_ = nothing_but_reports();
}

// The fast path of run(): there is no work but reports. A single report goes straight to its
// handler, without the queue.
//
// The armed interest is desired, and a registration that does not run and has a notification is
// queued. So a report of a registration that does not run is the only reason to call it.
void Reactor::Impl::lead_fast(Member& me) {
  const std::span reports = std::span{reports_}.first(tuning_.reports_max);
  do {
    begin_wait(Deadline::never());
    const std::span raw = reports.first(demux_->wait_raw(reports, Deadline::never()));
    end_wait();
    if (raw.size() != 1 || BATON_UNLIKELY(!only_reports_ || !ready_.empty())) {
      return accept_all(me, raw);
    }
    Registration* one = nullptr;
    const bool interrupted = demux_->for_each(raw, [&](std::uint32_t index, Interest ready) {
      Registration& registration = table_[index];
      if (BATON_UNLIKELY(registration.running || ready != Interest::in)) {
        return accept(registration, ready);
      }
      one = &registration;
    });
    if (BATON_UNLIKELY(interrupted)) return after_interrupt(me);
    if (BATON_LIKELY(one != nullptr)) run_input(me, *one);
  } while (BATON_LIKELY(only_reports_ && leader_ == &me && ready_.empty() && !is_over(me) &&
                        !me.leaves));
}

void Reactor::Impl::accept_all(Member& me, std::span<Report> raw) noexcept {
  after_reports(me, accept_each(raw));
}

bool Reactor::Impl::accept_each(std::span<Report> raw) noexcept {
  const auto visit = [this](std::uint32_t index, Interest ready) { accept(table_[index], ready); };
  return demux_->for_each(raw, visit);
}

// The system had more reports than there was room for. Some registrations have their next turn
// without a report: by their answer, or because they were found ready when they were resumed.
// Registrations whose reports are still in the system come before the turn after that. A
// registration that stays ready is reported each time, so the loop has a bound. Reports of
// registrations that have ended do not count.
bool Reactor::Impl::accept_the_rest(std::span<Report> reports) noexcept {
  bool interrupted = false;
  std::size_t told = 0;
  const auto visit = [&](std::uint32_t index, Interest ready) {
    ++told;
    accept(table_[index], ready);
  };
  std::size_t count = reports.size();
  for (std::uint32_t i = 0; i <= made_ && told <= used_ && count == reports.size(); ++i) {
    begin_wait(Deadline::immediately());
    count = demux_->wait_raw(reports, Deadline::immediately());
    end_wait();
    interrupted = demux_->for_each(reports.first(count), visit) || interrupted;
  }
  return interrupted;
}

void Reactor::Impl::after_reports(Member& me, bool interrupted) noexcept {
  if (BATON_UNLIKELY(!again_.empty() || !notifications_.empty())) refill();
  if (BATON_UNLIKELY(!timers_.nearest().is_never())) timers_.collect(now());
  if (BATON_UNLIKELY(interrupted)) after_interrupt(me);
  if (BATON_UNLIKELY(shares())) share_out();
  if (BATON_UNLIKELY(demux_->broken())) me.leaves = true;
}

// The Demultiplexer has dropped stale reports: registrations end under the mutex that is held here.
inline void Reactor::Impl::accept(Registration& registration, Interest ready) noexcept {
  BATON_DASSERT(registration.used && !registration.ending);
  if (BATON_UNLIKELY(registration.running || !level_)) return accept_specially(registration, ready);
  registration.ready = registration.ready | ready;
  put_ready(registration);
}

// -- taking what is queued ------------------------------------------------------------------------

// Notifications first, as many as there were at the last poll of the system, then timers, then
// ready registrations.
inline bool Reactor::Impl::run_next(Member& me) {
  if (BATON_UNLIKELY(notifications_now_ > 0 || timers_.has_due())) {
    if (run_from_program(me)) return true;
  }
  if (Registration* const registration = ready_.pop()) return run_ready(me, *registration), true;
  if (BATON_UNLIKELY(!closing_.empty())) return run_close(me), true;
  // The leader polls the system before it refills the queue. While it waits, this thread refills.
  if (!leader_waits_ || (again_.empty() && notifications_.empty()) || !may_refill()) return false;
  refill();
  return true;
}

// The leader may have reports in hand, and no processor to run on. Without a bound, registrations
// that answer `again` would have thousands of turns before others have one.
bool Reactor::Impl::may_refill() noexcept {
  constexpr std::uint32_t refills_max = 16;
  if (++refills_ <= refills_max) return true;
  interrupt_leader();
  return false;
}

inline void Reactor::Impl::run_ready(Member& me, Registration& registration) {
  const Interest told = registration.told;
  const Interest what = (registration.ready & registration.desired()) | told;
  registration.ready = registration.told = Interest::none;
  if (BATON_LIKELY(what == Interest::in)) return run_input(me, registration);
  if (any(what)) run_several(me, registration, what, told);
}

inline void Reactor::Impl::run_input(Member& me, Registration& registration) {
  begin_call(me, registration);
  Next next = Next::keep;
  const Back back =
      in_user_code(me, [&] { next = registration.handler->on_input(registration.fd); });
  if (BATON_UNLIKELY(back != Back::here)) return after_input_in_child(me, registration, back, next);
  registration.running = false;
  // The usual case: no thread has polled the system meanwhile, so it is still in the set, and it
  // was not changed.
  if (BATON_LIKELY(next == Next::keep && lazy_level_ && registration.armed == registration.wanted &&
                   !registration.suspended && !registration.ending && !any(registration.told))) {
    return;
  }
  after_input(me, registration, next);
}

}  // namespace baton
