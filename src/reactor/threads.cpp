// The threads: the leader, the followers that sleep, and the rules by which no wake-up is lost.
#include <algorithm>
#include <utility>

#include "base/assert.hpp"
#include "reactor/impl.hpp"

namespace baton {
namespace {

/// Each poll of the system takes two.
constexpr std::uint32_t looks_to_share = 2'000;

}  // namespace

std::error_code Reactor::Impl::enter(Member& me) noexcept {
  if (pinned_) {
    me.thread = system_.thread_self();
    if (leader_ == nullptr && !can_lead(me)) return errc::wrong_thread;
  }
  ++members_;
  return {};
}

void Reactor::Impl::leave(Member& me) noexcept {
  BATON_ASSERT(me.rest == Rest::awake && members_ > 0);
  --members_;
  if (leader_ == &me) leader_ = nullptr;
  give_token(me);
  if (me.returns) wake_asked_ = false;
  if (!ended()) look_round();
}

// In a forked child. After reopen() no thread is a member. This thread becomes one again if it was
// in turn(); an on_close may have been called by another function.
Reactor::Impl::Back Reactor::Impl::back_in_child(Member& me) noexcept {
  if (in_wrong_process()) {
    me.error = errc::after_fork;
  } else {
    lock();
    me.in_handler = me.has_token = me.helps = false;
    me.forks = forks_;
    if (me.in_turn) me.error = enter(me);
    if (!me.error) return Back::reopened;
    unlock();
  }
  me.leaves = true;
  return Back::lost;
}

bool Reactor::Impl::can_lead(const Member& me) const noexcept {
  if (BATON_UNLIKELY(by_token_ && !me.has_token)) return false;
  return lead_moves_ || owner_ == 0 || owner_ == me.thread;
}

// -- the leader -----------------------------------------------------------------------------------

void Reactor::Impl::take_lead(Member& me) noexcept {
  if (!can_lead(me)) return;
  leader_ = &me;
  owner_ = me.thread;
}

void Reactor::Impl::after_interrupt(Member& me) noexcept {
  ++statistics_.interrupts;
  if (by_token_) tell_notifier(me);
}

// Wakes a sleeping thread for queued work.
void Reactor::Impl::share_out() noexcept {
  if (lead_moves_) --looks_to_share_;
  if (!followers_.one_comes() && something_queued()) wake_sleeper();
}

// False: the leader has left the work to another thread, and waits.
bool Reactor::Impl::work_for_leader() const noexcept {
  return !shares() || (followers_.sleeper() == nullptr && !followers_.one_comes());
}

// A report of a registration that runs, or of a strategy whose reports disarm.
void Reactor::Impl::accept_specially(Registration& registration, Interest ready) noexcept {
  if (!level_ && !edge_) registration.armed = registration.armed - ready;  // one-shot
  if (registration.running) {
    if (!level_) return;  // not reported again until it is watched again
    unwatch(registration, registration.armed);
    ++statistics_.suspended;
    return;
  }
  registration.ready = registration.ready | (ready & registration.desired());
  put_ready(registration);
}

// -- followers ------------------------------------------------------------------------------------

void Reactor::Impl::rest(Member& me, Deadline until) noexcept {
  if (BATON_UNLIKELY(by_token_)) return stand_in_line(me);
  Deadline limit = until;
  Deadline look_at = Deadline::never();
  // No handler has been called since its last look.
  const bool dozes = std::exchange(me.dozes, false) && statistics_.calls == notes_.calls;
  const bool role = keep_lead_ && lead_moves_ && followers_.standby() == nullptr && !dozes;
  if (role) {
    followers_.stand_by(me);
    if (!same_call_as_noted()) note();
    look_at = Deadline::after(me.looks_again ? pace_.shortest() : pace_.now(), notes_.made);
    limit = std::min(until, look_at);
  } else {
    followers_.fall_asleep(me);
  }
  unlock();
  const bool unparked = me.slot.park(system_, limit);
  lock();
  if (me.rest == Rest::woken) return followers_.arrived(me);
  const bool stood_by = me.rest == Rest::standby;
  followers_.get_up(me);
  if (stood_by && !unparked && now() >= look_at) look(me);
}

void Reactor::Impl::note() noexcept {
  const bool in_call = leader_ != nullptr && leader_->in_handler;
  notes_ = {in_call ? leader_->call : 0, statistics_.calls, statistics_.waits, now()};
}

bool Reactor::Impl::same_call_as_noted() const noexcept {
  return leader_ != nullptr && leader_->in_handler && leader_->call == notes_.leader_call;
}

// Handlers are not timed, so rare looks would miss a long handler among short ones. When a look
// finds a handler running, the next look comes soon. So a thread that spends much of its time in
// long handlers is found.
void Reactor::Impl::look(Member& me) noexcept {
  const bool looked_again = std::exchange(me.looks_again, false);
  if (leader_ == nullptr) return;
  const bool in_handler = leader_->in_handler;
  if (same_call_as_noted()) {
    leader_ = &me;
    owner_ = me.thread;
    ++statistics_.leads_taken;
    pace_.was_stuck();
    if (pinned_) {
      looks_to_share_ = looks_to_share;
    } else {
      length_.note_long();
      choose_lead();
    }
    return;
  }
  // The leader has not emptied its queue since the last look.
  me.helps = in_handler && statistics_.waits == notes_.waits && something_queued();
  me.dozes = !in_handler && statistics_.calls == notes_.calls;
  if (me.helps) {
    pace_.was_stuck();
  } else if (in_handler && !looked_again && pace_.now() > pace_.shortest()) {
    me.looks_again = true;
  } else if (!me.dozes) {
    pace_.all_moved();
  }
}

// -- no wake-up is lost ---------------------------------------------------------------------------

// Called before a handler. Some handlers are measured.
void Reactor::Impl::hand_over(Member& me) noexcept {
  if (!me.in_turn) return;
  find_helper(me);
  if (!lead_moves_ || !tuning_.keep_lead) return;
  if (keep_lead_ && me.calls % HandlerLength::one_in != 0) return;
  me.began_ns = system_.monotonic_ns();
}

void Reactor::Impl::note_length(Member& me) noexcept {
  length_.note(system_.monotonic_ns() - std::exchange(me.began_ns, 0));
  if (!pinned_) return choose_lead();
  // A turn within a call has no resting thread that calls could be left to.
  if (followers_.some_rest() && length_.lasts()) looks_to_share_ = looks_to_share;
}

// A leader that keeps the lead during long calls delays the queued registrations until the next
// look. So it gives the lead up before each call while calls are long, and the next leader goes on
// with the queue. A leader that is in a call now loses the lead, too.
void Reactor::Impl::choose_lead() noexcept {
  const bool before = std::exchange(keep_lead_, !length_.lasts());
  if (!before || keep_lead_ || leader_ == nullptr || !leader_->in_handler) return;
  leader_ = nullptr;
  look_round();
}

void Reactor::Impl::find_helper(Member& me) noexcept {
  if (leader_ == &me && !keep_lead_ && !pinned_) {
    leader_ = nullptr;
    give_token(me);
  }
  if (followers_.one_comes()) return;
  if (leader_ == nullptr) return look_round();
  // A thread that works while the leader waits must not leave queued work behind a long handler.
  if (leader_waits_ && something_queued()) return look_round();
  if (lead_moves_ && keep_lead_ && followers_.standby() == nullptr) wake_sleeper();
}

// Called after work was queued, and by a thread that leaves: makes sure that a thread takes it.
void Reactor::Impl::look_round() noexcept {
  if (followers_.one_comes()) return;
  if (leader_ == nullptr) {
    if (followers_.sleeper() != nullptr) return wake_sleeper();
    return wake_member(followers_.standby());
  }
  if (leader_waits_) {
    if (!something_queued() || leader_interrupted_) return;
    if (followers_.sleeper() != nullptr) return wake_sleeper();
    if (followers_.standby() != nullptr) return wake_member(followers_.standby());
    return interrupt_leader();
  }
  const bool uncovered = leader_->in_handler && followers_.standby() == nullptr;
  if (uncovered && keep_lead_ && lead_moves_) return wake_sleeper();
  if (shares() && something_queued()) wake_sleeper();
}

void Reactor::Impl::wake_sleeper() noexcept { wake_member(followers_.sleeper()); }

void Reactor::Impl::wake_member(Member* resting) noexcept {
  if (resting == nullptr) return;
  followers_.wake(*resting);
  resting->slot.unpark(system_);
}

void Reactor::Impl::interrupt_leader() noexcept {
  if (!leader_waits_ || std::exchange(leader_interrupted_, true)) return;
  demux_->interrupt();
}

void Reactor::Impl::end() noexcept {
  const bool alone = in_wrong_process();  // in a child the mutex may be locked for ever
  const os::LockGuard guard(mutex_, system_, !alone);
  if (!ended()) ends_.fetch_add(1, std::memory_order_release);
  if (alone) return;
  while (followers_.sleeper() != nullptr) wake_sleeper();
  wake_member(followers_.standby());
  interrupt_leader();
}

void Reactor::Impl::restart() noexcept {
  const os::LockGuard guard(mutex_, system_, !in_wrong_process());
  if (ended()) ends_.fetch_add(1, std::memory_order_release);
}

// Wakes one of the threads that return for it. If none waits, the next such thread that would wait
// returns instead.
void Reactor::Impl::wake() noexcept {
  if (in_wrong_process()) return;
  const os::LockGuard guard(mutex_, system_);
  wake_asked_ = true;
  if (leader_waits_ && leader_ != nullptr && leader_->returns) return interrupt_leader();
  Member* one = followers_.standby();
  if (one == nullptr || !one->returns) one = followers_.sleeper();
  while (one != nullptr && !one->returns) one = one->next;
  wake_member(one);
}

ReactorStatistics Reactor::Impl::statistics() noexcept {
  if (in_wrong_process()) return {};
  const os::LockGuard guard(mutex_, system_);
  ReactorStatistics copy = statistics_;
  copy.stale_reports += demux_->stale_reports();
  return copy;
}

// -- the imitation of ACE's token -----------------------------------------------------------------

// For the lead: the holder is not interrupted.
void Reactor::Impl::stand_in_line(Member& me) noexcept {
  BATON_ASSERT(!me.has_token);
  unlock();
  token_->acquire(nullptr, nullptr);
  lock();
  me.has_token = true;
}

void Reactor::Impl::give_token(Member& me) noexcept {
  if (std::exchange(me.has_token, false)) token_->release();
}

// For a change of the watched set. The holder gets a notification, as by the sleep hook of ACE's
// token, even if it does not wait for events.
void Reactor::Impl::take_token() noexcept {
  token_->acquire(
      [](void* self) {
        Impl& impl = *static_cast<Impl*>(self);
        const os::LockGuard guard(impl.mutex_, impl.system_);
        ++impl.statistics_.resume_notices;
        impl.demux_->interrupt();
      },
      this);
}

void Reactor::Impl::resume_by_token(Registration& registration) noexcept {
  const std::uint32_t generation = registration.generation;
  unlock();
  take_token();
  lock();
  // It may have been removed and replaced by another one meanwhile, or be in its next call.
  if (registration.generation == generation && registration.used && !registration.running) {
    resume_now(registration);
  }
  unlock();
  token_->release();
  lock();
}

// A notification is dispatched like any event, without the token. If its handler was suspended for
// that, it is resumed now, which needs the token.
void Reactor::Impl::tell_notifier(Member& me) noexcept {
  if (leader_ == &me) leader_ = nullptr;
  give_token(me);
  if (!tuning_.suspend_notifier) return;
  unlock();
  take_token();
  token_->release();
  lock();
}

}  // namespace baton
