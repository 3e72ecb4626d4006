// Registrations: from add to on_close, and their part in the Demultiplexer.
#include <cerrno>
#include <new>
#include <utility>

#include "base/assert.hpp"
#include "baton/misuse.hpp"
#include "os/handles_bound.hpp"
#include "reactor/impl.hpp"

namespace baton {
namespace {

constexpr std::uint32_t handles_end = 1U << 20;  // Linux's fs.nr_open, unless raised

std::error_code no_such() noexcept {
  return std::make_error_code(std::errc::no_such_file_or_directory);
}

}  // namespace

// -- opening --------------------------------------------------------------------------------------

Result<std::unique_ptr<Reactor::Impl>, Failure> Reactor::Impl::open(
    const ReactorConfig& config) try {
  const std::uint32_t reports = config.tuning.reports_max;
  if (reports == 0 || reports > limits::reports_max) {
    return unexpected{Failure{errc::bad_configuration, "reports_max must be from 1 to " +
                                                           std::to_string(limits::reports_max)}};
  }
  if (config.handles_max > handles_end) {
    return unexpected{Failure{errc::bad_configuration,
                              "handles_max must be from 0 to " + std::to_string(handles_end)}};
  }
  const ReactorTuning& tuning = config.tuning;
  const bool by_token = tuning.resumption == ReactorTuning::Resumption::token;
  if ((by_token && !tuning.token_line) || (tuning.token_line && tuning.keep_lead)) {
    return unexpected{
        Failure{errc::bad_configuration,
                "token_line excludes keep_lead, and Resumption::token needs token_line"}};
  }
  auto made = std::make_unique<Impl>(config);
  if (auto opened = made->open_demultiplexer(); !opened) return unexpected{opened.error()};
  return made;
} catch (const std::bad_alloc&) {
  return unexpected{Failure{std::make_error_code(std::errc::not_enough_memory),
                            "no memory for the tables of the reactor"}};
}

Reactor::Impl::Impl(const ReactorConfig& config)
    : config_(config),
      system_(os::or_real(config.system)),
      tuning_(config.tuning),
      pace_(std::chrono::microseconds{config.understudy_look_us}),
      forks_(os::fork_generation()),
      token_(std::in_place, system_),
      table_(os::handles_bound(system_, config.handles_max)),
      notifications_(config.notifications_max),
      timers_(config.timers_max) {}

Reactor::Impl::~Impl() {
  if (members_ != 0 && !in_wrong_process()) {
    detail::misused(
        "a reactor was destroyed while a thread is in run(): end() it, and wait until run() has "
        "returned");
  }
  if (in_wrong_process()) {
    // The handlers are the parent's copies, so they are not called.
    if (demux_ != nullptr) demux_->after_fork_in_child();
    return;
  }
  if (!close_all()) demux_->after_fork_in_child();
}

bool Reactor::Impl::close_all() noexcept {
  lock();
  destroyed_ = true;
  for (std::uint32_t i = 0; i < made_; ++i) {
    Registration& registration = table_[i];
    if (!registration.used || registration.closing) continue;
    if (!registration.ending) begin_end(registration, {});
    if (registration.queue.linked()) registration.queue.unlink();
    if (!close(registration, nullptr)) return false;
  }
  unlock();
  // The destructors are the user's and may call the reactor, so its tables must be consistent.
  static_cast<void>(purge(nullptr, Interest::all));
  for (std::uint32_t i = 0; i < timers_.end(); ++i) {
    Kept kept;
    const os::LockGuard guard(mutex_, system_);
    kept = timers_.give_up(i);
  }
  return true;
}

bool Reactor::Impl::inside() const noexcept {
  const Inside* call = Inside::chain();
  while (call != nullptr && !call->is_of(*this)) call = call->outer();
  return call != nullptr;
}

void Reactor::Impl::end_in_handler() noexcept {
  if (in_wrong_process()) {
    if (demux_ != nullptr) demux_->after_fork_in_child();
    return;
  }
  ended_in_handler_.set();
  end();  // the turns end, and come to the function below
}

void Reactor::Impl::come_out() const noexcept {
  if (BATON_LIKELY(!ended_in_handler_.is_set())) return;
  ended_in_handler_.refuse_to_go_on(
      "a reactor was destroyed inside one of its own handlers: end() it there, and destroy it when "
      "run() has returned");
}

demux::Options Reactor::Impl::demux_options() {
  demux::Options options;
  options.system = config_.system;
  options.wait = config_.wait;
  options.interrupt = config_.interrupt;
  options.descriptors_max = table_.bound();
  options.wait_signal = config_.wait_signal;
  options.interrupt_signal = config_.interrupt_signal;
  options.one_thread_waits = true;  // see can_lead
  options.explain = [this](std::string_view line) {
    explanation_ += line;
    explanation_ += '\n';
  };
  return options;
}

Result<void, Failure> Reactor::Impl::open_demultiplexer() {
  auto opened = demux::Demultiplexer::open(demux_options());
  if (!opened) return unexpected{opened.error()};
  demux_ = std::move(*opened);
  const WaitStrategyInfo& info = demux_->info();
  level_ = info.trigger == Trigger::level;
  edge_ = info.trigger == Trigger::edge;
  lazy_level_ = level_ && tuning_.suspension == ReactorTuning::Suspension::lazy;
  // Only the Demultiplexer knows the readiness that an edge strategy has reported already.
  changes_seen_ = info.changes_during_wait || edge_;
  pinned_ = !info.any_thread_waits;
  keep_lead_ = tuning_.keep_lead || pinned_;
  by_token_ = tuning_.token_line && !pinned_;  // a single waiting thread needs no line
  lead_moves_ = info.any_thread_waits || info.hands_over;
  looks_to_share_ = lead_moves_ ? 0 : 1;
  return {};
}

bool Reactor::Impl::in_wrong_process() const noexcept { return os::fork_generation() != forks_; }

// -- from add to on_close -------------------------------------------------------------------------

Result<RegistrationKey> Reactor::Impl::add(NativeHandle fd, Interest interest,
                                           EventHandler* handler, Kept kept) noexcept {
  if (in_wrong_process()) return unexpected{make_error_code(errc::after_fork)};
  if (fd < 0) return unexpected{std::make_error_code(std::errc::bad_file_descriptor)};
  if (handler == nullptr) return unexpected{std::make_error_code(std::errc::invalid_argument)};
  const os::LockGuard guard(mutex_, system_);
  const auto key = add_locked(fd, interest, handler);
  if (key) table_[key->index].kept = std::move(kept);
  return key;
}

Result<RegistrationKey> Reactor::Impl::add_locked(NativeHandle fd, Interest interest,
                                                  EventHandler* handler) noexcept try {
  if (destroyed_) return unexpected{make_error_code(errc::stopped)};
  // The system would refuse it only while the other registration is watched.
  if (!descriptors_.insert(fd).second) {
    return unexpected{std::make_error_code(std::errc::file_exists)};
  }
  std::error_code error;
  Registration* const registration = take_free(error);
  if (registration != nullptr) error = demux_->attach(registration->index, fd);
  if (!error) {
    registration->fd = fd;
    registration->handler = handler;
    registration->wanted = interest;
    error = settle(*registration);
    if (error) demux_->detach(registration->index);
  }
  if (error) {
    if (registration != nullptr) put_free(*registration);
    descriptors_.erase(fd);
    return unexpected{error};
  }
  if (!ready_.empty()) look_round();
  return RegistrationKey{registration->index, registration->generation};
} catch (const std::bad_alloc&) {
  return unexpected{std::make_error_code(std::errc::not_enough_memory)};
}

std::error_code Reactor::Impl::change(RegistrationKey key, Interest interest) noexcept {
  if (in_wrong_process()) return errc::after_fork;
  const os::LockGuard guard(mutex_, system_);
  Registration* const registration = find(key);
  if (registration == nullptr) return no_such();
  const Interest before = std::exchange(registration->wanted, interest);
  registration->ready = registration->ready & interest;
  if (registration->running) return {};  // the end of its call settles it
  const std::error_code error = settle(*registration);
  if (error) registration->wanted = before;
  if (something_queued()) look_round();
  return error;
}

std::error_code Reactor::Impl::suspend(RegistrationKey key) noexcept {
  if (in_wrong_process()) return errc::after_fork;
  const os::LockGuard guard(mutex_, system_);
  Registration* const registration = find(key);
  if (registration == nullptr) return no_such();
  registration->suspended = true;
  forget_ready(*registration);
  unwatch(*registration, registration->armed);
  return {};
}

std::error_code Reactor::Impl::resume(RegistrationKey key) noexcept {
  if (in_wrong_process()) return errc::after_fork;
  const os::LockGuard guard(mutex_, system_);
  Registration* const registration = find(key);
  if (registration == nullptr) return no_such();
  const bool before = std::exchange(registration->suspended, false);
  if (registration->running) return {};
  const std::error_code error = settle(*registration);
  if (error) {
    registration->suspended = before;
  } else if (registration->late.linked()) {
    registration->late.unlink();
  }
  if (something_queued()) look_round();
  return error;
}

Reactor::Removal Reactor::Impl::remove(RegistrationKey key, bool wait) noexcept {
  if (in_wrong_process()) return Removal::unknown;
  Inside here{*this};
  lock();
  Removal removal = Removal::unknown;
  if (Registration* const registration = find(key)) {
    begin_end(*registration, {});
    removal = registration->running ? Removal::when_it_returns : Removal::done;
    if (!registration->running && !close(*registration, nullptr)) return removal;
  }
  // Its record is in use, with the next generation, until on_close has returned.
  Registration* const ending = key.generation != 0 ? table_.find(key.index) : nullptr;
  while (wait && ending != nullptr && ending->ending &&
         ending->generation == reactor::next_generation(key.generation)) {
    // on_close was left to a thread of the reactor, and this may be the only one.
    if (ending->queue.linked()) {
      ending->queue.unlink();
      if (!close(*ending, nullptr)) return removal;
      break;
    }
    ++close_waiters_;
    const std::uint32_t seen = closes_.load(std::memory_order_relaxed);
    unlock();
    system_.futex_wait(&closes_, seen, Deadline::never().ns());
    lock();
    --close_waiters_;
  }
  unlock();
  come_out();
  return removal;
}

std::size_t Reactor::Impl::size() noexcept {
  if (in_wrong_process()) return 0;
  const os::LockGuard guard(mutex_, system_);
  return used_ - signals_now_;
}

Reactor::Impl::Registration* Reactor::Impl::find(RegistrationKey key) noexcept {
  Registration* const registration = key.generation != 0 ? table_.find(key.index) : nullptr;
  if (registration == nullptr || !registration->used || registration->ending) return nullptr;
  return registration->generation == key.generation ? registration : nullptr;
}

Reactor::Impl::Registration* Reactor::Impl::take_free(std::error_code& error) noexcept {
  Registration* registration = free_;
  if (registration != nullptr) {
    free_ = registration->next_free;
  } else if (made_ == table_.bound()) {
    error = errc::no_free_handles;
    return nullptr;
  } else if (!table_.ensure(made_)) {
    error = std::make_error_code(std::errc::not_enough_memory);
    return nullptr;
  } else {
    registration = &table_[made_];
    registration->index = made_++;
    registration->generation = 1;
  }
  registration->used = true;
  ++used_;
  return registration;
}

void Reactor::Impl::put_free(Registration& registration) noexcept {
  BATON_ASSERT(!registration.queue.linked() && !registration.late.linked());
  registration.handler = nullptr;
  registration.fd = invalid_handle;
  registration.wanted = registration.armed = Interest::none;
  registration.ready = registration.told = Interest::none;
  registration.used = registration.running = false;
  registration.suspended = registration.ending = registration.closing = false;
  if (std::exchange(registration.is_signal, false)) --signals_now_;
  registration.forked = false;
  registration.why.clear();
  registration.next_free = std::exchange(free_, &registration);
  --used_;
}

void Reactor::Impl::begin_end(Registration& registration, std::error_code why) noexcept {
  BATON_ASSERT(!registration.ending);
  registration.ending = true;
  registration.why = why;
  registration.generation = reactor::next_generation(registration.generation);
  registration.told = Interest::none;
  forget_ready(registration);
  if (registration.late.linked()) registration.late.unlink();
  registration.armed = Interest::none;
  demux_->detach(registration.index);
  descriptors_.erase(registration.fd);
}

bool Reactor::Impl::close(Registration& registration, Member* me) noexcept {
  BATON_ASSERT(registration.ending && !registration.running && !registration.closing);
  registration.closing = true;
  EventHandler* const handler = registration.handler;
  const NativeHandle fd = registration.fd;
  const std::error_code why = registration.why;
  Kept kept = std::move(registration.kept);
  Member not_in_turn;
  not_in_turn.in_turn = false;
  not_in_turn.forks = forks_;
  const Back back = in_user_code(me != nullptr ? *me : not_in_turn, [&] {
    handler->on_close(fd, why);
    kept.reset();
  });
  if (BATON_UNLIKELY(back != Back::here)) return back == Back::reopened;
  put_free(registration);
  if (close_waiters_ == 0) return true;
  // relaxed: waiters check again under the mutex.
  closes_.fetch_add(1, std::memory_order_relaxed);
  system_.futex_wake(&closes_, close_waiters_);
  return true;
}

// For threads that must not call handlers at that place.
void Reactor::Impl::close_later(Registration& registration, std::error_code why) noexcept {
  begin_end(registration, why);
  closing_.push(registration);
  only_reports_ = false;
}

// -- the watched set ------------------------------------------------------------------------------

std::error_code Reactor::Impl::settle(Registration& registration) noexcept {
  const Interest desired = registration.desired();
  const Interest more = desired - registration.armed;
  // First, because only this can fail: nothing has changed then.
  if (any(more)) {
    if (const std::error_code error = watch(registration, more)) return error;
  }
  unwatch(registration, registration.armed - desired);
  return {};
}

std::error_code Reactor::Impl::watch(Registration& registration, Interest more) noexcept {
  std::error_code error;
  if (!edge_) {
    if (demux_->watch(registration.index, more, error) == demux::Watch::failed) return error;
    registration.armed = registration.armed | more;
    return {};
  }
  const demux::Watch all = demux_->watch(registration.index, more, error);
  if (all == demux::Watch::failed) return error;
  registration.armed = registration.armed | more;
  if (all == demux::Watch::armed) return {};
  // The answer does not say which interest is ready, so several are tried one by one.
  const bool one_only = more == Interest::in || more == Interest::out || more == Interest::urgent;
  for (const Interest one : {Interest::in, Interest::out, Interest::urgent}) {
    if (!any(more & one)) continue;
    if (!one_only && demux_->watch(registration.index, one, error) != demux::Watch::try_now)
      continue;
    registration.ready = registration.ready | one;
    put_ready(registration);
  }
  return {};
}

void Reactor::Impl::unwatch(Registration& registration, Interest less) noexcept {
  if (!any(less)) return;
  registration.armed = registration.armed - less;
  demux_->drop(registration.index, less);
}

void Reactor::Impl::forget_ready(Registration& registration) noexcept {
  registration.ready = Interest::none;
  if (registration.queue.linked() && !any(registration.told)) registration.queue.unlink();
}

// -- after a call ---------------------------------------------------------------------------------

void Reactor::Impl::after_call(Registration& registration) noexcept {
  if (any(registration.told)) put_ready(registration);
  // The usual case: no thread has polled the system meanwhile, so it is still in the set.
  if (BATON_LIKELY(level_ && registration.armed == registration.desired())) return;
  if (!level_) return resume_after_call(registration);
  unwatch(registration, registration.armed - registration.desired());
  if (any(registration.desired() - registration.armed)) resume_after_call(registration);
}

void Reactor::Impl::resume_after_call(Registration& registration) noexcept {
  if (!any(registration.desired())) return;
  const bool late = tuning_.resumption == ReactorTuning::Resumption::late;
  if (by_token_ && tuning_.resumption == ReactorTuning::Resumption::token) {
    return resume_by_token(registration);
  }
  if (!late || (leader_waits_ && changes_seen_)) return resume_now(registration);
  if (!registration.late.linked()) late_.push(registration);
  only_reports_ = false;
  // A running wait over a fixed set does not see the change.
  if (!leader_waits_ || leader_interrupted_) return;
  ++statistics_.resume_notices;
  interrupt_leader();
}

void Reactor::Impl::resume_now(Registration& registration) noexcept {
  ++statistics_.resumed_now;
  const bool queued = registration.queue.linked();
  if (const std::error_code error = settle(registration)) return close_later(registration, error);
  if (queued || !registration.queue.linked()) return;
  // settle() found it ready (edge strategies only) without asking about the other registrations.
  // They come first.
  registration.queue.unlink();
  again_.push(registration);
  only_reports_ = false;
}

// Called by the thread that is about to wait. Registrations that the user has removed, suspended or
// resumed meanwhile have left the list, or have nothing to resume.
void Reactor::Impl::resume_late_ones() noexcept {
  while (Registration* const registration = late_.pop()) {
    if (registration->running || !any(registration->desired())) continue;
    ++statistics_.resumed_late;
    if (const std::error_code error = settle(*registration)) close_later(*registration, error);
  }
}

// -- after a fork ---------------------------------------------------------------------------------

Result<void, Failure> Reactor::Impl::reopen() {
  if (!in_wrong_process()) return {};
  if (!mutex_.try_lock()) {
    return unexpected{Failure{errc::after_fork,
                              "a thread of the parent was changing the reactor when it forked"}};
  }
  // The child has none of the parent's threads.
  leader_ = nullptr;
  followers_ = {};
  leader_waits_ = leader_interrupted_ = only_reports_ = false;
  members_ = close_waiters_ = 0;
  owner_ = 0;
  notifications_now_ = 0;
  reactor::Notifications forgotten;
  static_cast<void>(notifications_.purge(nullptr, Interest::all, forgotten));
  timers_.forget_running();
  token_.emplace(system_);
  if (demux_ != nullptr) demux_->after_fork_in_child();
  demux_.reset();
  forget_descriptors_of_parent();
  if (auto opened = open_demultiplexer(); !opened) {
    mutex_.unlock(system_);
    return unexpected{opened.error()};
  }
  Result<void, Failure> done;
  for (std::uint32_t i = 0; i < made_ && done; ++i) {
    Registration& registration = table_[i];
    if (registration.used) forget_thread_of_parent(registration);
    if (registration.used && !registration.ending) done = watch_anew(registration);
  }
  // Last: a reactor that is half open may only be destroyed, or reopened once more.
  if (done) forks_ = os::fork_generation();
  mutex_.unlock(system_);
  return done;
}

// Called before any descriptor is opened. See SignalSource::forget.
void Reactor::Impl::forget_descriptors_of_parent() noexcept {
  for (std::uint32_t i = 0; i < made_; ++i) {
    Registration& registration = table_[i];
    // A thread of the parent may have destroyed the handler of a registration that is closing.
    if (!registration.used || !registration.is_signal || registration.closing) continue;
    static_cast<reactor::SignalSource&>(*registration.handler).forget();
    if (!registration.ending) descriptors_.erase(registration.fd);
    registration.fd = invalid_handle;
  }
}

// A running call counts as returned, and a running on_close as called. The thread in it is not in
// the child, or is this one, which finds `forked` when it returns.
void Reactor::Impl::forget_thread_of_parent(Registration& registration) noexcept {
  if (std::exchange(registration.running, false)) registration.forked = true;
  registration.ready = registration.told = registration.armed = Interest::none;
  if (registration.late.linked()) registration.late.unlink();
  if (registration.closing) return put_free(registration);
  if (registration.ending) {
    if (!registration.queue.linked()) closing_.push(registration);
  } else if (registration.queue.linked()) {
    registration.queue.unlink();
  }
}

Result<void, Failure> Reactor::Impl::watch_anew(Registration& registration) noexcept try {
  if (registration.is_signal) {
    // The child needs a descriptor of its own: the old one is shared with the parent.
    auto& source = static_cast<reactor::SignalSource&>(*registration.handler);
    if (const std::error_code error = source.open()) {
      return unexpected{Failure{error, "no descriptor for a signal"}};
    }
    registration.fd = source.descriptor();
    descriptors_.insert(registration.fd);
  }
  if (const std::error_code error = demux_->attach(registration.index, registration.fd)) {
    return unexpected{Failure{error, "no memory for the table of descriptors"}};
  }
  if (const std::error_code error = settle(registration)) close_later(registration, error);
  return {};
} catch (const std::bad_alloc&) {
  return unexpected{Failure{std::make_error_code(std::errc::not_enough_memory),
                            "no memory for the table of descriptors"}};
}

}  // namespace baton
