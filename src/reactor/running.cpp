// Calling what turn.cpp has taken, where it is not the usual case: notifications, timers, several
// events at once, and what the answers ask for.
#include <utility>

#include "base/assert.hpp"
#include "reactor/impl.hpp"

namespace baton {

// What comes before anything that the system tells; false: there is none.
bool Reactor::Impl::run_from_program(Member& me) {
  if (notifications_now_ > 0) {
    --notifications_now_;
    // Some may have been purged meanwhile.
    if (!notifications_.empty()) return run_notification(me), true;
    notifications_now_ = 0;
  }
  reactor::ReactorTimer* const timer = timers_.next_due();
  if (timer == nullptr) return false;
  run_timer(me, *timer);
  return true;
}

// Of a call for input: not the usual answer, or something else happened to the registration.
void Reactor::Impl::after_input(Registration& registration, Next next) noexcept {
  Answers answers;
  note_answer(next, Interest::in, answers);
  after_answers(registration, answers);
}

// Not input alone.
void Reactor::Impl::run_several(Member& me, Registration& registration, Interest what,
                                Interest told) {
  begin_call(me, registration);
  Answers answers;
  try {
    call(registration, what, told, answers);
  } catch (...) {
    me.thrown = std::current_exception();
  }
  end_call(me, registration);
  // After an exception: what it was told is told by nobody else again, but what is ready is.
  if (BATON_UNLIKELY(me.thrown != nullptr)) registration.told = registration.told | (what & told);
  after_answers(registration, answers);
}

void Reactor::Impl::refill() noexcept {
  ready_.append(again_);
  notifications_now_ = notifications_.size();
}

void Reactor::Impl::before_call(Registration& registration) noexcept {
  if (edge_) registration.armed = Interest::none;  // its report has used that up
  if (tuning_.suspension != ReactorTuning::Suspension::eager) return;
  unwatch(registration, registration.armed);
  ++statistics_.suspended;
}

// Output comes before input, as in ACE: room is made before more is taken in.
// `what` and `told` are what is left.
void Reactor::Impl::call(Registration& registration, Interest& what, Interest& told,
                         Answers& answers) {
  for (const Interest one : {Interest::out, Interest::urgent, Interest::in}) {
    if (!any(what & one)) continue;
    what = what - one;
    ask(registration, one, answers);
    if (!any(what)) return;
    if (answers.remove) return;
    // It may have been removed, suspended or changed meanwhile, by that call, too.
    const os::LockGuard guard(mutex_, system_);
    if (registration.ending) return;
    // What it was told meanwhile and is called for anyway is one call.
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

void Reactor::Impl::after_answers(Registration& registration, const Answers& answers) noexcept {
  if (BATON_UNLIKELY(registration.ending)) return close(registration);
  if (BATON_UNLIKELY(answers.remove || any(answers.drop))) {
    registration.wanted = registration.wanted - answers.drop;
    if (answers.remove || !any(registration.wanted)) {
      begin_end(registration, {});
      return close(registration);
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
  enter_handler(me);
  unlock();
  try {
    tell(one.front());
  } catch (...) {
    me.thrown = std::current_exception();
  }
  // What it kept is the user's to destroy.
  one.front() = {};
  lock();
  me.in_handler = false;
  notifications_.keep(one);
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

void Reactor::Impl::run_timer(Member& me, reactor::ReactorTimer& timer) {
  enter_handler(me);
  unlock();
  Next next = Next::keep;
  try {
    next = timer.handler->on_timeout(timer.key(), timer.due);
  } catch (...) {
    me.thrown = std::current_exception();
  }
  const bool periodic = timer.interval > Duration{0};
  const Deadline after = periodic ? now() : Deadline::never();
  lock();
  me.in_handler = false;
  Kept kept;
  timers_.finish(timer, next == Next::keep || next == Next::again, after, kept);
  timer_armed();
  if (kept == nullptr) return;
  unlock();
  kept.reset();
  lock();
}

void Reactor::Impl::run_close(Member& me) {
  Registration& registration = *closing_.pop();
  enter_handler(me);
  close(registration);
  me.in_handler = false;
}

}  // namespace baton
