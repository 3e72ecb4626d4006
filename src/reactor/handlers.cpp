// Notifications, timers and signals: what comes from the program itself.
#include <new>
#include <utility>

#include "base/assert.hpp"
#include "reactor/impl.hpp"

namespace baton {
namespace {

std::error_code no_memory() noexcept { return std::make_error_code(std::errc::not_enough_memory); }

}  // namespace

// -- notifications --------------------------------------------------------------------------------

std::error_code Reactor::Impl::notify(RegistrationKey key, Interest as) noexcept {
  if (in_wrong_process()) return errc::after_fork;
  const os::LockGuard guard(mutex_, system_);
  Registration* const registration = find(key);
  if (registration == nullptr) return std::make_error_code(std::errc::no_such_file_or_directory);
  registration->told = registration->told | as;
  ++statistics_.notifications;
  if (!any(as)) return {};
  put_ready(*registration);
  look_round();
  return {};
}

std::error_code Reactor::Impl::notify(EventHandler* handler, Kept kept, std::function<void()> work,
                                      Interest as) noexcept {
  if (in_wrong_process()) return errc::after_fork;
  lock();
  std::error_code error;
  reactor::Notifications one;
  if (notifications_.full()) {
    error = errc::limit_reached;
  } else {
    try {
      one = notifications_.node();
    } catch (const std::bad_alloc&) {
      error = no_memory();
    }
  }
  if (!error) {
    one.front() = {handler, std::move(kept), std::move(work), as};
    notifications_.push(one);
    only_reports_ = false;
    ++statistics_.notifications;
    look_round();
  }
  unlock();
  return error;
}

std::size_t Reactor::Impl::purge(const EventHandler* handler, Interest which) noexcept {
  reactor::Notifications purged;  // destroyed after the lock: the destructors are the user's
  const os::LockGuard guard(mutex_, system_);
  return notifications_.purge(handler, which, purged);
}

std::size_t Reactor::Impl::notifications() noexcept {
  const os::LockGuard guard(mutex_, system_);
  return notifications_.size();
}

// -- timers ---------------------------------------------------------------------------------------

Result<TimerKey> Reactor::Impl::schedule(EventHandler* handler, Kept kept, Deadline first,
                                         Duration interval) noexcept {
  if (in_wrong_process()) return unexpected{make_error_code(errc::after_fork)};
  if (handler == nullptr) return unexpected{std::make_error_code(std::errc::invalid_argument)};
  const os::LockGuard guard(mutex_, system_);
  bool full = false;
  reactor::ReactorTimer* const timer = timers_.take(full);
  if (timer == nullptr) {
    return unexpected{full ? make_error_code(errc::limit_reached) : no_memory()};
  }
  timer->handler = handler;
  timer->kept = std::move(kept);
  timer->interval = interval;
  timers_.arm(*timer, first);
  timer_armed();
  return timer->key();
}

// A waiting leader has to wake up for it.
void Reactor::Impl::timer_armed() noexcept {
  only_reports_ = false;
  if (leader_waits_ && timers_.nearest() < leader_deadline_) interrupt_leader();
}

bool Reactor::Impl::cancel(TimerKey key) noexcept {
  Kept kept;
  const os::LockGuard guard(mutex_, system_);
  reactor::ReactorTimer* const timer = timers_.find(key);
  return timer != nullptr && timers_.cancel(*timer, kept);
}

std::size_t Reactor::Impl::cancel_timers(const EventHandler& handler) noexcept {
  std::size_t count = 0;
  for (;;) {
    Kept kept;  // one after the other, each destroyed without the lock
    const os::LockGuard guard(mutex_, system_);
    reactor::ReactorTimer* const timer = timers_.find_of(handler);
    if (timer == nullptr) return count;
    if (timers_.cancel(*timer, kept)) ++count;
  }
}

std::size_t Reactor::Impl::timers() noexcept {
  const os::LockGuard guard(mutex_, system_);
  return timers_.size();
}

// -- signals --------------------------------------------------------------------------------------

std::error_code Reactor::Impl::add_signal(int number, EventHandler* handler, Kept kept) noexcept {
  if (in_wrong_process()) return errc::after_fork;
  if (handler == nullptr) return std::make_error_code(std::errc::invalid_argument);
  const std::scoped_lock one_at_a_time(signals_mutex_);
  if (signals_ == nullptr) {
    signals_.reset(new (std::nothrow) reactor::SignalPump(system_));
    if (signals_ == nullptr) return no_memory();
  }
  if (const std::error_code error = signals_->add(number, handler, kept)) return error;
  if (signals_key_.generation != 0) return {};
  const auto key = add(signals_->descriptor(), Interest::in, signals_.get(), nullptr);
  if (!key) {
    static_cast<void>(signals_->remove(number, kept));
    return key.error();
  }
  const os::LockGuard guard(mutex_, system_);
  signals_key_ = *key;
  return {};
}

std::error_code Reactor::Impl::remove_signal(int number) noexcept {
  if (in_wrong_process()) return errc::after_fork;
  Kept kept;
  const std::scoped_lock one_at_a_time(signals_mutex_);
  if (signals_ == nullptr) return std::make_error_code(std::errc::no_such_file_or_directory);
  return signals_->remove(number, kept);
}

}  // namespace baton
