// Notifications, timers and signals.
#include <array>
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
  if (destroyed_) {
    error = errc::stopped;
  } else if (notifications_.full()) {
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
  reactor::Notifications purged;  // destroyed without the lock: the destructors are the user's
  if (in_wrong_process()) return 0;
  const os::LockGuard guard(mutex_, system_);
  return notifications_.purge(handler, which, purged);
}

std::size_t Reactor::Impl::notifications() noexcept {
  if (in_wrong_process()) return 0;
  const os::LockGuard guard(mutex_, system_);
  return notifications_.size();
}

// -- timers ---------------------------------------------------------------------------------------

Result<TimerKey> Reactor::Impl::schedule(EventHandler* handler, Kept kept, Deadline first,
                                         Duration interval) noexcept {
  if (in_wrong_process()) return unexpected{make_error_code(errc::after_fork)};
  if (handler == nullptr) return unexpected{std::make_error_code(std::errc::invalid_argument)};
  const os::LockGuard guard(mutex_, system_);
  if (destroyed_) return unexpected{make_error_code(errc::stopped)};
  bool full = false;
  reactor::ReactorTimer* const timer = timers_.take(*handler, full);
  if (timer == nullptr) {
    return unexpected{full ? make_error_code(errc::limit_reached) : no_memory()};
  }
  timer->kept = std::move(kept);
  timer->interval = interval;
  timers_.arm(*timer, first);
  timer_armed();
  return timer->key();
}

// Interrupts a leader that would wait beyond the new timer.
void Reactor::Impl::timer_armed() noexcept {
  only_reports_ = false;
  if (leader_waits_ && timers_.nearest() < leader_deadline_) interrupt_leader();
}

bool Reactor::Impl::cancel(TimerKey key) noexcept {
  Kept kept;
  if (in_wrong_process()) return false;
  const os::LockGuard guard(mutex_, system_);
  reactor::ReactorTimer* const timer = timers_.find(key);
  return timer != nullptr && timers_.cancel(*timer, kept);
}

std::size_t Reactor::Impl::cancel_timers(const EventHandler& handler) noexcept {
  if (in_wrong_process()) return 0;
  std::size_t count = 0;
  for (;;) {
    std::array<Kept, limits::handlers_per_look> kept;  // destroyed without the lock
    const os::LockGuard guard(mutex_, system_);
    if (timers_.cancel_some(handler, kept, count) < kept.size()) return count;
  }
}

std::size_t Reactor::Impl::timers() noexcept {
  if (in_wrong_process()) return 0;
  const os::LockGuard guard(mutex_, system_);
  return timers_.size();
}

// -- signals --------------------------------------------------------------------------------------

std::error_code Reactor::Impl::add_signal(int number, EventHandler* handler, Kept kept) noexcept
    try {
  if (in_wrong_process()) return errc::after_fork;
  if (handler == nullptr || !reactor::SignalSource::possible(number)) {
    return std::make_error_code(std::errc::invalid_argument);
  }
  const auto source = std::make_shared<reactor::SignalSource>(system_, number, *handler);
  const os::LockGuard guard(mutex_, system_);
  RegistrationKey& place = signals_[static_cast<std::size_t>(number)];
  if (find(place) != nullptr) return std::make_error_code(std::errc::file_exists);
  if (const std::error_code error = source->open()) return error;
  const auto key = add_locked(source->descriptor(), Interest::in, source.get());
  if (!key) {
    source->give_signal_back();
    return key.error();
  }
  source->keep(std::move(kept));
  Registration& registration = table_[key->index];
  registration.kept = source;
  registration.is_signal = true;
  ++signals_now_;
  place = *key;
  return {};
} catch (const std::bad_alloc&) {
  return no_memory();
}

std::error_code Reactor::Impl::remove_signal(int number, bool wait) noexcept {
  const auto none = std::make_error_code(std::errc::no_such_file_or_directory);
  if (in_wrong_process()) return errc::after_fork;
  if (number < 1 || number > reactor::SignalSource::number_max) return none;
  RegistrationKey key;
  {
    const os::LockGuard guard(mutex_, system_);
    key = signals_[static_cast<std::size_t>(number)];
  }
  return remove(key, wait) == Removal::unknown ? none : std::error_code{};
}

}  // namespace baton
