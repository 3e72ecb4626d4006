// The less usual calls of turn.cpp: notifications, timers, several events at once, and all answers
// but `keep`.
#include <utility>

#include "base/assert.hpp"
#include "reactor/impl.hpp"

namespace baton {

// Runs work that comes before reports of the system. False: there is none.
bool Reactor::Impl::run_from_program(Member& me) {
  if (notifications_now_ > 0) {
    --notifications_now_;
    // Some may have been purged.
    if (!notifications_.empty()) return run_notification(me), true;
    notifications_now_ = 0;
  }
  reactor::ReactorTimer* const timer = timers_.next_due();
  if (timer == nullptr) return false;
  run_timer(me, *timer);
  return true;
}

// After a call for input with an answer other than `keep`, or a change of the registration.
void Reactor::Impl::after_input(Member& me, Registration& registration, Next next) noexcept {
  Answers answers;
  note_answer(next, Interest::in, answers);
  after_answers(me, registration, answers);
}

void Reactor::Impl::after_input_in_child(Member& me, Registration& registration, Back back,
                                         Next next) noexcept {
  Answers answers;
  note_answer(next, Interest::in, answers);
  after_fork(me, registration, back, answers);
}

// For other events than input alone.
void Reactor::Impl::run_several(Member& me, Registration& registration, Interest what,
                                Interest told) {
  begin_call(me, registration);
  Answers answers;
  const Back back = in_user_code(me, [&] { call(me, registration, what, told, answers); });
  if (BATON_UNLIKELY(back != Back::here)) return after_fork(me, registration, back, answers);
  registration.running = false;
  // After an exception: the system reports readiness again, but not notifications.
  if (BATON_UNLIKELY(me.thrown != nullptr)) registration.told = registration.told | (what & told);
  after_answers(me, registration, answers);
}

// In a forked child that has reopened the reactor, calls of the parent count as returned. The
// answer of such a call still counts, unless the registration was called again or has ended.
void Reactor::Impl::after_fork(Member& me, Registration& registration, Back back,
                               const Answers& answers) noexcept {
  if (back == Back::lost || !std::exchange(registration.forked, false)) return;
  if (!registration.running && !registration.ending) after_answers(me, registration, answers);
}

void Reactor::Impl::refill() noexcept {
  ready_.append(again_);
  notifications_now_ = notifications_.size();
}

void Reactor::Impl::before_call(Registration& registration) noexcept {
  if (edge_) registration.armed = Interest::none;  // the report has disarmed it
  if (tuning_.suspension != ReactorTuning::Suspension::eager) return;
  unwatch(registration, registration.armed);
  ++statistics_.suspended;
}

// Output comes before input, as in ACE, so that room is made before more data comes in. `what` and
// `told` return the events that were not called.
void Reactor::Impl::call(const Member& me, Registration& registration, Interest& what,
                         Interest& told, Answers& answers) {
  for (const Interest one : {Interest::out, Interest::urgent, Interest::in}) {
    if (!any(what & one)) continue;
    what = what - one;
    ask(registration, one, answers);
    if (!any(what)) return;
    if (answers.remove || me.forks != os::fork_generation()) return;
    // The registration may have been removed, suspended or changed meanwhile, also by that call.
    const os::LockGuard guard(mutex_, system_);
    if (registration.ending) return;
    // A notification that came meanwhile is merged with a call that is due anyway.
    told = told | (registration.told & what);
    what = what & (registration.desired() | told);
    registration.told = registration.told - what;
  }
}

void Reactor::Impl::ask(Registration& registration, Interest what, Answers& answers) {
  EventHandler& handler = *registration.handler;
  const NativeHandle fd = registration.fd;
  note_answer(what == Interest::in    ? handler.on_input(fd)
              : what == Interest::out ? handler.on_output(fd)
                                      : handler.on_exception(fd),
              what, answers);
}

void Reactor::Impl::note_answer(Next next, Interest what, Answers& answers) noexcept {
  if (next == Next::again) answers.again = answers.again | what;
  if (next == Next::drop) answers.drop = answers.drop | what;
  if (next == Next::remove) answers.remove = true;
}

void Reactor::Impl::after_answers(Member& me, Registration& registration,
                                  const Answers& answers) noexcept {
  if (BATON_UNLIKELY(registration.ending)) return static_cast<void>(close(registration, &me));
  if (BATON_UNLIKELY(answers.remove || any(answers.drop))) {
    registration.wanted = registration.wanted - answers.drop;
    if (answers.remove || !any(registration.wanted)) {
      begin_end(registration, {});
      return static_cast<void>(close(registration, &me));
    }
  }
  if (any(answers.again & registration.desired())) {
    registration.ready = registration.ready | (answers.again & registration.desired());
    again_.push(registration);
    only_reports_ = false;
  }
  after_call(registration);
}

void Reactor::Impl::run_notification(Member& me) {
  reactor::Notifications one = notifications_.pop();
  count_call(me);
  const Back back = in_user_code(me, [&one] {
    // Destroying the kept object runs user code.
    const reactor::Notification notification = std::exchange(one.front(), {});
    tell(notification);
  });
  if (BATON_LIKELY(back == Back::here)) notifications_.keep(one);
}

void Reactor::Impl::tell(const reactor::Notification& notification) {
  if (notification.handler == nullptr) {
    if (notification.work) notification.work();
    return;
  }
  EventHandler& handler = *notification.handler;
  if (any(notification.as & Interest::out)) handler.on_output(invalid_handle);
  if (any(notification.as & Interest::urgent)) handler.on_exception(invalid_handle);
  if (any(notification.as & Interest::in)) handler.on_input(invalid_handle);
}

// The timer's object is kept alive here, because in a forked child its record may be free.
void Reactor::Impl::run_timer(Member& me, reactor::ReactorTimer& timer) {
  EventHandler& handler = *timer.handler;
  Kept kept = std::move(timer.kept);
  Next next = Next::keep;
  count_call(me);
  const Back back = in_user_code(me, [&] { next = handler.on_timeout(timer.key(), timer.due); });
  if (BATON_UNLIKELY(back == Back::lost)) return;
  if (back == Back::here) {
    const bool goes_on = next == Next::keep || next == Next::again;
    const Deadline after = timer.interval > Duration{0} ? now() : Deadline::never();
    if (timers_.finish(timer, goes_on, after, kept)) return timer_armed();
  }
  if (kept == nullptr && next != Next::remove) return;
  static_cast<void>(in_user_code(me, [&] {
    if (next == Next::remove) handler.on_close(invalid_handle, {});
    kept.reset();
  }));
}

void Reactor::Impl::run_close(Member& me) {
  count_call(me);
  static_cast<void>(close(*closing_.pop(), &me));
}

}  // namespace baton
