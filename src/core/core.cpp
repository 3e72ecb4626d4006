// Carries out each public call: with the mutex in shared and dedicated mode, in the lane's thread
// in per_thread mode. Here: driving, and handles. Starts, cancels and ends have files of their own.
#include "core/core.hpp"

#include <errno.h>
#include <fcntl.h>

#include <algorithm>
#include <bitset>
#include <system_error>
#include <utility>

#include "base/assert.hpp"
#include "baton/driving_refused.hpp"
#include "os/listens.hpp"

// O_DIRECT is not in POSIX.
#ifndef O_DIRECT
#define O_DIRECT 0
#endif

namespace baton {

using Access = OperationAccess;

Proactor::Core::Core(Config configuration, const os::System& system, std::uint32_t handles_max,
                     std::uint32_t lanes)
    : HandlerRunner(ledger_),
      config(std::move(configuration)),
      task_exceptions(system),
      system_(system),
      per_thread_(lanes > 0),
      ledger_(system, handles_max, lanes > 0),
      crew_(ledger_, loops_, stopped_, *this) {
  os::in_forked_child.store(LaneLoop::stop_in_forked_child, std::memory_order_relaxed);
  const std::uint32_t count = std::max(lanes, 1U);
  for (std::uint32_t i = 0; i < count; ++i) {
    lanes_.push_back(std::make_unique<Lane>());
    lanes_[i]->index = static_cast<std::uint16_t>(i);
    if (per_thread_) {
      loops_.push_back(std::make_unique<LaneLoop>(ledger_, *lanes_[i], *this));
    }
  }
  first_lane_ = lanes_[0].get();
  ledger_.teams.resize(count);
  dispatcher_ =
      std::make_unique<Dispatcher>(ledger_, per_thread_ ? between_lanes_ : *first_lane_, *this,
                                   std::chrono::microseconds{config.understudy_look_us});
  starter_ = std::make_unique<Starter>(ledger_, per_thread_ ? nullptr : dispatcher_.get());
}

void Proactor::Core::add(std::unique_ptr<Engine> engine, const ProcessorConfig& processor_config,
                         Mode mode, std::uint16_t team_index, std::uint32_t lane) {
  processors_.push_back(
      std::make_unique<Processor>(std::move(engine), processor_config, mode, team_index));
  Processor& processor = *processors_.back();
  if (mode == Mode::per_thread) {
    loops_[lane]->add(processor);
    ledger_.teams[lane].push_back(&processor);
    return;
  }
  dispatcher_->add(processor);
  if (per_thread_) ledger_.handles.add_dedicated_lists();
  for (auto& team : ledger_.teams) team.push_back(&processor);
}

int Proactor::Core::start_threads() {
  for (const auto& lane : lanes_) starter_->find_route(*lane);
  return per_thread_ ? dispatcher_->start_threads(deliver_to_lanes, this)
                     : dispatcher_->start_threads(nullptr, nullptr);
}

// -- driving --------------------------------------------------------------------------------------

void Proactor::Core::refuse_to_drive() const { throw DrivingRefused(ledger_, errc::after_fork); }

std::unique_ptr<AttachedMember> Proactor::Core::attach() {
  if (forked()) refuse_to_drive();
  if (!per_thread_ || LaneLoop::here(ledger_) != nullptr) return nullptr;
  auto member = std::make_unique<AttachedMember>(crew_);
  return member->has_lane() ? std::move(member) : nullptr;
}

// -- handles --------------------------------------------------------------------------------------

std::uint32_t Proactor::Core::home_of(Home home) noexcept {
  if (!per_thread_) return 0;
  const std::uint32_t count = lanes();
  if (home.lane < count) return home.lane;
  const std::uint32_t here = current_lane();
  AcceptPolicy policy = AcceptPolicy::same_thread;
  if (home.lane == Home::by_policy) policy = config.accept_policy;
  if (policy == AcceptPolicy::same_thread && here < count) return crew_.home_beside(here);
  return pick_lane(policy == AcceptPolicy::least_loaded);
}

// Picks a lane among those that have a thread, or among all if none has: the next one, or the one
// with the fewest handles.
std::uint32_t Proactor::Core::pick_lane(bool least_loaded) noexcept {
  const std::uint32_t count = lanes();
  if (count == 1) return 0;
  std::bitset<limits::lanes_max> choice;
  for (std::uint32_t lane = 0; lane < count; ++lane) choice[lane] = crew_.has_thread(lane);
  for (std::uint32_t lane = 0; choice.none() && lane < count; ++lane) choice[lane] = true;
  const auto handles = [&](std::uint32_t lane) {
    return lanes_[lane]->open_handles.load(std::memory_order_relaxed);
  };
  // Lanes to pass over; empty if the number of handles decides.
  std::size_t steps =
      least_loaded ? 0 : next_lane_.fetch_add(1, std::memory_order_relaxed) % choice.count();
  std::uint32_t found = count;
  for (std::uint32_t lane = 0; lane < count; ++lane) {
    if (!choice[lane]) continue;
    if (found == count || (least_loaded ? handles(lane) < handles(found) : steps > 0)) {
      if (found != count && !least_loaded) --steps;
      found = lane;
    }
  }
  return found;
}

bool Proactor::Core::is_driven() const noexcept {
  if (!per_thread_) return dispatcher_->is_driven();
  return std::any_of(loops_.begin(), loops_.end(), [](const auto& loop) { return loop->driven(); });
}

std::uint32_t Proactor::Core::current_lane() const noexcept {
  if (!per_thread_) return dispatcher_->inside() ? 0 : 1;
  if (LaneLoop* here = LaneLoop::here(ledger_)) return here->lane().index;
  return static_cast<std::uint32_t>(lanes_.size());
}

namespace {

// Refuses a pipe, a socket, a terminal or an eventfd as a file: a worker that reads it could be
// held without end, and a write may raise SIGPIPE. Other devices are files: /dev/null,
// /dev/urandom.
std::error_code look_at_file(const os::System& system, NativeHandle native, HandleKind kind,
                             OpenFacts& facts) noexcept {
  struct stat status{};
  if (system.fstat(native, &status) != 0) return {errno, std::system_category()};
  facts.is_file = S_ISREG(status.st_mode) || S_ISDIR(status.st_mode) || S_ISBLK(status.st_mode);
  facts.is_terminal = S_ISCHR(status.st_mode) && system.isatty(native) == 1;
  const bool may_be = facts.is_file || (S_ISCHR(status.st_mode) && !facts.is_terminal);
  if (may_be || kind == HandleKind::pipe) return {};
  return std::make_error_code(std::errc::invalid_argument);
}

}  // namespace

std::error_code Proactor::Core::refuses_handles(Home home) const noexcept {
  if (forked()) return errc::after_fork;
  if (refuses_everything()) return errc::stopped;
  if (home.processor != Home::any_processor && home.processor >= config.processors.size()) {
    return errc::bad_configuration;
  }
  return {};
}

std::error_code Proactor::Core::reserve(Place& place, Home home) noexcept {
  if (const std::error_code error = refuses_handles(home)) return error;
  return take(place, home);
}

std::error_code Proactor::Core::take(Place& place, Home home) noexcept {
  place.record_ = ledger_.handles.reserve(home.lane == Home::by_policy);
  if (place.record_ != nullptr) return {};
  return refuses_everything() ? errc::stopped : errc::no_free_handles;
}

Result<Handle*> Proactor::Core::adopt(NativeHandle native, HandleKind kind, Ownership ownership,
                                      Home home) noexcept {
  if (const std::error_code error = refuses_handles(home)) return unexpected{error};
  const int flags = system_.fcntl(native, F_GETFL, 0);
  if (flags < 0) return unexpected{std::error_code{errno, std::system_category()}};  // EBADF
  return enter({native, kind, ownership, flags, false}, home, nullptr);
}

Result<Handle*> Proactor::Core::adopt_opened(NativeHandle native, HandleKind kind, int flags,
                                             Home home, Place* place) noexcept {
  if (place == nullptr) {
    if (const std::error_code error = refuses_handles(home)) return unexpected{error};
  }
  return enter({native, kind, Ownership::owned, flags, true}, home, place);
}

Result<Handle*> Proactor::Core::enter(const Found& found, Home home, Place* place) noexcept {
  const auto [native, kind, ownership, flags, opened] = found;
  OpenFacts facts{.readable = (flags & O_ACCMODE) != O_WRONLY,
                  .writable = (flags & O_ACCMODE) != O_RDONLY,
                  .appends = (flags & O_APPEND) != 0,
                  .direct = (flags & O_DIRECT) != 0,
                  .syncs = (flags & O_DSYNC) != 0};
  if (kind == HandleKind::file || (kind == HandleKind::pipe && !opened)) {
    if (const auto error = look_at_file(system_, native, kind, facts)) return unexpected{error};
  }
  // A listening socket becomes ready when a connection comes, which no read takes. If no connection
  // can come, an accept is answered at once as well.
  if (!opened && (kind == HandleKind::listener || kind == HandleKind::stream_socket)) {
    facts.readable = os::listens(system_, native) == (kind == HandleKind::listener);
  }
  const bool owned = ownership == Ownership::owned;
  if (!owned) ledger_.has_borrowed.store(true, std::memory_order_relaxed);
  const bool nonblocking = (flags & O_NONBLOCK) != 0;
  const bool set_nonblocking = owned && !nonblocking && kind != HandleKind::file;
  const std::uint32_t lane = home_of(home);
  Place own{*this};
  if (place == nullptr) {
    if (const std::error_code error = take(own, home)) return unexpected{error};
    place = &own;
  }
  Handle& handle = *place->record_;
  HandleTable::fill(handle, native, kind, ownership, nonblocking || set_nonblocking,
                    static_cast<std::uint16_t>(lane), home.processor, facts);
  if (const auto error = ledger_.numbers.claim(handle)) return unexpected{error};
  // Last, so that a refused descriptor is left as it was.
  if (set_nonblocking && system_.fcntl(native, F_SETFL, flags | O_NONBLOCK) != 0) {
    const std::error_code error{errno, std::system_category()};
    ledger_.numbers.forget(handle);
    return unexpected{error};
  }
  place->record_ = nullptr;
  // FD_CLOEXEC is the only descriptor flag, so the flags need not be read before.
  if (owned && !opened) system_.fcntl(native, F_SETFD, FD_CLOEXEC);
  lanes_[lane]->open_handles.fetch_add(1, std::memory_order_relaxed);
  HandleTable::open(handle);  // last: an end of the proactor closes it from now on
  return &handle;
}

// A dedicated processor's own thread takes what its engine shows.
const Engine* Proactor::Core::foreign_loops_engine() const noexcept {
  const bool is_driven = processors_.size() == 1 && processors_.front()->mode != Mode::dedicated;
  return is_driven ? processors_.front()->engine.get() : nullptr;
}

NativeHandle Proactor::Core::descriptor() const noexcept {
  const Engine* const engine = foreign_loops_engine();
  return engine != nullptr ? engine->descriptor() : invalid_handle;
}

Glance Proactor::Core::glance() const noexcept {
  const Engine* const engine = foreign_loops_engine();
  return engine != nullptr ? engine->glance() : Glance::cannot_tell;
}

std::error_code Proactor::Core::close(Handle& handle, Operation& operation) noexcept {
  if (forked()) return errc::after_fork;
  if (operation.state() != OperationState::initialized) {
    return operation.is_pending() ? errc::operation_in_use : errc::not_prepared;
  }
  if (Access::phase(handle) != Access::Phase::open) return errc::handle_closed;
  // The lane's thread reads the kind and the handle from the mail.
  BATON_ASSERT(operation.kind() == OperationKind::close && operation.handle() == &handle);
  if (!per_thread_) {
    ledger_.mutex().lock(system_);
    std::error_code error = errc::handle_closed;
    if (Access::phase(handle) == Access::Phase::open) {
      Access::activate(operation, OperationState::started);
      starter_->set_clock(*first_lane_);
      ledger_.begin_close(*first_lane_, handle, &operation);
      if (!handle.owned()) ledger_.numbers.forget(handle);  // starts there come after the lock
      dispatcher_->run_closures();
      dispatcher_->look_round();
      error = {};
    }
    ledger_.mutex().unlock(system_);
    return error;
  }
  if (!handle.owned()) ledger_.numbers.forget(handle);
  Access::activate(operation, OperationState::started);
  LaneLoop& loop = *loops_[Access::lane(handle)];
  if (!loop.mine()) return taken_or_stopped(loop.mail(operation), operation);
  loop.begin_call();
  if (ledger_.begin_close(loop.lane(), handle, &operation)) {
    loop.run_closures();
    return {};
  }
  Access::deactivate(operation);  // a close was in the mail
  return errc::handle_closed;
}

void Proactor::Core::close_detached(Handle& handle) noexcept {
  if (forked() || Access::phase(handle) != Access::Phase::open) return;
  if (!per_thread_) {
    ledger_.mutex().lock(system_);
    const bool begun = ledger_.begin_close(*first_lane_, handle, nullptr);
    if (begun && !handle.owned()) ledger_.numbers.forget(handle);
    dispatcher_->run_closures();
    dispatcher_->look_round();
    ledger_.mutex().unlock(system_);
    return;
  }
  if (!handle.owned()) ledger_.numbers.forget(handle);
  LaneLoop& loop = *loops_[Access::lane(handle)];
  if (loop.mine()) {
    loop.begin_call();
    ledger_.begin_close(loop.lane(), handle, nullptr);
    loop.run_closures();
  } else {
    loop.ask(handle, {handle.generation(), LaneRequests::close_detached});
  }
}

// -- HandlerRunner --------------------------------------------------------------------------------

// With the lock, the check for the end of a drain sees the operation in the strand or in the queue.
void Proactor::Core::requeue(Lane& lane, Operation& operation) noexcept {
  const os::LockGuard lock{ledger_.mutex(), system_, !per_thread_};  // a lane is its thread's
  ledger_.held_by_strands.fetch_sub(1, std::memory_order_relaxed);
  Access::requeued(operation);
  if (!operation.has(Operation::internal)) lane.counters.completed.sub();  // counted again later
  lane.completed.push_back(operation);
  if (!per_thread_) dispatcher_->look_round();
}

void Proactor::Core::brought_back(Operation& operation) noexcept {
  if (per_thread_) {
    const os::LockGuard alone{stop_mutex_, system_};
    ledger_.held_by_strands.fetch_sub(1, std::memory_order_relaxed);
    loops_[Access::processor(operation)]->mail_back(operation);
    return;
  }
  requeue(*first_lane_, operation);
}

void Proactor::Core::returned_elsewhere(Handle& handle) noexcept {
  Access::returned(handle).fetch_add(1, std::memory_order_release);
  loops_[Access::lane(handle)]->ask(handle, {handle.generation(), LaneRequests::handler_returned});
}

// Hands the operations that a dedicated processor has finished to the lanes of their handles.
// Called by the dedicated thread, with the mutex held.
void Proactor::Core::deliver_to_lanes(void* self, OperationQueue& finished) {
  auto& core = *static_cast<Core*>(self);
  while (!finished.empty()) {
    Operation& operation = finished.pop_front();
    core.loops_[Access::lane(*operation.handle())]->mail_back(operation);
  }
}

// -- statistics -----------------------------------------------------------------------------------

Statistics Proactor::Core::statistics() const {
  Statistics sum;
  const auto add = [&sum](const LaneCounters& from) {
    sum.started += from.started.get() + from.simple_done.get() + from.simple_pending.get();
    sum.completed += from.completed.get();
    sum.completed_at_once += from.completed_at_once.get() + from.simple_done.get();
    sum.deferred += from.deferred.get();
    sum.posted += from.posted.get();
    sum.cancelled += from.cancelled.get();
    sum.timed_out += from.timed_out.get();
    sum.refused_limit += from.refused_limit.get();
    sum.pending += from.pending_now();
    sum.waits += from.waits.get();
    sum.batch_total += from.batch_total.get();
    sum.batch_max = std::max(sum.batch_max, from.batch_max.get());
    sum.interrupts_sent += from.interrupts_sent.get();
    sum.interrupts_suppressed += from.interrupts_suppressed.get();
    sum.followers_woken += from.followers_woken.get();
    sum.wakes_suppressed += from.wakes_suppressed.get();
    sum.leader_changes += from.leader_changes.get();
    sum.seats_taken += from.seats_taken.get();
    sum.handler_ns_max = std::max(sum.handler_ns_max, from.handler_ns_max.get());
    sum.slow_handlers += from.slow_handlers.get();
    sum.exceptions += from.exceptions.get();
  };
  for (const auto& lane : lanes_) {
    add(lane->counters);
    sum.refused_limit += lane->refused_limit.load(std::memory_order_relaxed);
  }
  add(between_lanes_.counters);
  for (const auto& loop : loops_) {
    sum.interrupts_sent += loop->wakes_sent();
    sum.interrupts_suppressed += loop->wakes_suppressed();
  }
  for (const auto& processor : processors_) {
    const EngineCounters from = processor->engine->counters();
    sum.stale_events += from.stale_events;
    sum.accept_backoffs += from.accept_backoffs;
    sum.worker_jobs += from.worker_jobs;
  }
  sum.exceptions += task_exceptions.count();
  sum.handles = ledger_.handles.count();
  return sum;
}

}  // namespace baton
