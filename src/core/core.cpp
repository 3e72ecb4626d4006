// Carries out each public call: with the mutex in shared and dedicated mode, in the lane's thread
// in per_thread mode.
#include "core/core.hpp"

#include <errno.h>
#include <fcntl.h>

#include <algorithm>
#include <bitset>
#include <exception>
#include <new>
#include <string>
#include <system_error>
#include <utility>

#include "base/assert.hpp"
#include "base/probes.hpp"
#include "baton/log.hpp"
#include "baton/misuse.hpp"
#include "baton/strand.hpp"
#include "core/handle_kinds.hpp"
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

Proactor::Core::~Core() {
  if (crew_.has_attached()) {  // they would come back to what is gone
    detail::misused("a proactor was destroyed with a thread attached: end the Attachment first");
  }
  refuse_to_end_driven(
      "a proactor was destroyed while a thread is in run(): stop() it, and join the thread");
  static_cast<void>(ancestor.release());  // as in ~Proactor: its memory is left alone
  finishing_.store(true, std::memory_order_seq_cst);
  run_what_is_left();
  dispatcher_->stop_threads();
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

std::size_t Proactor::Core::turn(Deadline deadline, std::size_t handlers_max, bool return_after,
                                 bool for_good) {
  if (forked()) throw std::system_error(make_error_code(errc::after_fork));
  if (!per_thread_) return dispatcher_->turn(deadline, handlers_max, return_after);
  return crew_.turn(deadline, handlers_max, return_after, for_good);
}

std::unique_ptr<AttachedMember> Proactor::Core::attach() {
  if (forked()) throw std::system_error(make_error_code(errc::after_fork));
  if (!per_thread_ || LaneLoop::here(ledger_) != nullptr) return nullptr;
  auto member = std::make_unique<AttachedMember>(crew_);
  return member->has_lane() ? std::move(member) : nullptr;
}

void Proactor::Core::refuse(Refusing what) noexcept {
  // seq_cst: a drain then looks for a leader, and a thread that comes to lead looks here.
  ledger_.refusing.store(what, std::memory_order_seq_cst);
  // A lane's thread clears `attention` when nothing is refused. A shared lane has no such thread.
  const bool attention = per_thread_ || what != Refusing::nothing;
  for (const auto& lane : lanes_) lane->attention.store(attention, std::memory_order_release);
}

void Proactor::Core::stop() noexcept {
  if (forked()) return;
  // A concurrent restart must not interleave with this, or only some lanes would be stopped.
  const os::LockGuard lock{ledger_.mutex(), system_, !per_thread_};
  const os::LockGuard alone{stop_mutex_, system_, per_thread_};
  // It ends a drain as well, so what is still in the mail is not cancelled.
  ledger_.draining.store(false);
  stopped_.store(true, std::memory_order_seq_cst);
  refuse(Refusing::everything);
  if (per_thread_) {
    crew_.stop();
  } else {
    dispatcher_->stop_locked();
  }
}

void Proactor::Core::restart() noexcept {
  if (forked() || finishing_.load(std::memory_order_acquire)) return;
  // A dedicated thread that has just seen the drain complete holds this mutex. It must not stop
  // what begins now.
  const os::LockGuard lock{ledger_.mutex(), system_};
  const os::LockGuard alone{stop_mutex_, system_, per_thread_};
  ledger_.draining.store(false);
  refuse(Refusing::nothing);
  stopped_.store(false, std::memory_order_release);
  dispatcher_->restart();
}

void Proactor::Core::drain(Deadline deadline) noexcept {
  if (forked() || finishing_.load(std::memory_order_acquire)) return;
  // If two drains are concurrent, the second one finds the deadline of the first.
  const os::LockGuard one_by_one{drain_mutex_, system_};
  bool goes_on = false;
  {
    // The locks of stop(): a drain that has not seen a stop must not undo it, nor cancel what is
    // started after a restart.
    const os::LockGuard lock{ledger_.mutex(), system_, !per_thread_};
    const os::LockGuard alone{stop_mutex_, system_, per_thread_};
    if (stopped()) return;
    goes_on = ledger_.draining.exchange(true);
    if (!goes_on) {
      refuse(Refusing::accepts);
      cancel_when_draining(LaneRequests::cancel_accepts);
    }
  }
  if (goes_on && deadline >= drain_deadline_) return;
  drain_deadline_ = deadline;
  if (deadline.is_never()) return;
  if (drain_timer_runs_) {
    // It belongs to an earlier drain, or is later than this deadline. Its end starts it anew.
    cancel(drain_timer_, drain_timer_.activation());
  } else {
    start_drain_timer();
  }
}

void Proactor::Core::cancel_when_draining(LaneRequests::Wish wish) noexcept {
  for (const auto& loop : loops_) {
    if (loop->may_have_something()) loop->ask(wish);
  }
  if (per_thread_) return;
  if (wish == LaneRequests::cancel_all) {
    ledger_.cancel_all(*first_lane_);
  } else {
    ledger_.cancel_accepts(*first_lane_);
  }
  // Wake a waiting thread so that it notices that the drain is complete.
  dispatcher_->wake_one();
}

void Proactor::Core::start_drain_timer() noexcept {
  drain_timer_runs_ = true;
  drain_timer_.prepare(OperationKind::timer, nullptr, Operation::internal);
  drain_timer_.set_deadline(drain_deadline_);
  drain_timer_.set_handler([this](Operation&) { drain_timer_ended(); });
  // In a lane that a thread is driving.
  std::uint32_t lane = current_lane();
  for (std::uint32_t i = 0; per_thread_ && lane >= lanes(); ++i) {
    if (i == lanes() || (loops_[i]->driven() && !loops_[i]->is_away())) lane = i % lanes();
  }
  static_cast<void>(start_timer(drain_timer_, per_thread_ ? lane : 0));
}

void Proactor::Core::drain_timer_ended() noexcept {
  const os::LockGuard one_by_one{drain_mutex_, system_};
  drain_timer_runs_ = false;
  if (!ledger_.draining.load() || drain_deadline_.is_never()) return;
  if (ledger_.now() < drain_deadline_) {
    if (!ledger_.drain_is_over()) start_drain_timer();
    return;
  }
  const os::LockGuard lock{ledger_.mutex(), system_, !per_thread_};
  const os::LockGuard alone{stop_mutex_, system_, per_thread_};
  if (!ledger_.draining.load()) return;  // a restart came first
  // A session that never pauses would go on without end.
  refuse(Refusing::everything);
  cancel_when_draining(LaneRequests::cancel_all);
}

// While draining: the last lane that has nothing left to do ends the run. It looks at all lanes
// twice. Work reaches a lane only by mail of a lane that is at work, and a lane is marked as at
// work before it takes mail or completions. So if no lane's activity has changed between the two
// looks, there was a moment between them when nothing was left. Otherwise the lane that has changed
// looks when it is done.
void Proactor::Core::lane_is_quiet(Lane&) noexcept {
  if (!per_thread_) {
    ledger_.mutex().assume_held();  // by its Dispatcher
    stopped_.store(true, std::memory_order_release);
    refuse(Refusing::everything);
    dispatcher_->stop_locked();
    return;
  }
  // A restart comes before all of this or after it. If it came before, the drain is over.
  const os::LockGuard alone{stop_mutex_, system_};
  if (!ledger_.draining.load() || ledger_.held_by_strands.load() > 0) return;
  std::uint64_t seen[2] = {0, 0};
  for (std::uint64_t& sum : seen) {
    for (const auto& lane : lanes_) {
      const std::uint32_t activity = lane->activity.load(std::memory_order_seq_cst);
      if (activity % 2 != 0 || lane->has_mail() || lane->counters.pending_now() > 0) return;
      sum += activity;
    }
  }
  if (seen[0] != seen[1]) return;
  stopped_.store(true, std::memory_order_seq_cst);
  refuse(Refusing::everything);
  crew_.stop();
}

// -- starting -------------------------------------------------------------------------------------

std::error_code Proactor::Core::check(const Operation& operation) const noexcept {
  const OperationKind kind = operation.kind();
  const Refusing refusing = ledger_.refusing.load(std::memory_order_acquire);
  if (refusing != Refusing::nothing &&
      (refusing == Refusing::everything || kind == OperationKind::accept)) {
    return errc::stopped;
  }
  if (kind == OperationKind::user || operation.handle() == nullptr) {
    return std::make_error_code(std::errc::invalid_argument);
  }
  if (!knows(*operation.handle(), kind)) return errc::wrong_handle_kind;
  // Without O_APPEND it would be written over what is there, and no read has its place at the end.
  const bool is_append = operation.has(Operation::append);
  if (is_append && (kind == OperationKind::read_file ||
                    (kind == OperationKind::write_file && !operation.handle()->appends()))) {
    return std::make_error_code(std::errc::invalid_argument);
  }
  if (!Starter::is_well_formed(operation)) {
    return std::make_error_code(std::errc::invalid_argument);
  }
  // It would wait for no event, without end.
  if (kind == OperationKind::wait_ready && !operation.has(Operation::readable) &&
      !operation.has(Operation::writable)) {
    return std::make_error_code(std::errc::invalid_argument);
  }
  return {};
}

// Only calls, so that neither path saves registers for the other.
std::error_code Proactor::start(Operation& operation) noexcept {
  Handle* const handle = Starter::handle_of_simple(operation);
  if (BATON_UNLIKELY(handle == nullptr)) return core_->start_less_simple(operation);
  // relaxed: any value other than this thread's lane, or a shared one, leads to the slow path.
  Lane* const lane = Access::route(*handle).load(std::memory_order_relaxed);
  return lane == os::thread_locals.lane ? core_->start_here(*lane, operation, *handle)
                                        : core_->start_elsewhere(lane, operation, *handle);
}

std::error_code Proactor::start_timer(Operation& operation, Deadline when) noexcept {
  if (BATON_UNLIKELY(operation.is_pending())) return errc::operation_in_use;
  operation.prepare(OperationKind::timer, nullptr);
  operation.set_deadline(when);
  const std::error_code* const done = Starter::start_simple_timer(core_->ledger(), operation);
  return BATON_LIKELY(done != nullptr) ? *done : core_->start(operation);
}

std::error_code Proactor::Core::start_here(Lane& lane, Operation& operation,
                                           Handle& handle) noexcept {
  const std::error_code* const done = Starter::start_here(lane, operation, handle);
  return BATON_LIKELY(done != nullptr) ? *done : start(operation);
}

std::error_code Proactor::Core::start_elsewhere(Lane* lane, Operation& operation,
                                                Handle& handle) noexcept {
  const std::error_code* const done = Starter::start_elsewhere(lane, operation, handle);
  return BATON_LIKELY(done != nullptr) ? *done : start(operation);
}

std::error_code Proactor::Core::start_less_simple(Operation& operation) noexcept {
  const std::error_code* const done = Starter::start_less_simple(operation);
  return done != nullptr ? *done : start(operation);
}

std::error_code Proactor::Core::start(Operation& operation) noexcept {
  if (BATON_UNLIKELY(forked())) return errc::after_fork;
  if (BATON_UNLIKELY(operation.state() != OperationState::initialized)) {
    return operation.is_pending() ? errc::operation_in_use : errc::not_prepared;
  }
  if (operation.kind() == OperationKind::timer) {
    if (BATON_UNLIKELY(refuses_everything())) return errc::stopped;
    LaneLoop* const here = per_thread_ ? LaneLoop::here(ledger_) : nullptr;
    return start_timer(operation, here != nullptr ? here->lane_index() : home_of(Home{}));
  }
  if (operation.kind() == OperationKind::close && operation.handle() != nullptr) {
    return close(*operation.handle(), operation);
  }
  if (const std::error_code error = check(operation)) return error;
  return start_on_handle(operation);
}

// Another thread may finish the proactor after this one was not refused. `taken`: it had not.
inline std::error_code Proactor::Core::taken_or_stopped(bool taken, Operation& operation) noexcept {
  if (BATON_LIKELY(taken)) return success_;
  Access::deactivate(operation);
  return errc::stopped;
}

std::error_code Proactor::Core::start_on_handle(Operation& operation) noexcept {
  const Handle& handle = *operation.handle();
  Lane& lane = *lanes_[Access::lane(handle)];
  Processor* const processor = ledger_.route(lane, operation.kind(), handle);
  if (processor == nullptr) return errc::not_supported;
  LaneLoop* const loop = per_thread_ ? loops_[lane.index].get() : nullptr;
  if (loop == nullptr || loop->mine()) {
    if (loop != nullptr) loop->begin_call();
    return starter_->start(lane, *processor, operation, false);
  }
  if (Access::phase(handle) != Access::Phase::open) return errc::handle_closed;
  // This check races with other starters, and with the lane's thread. That thread checks again and
  // completes the operation with an error. In this order no operation is counted twice, so none is
  // refused too early.
  const std::uint64_t outstanding = processor->outstanding_now();
  std::atomic_thread_fence(std::memory_order_acquire);
  if (outstanding + lane.mailed.load(std::memory_order_relaxed) >= processor->operations_max) {
    lane.refused_limit.fetch_add(1, std::memory_order_relaxed);
    return errc::limit_reached;
  }
  Access::activate(operation, OperationState::started);
  return taken_or_stopped(loop->mail(operation), operation);
}

std::error_code Proactor::Core::start_timer(Operation& operation, std::uint32_t lane) noexcept {
  Access::set_processor(operation, static_cast<std::uint16_t>(lane));  // for cancel
  Access::activate(operation, OperationState::started);
  LaneLoop* const loop = per_thread_ ? loops_[lane].get() : nullptr;
  if (loop != nullptr && !loop->mine()) {
    return taken_or_stopped(loop->mail(operation), operation);
  }
  if (loop != nullptr) loop->begin_call();  // an earlier cancel_all must not end this timer
  return taken_or_stopped(starter_->start_timer(*lanes_[lane], operation), operation);
}

std::error_code Proactor::post(Operation& operation, Notify level, Home home) noexcept {
  const std::error_code* const done =
      home.lane == Home::here_or_next ? Starter::post_simple(core_->ledger(), operation) : nullptr;
  return BATON_LIKELY(done != nullptr) ? *done : core_->post(operation, level, home);
}

// The library's own posts finish what has begun, and are never refused. In a stopped proactor they
// wait until it is driven again. A finished one is not: this thread, of another proactor with which
// a task shares its work, runs them, unless it is inside the strand that they need.
std::error_code Proactor::Core::post(Operation& operation, Notify level, Home home) noexcept {
  if (BATON_UNLIKELY(forked())) return errc::after_fork;
  if (BATON_UNLIKELY(operation.is_pending())) return errc::operation_in_use;
  if (!operation.has(Operation::internal)) {
    return BATON_UNLIKELY(refuses_everything()) ? errc::stopped
                                                : queue_post(operation, level, home);
  }
  const Strand* const strand = operation.strand();
  const bool runs_here = strand == nullptr || !strand->running_in_this_thread();
  const std::error_code error =
      queue_post(operation, refuses_everything() ? Notify::strong : level, home);
  // seq_cst: see finish().
  if (BATON_UNLIKELY(finishing_.load(std::memory_order_seq_cst)) && runs_here) run_what_is_left();
  return error;
}

std::error_code Proactor::Core::queue_post(Operation& operation, Notify level, Home home) noexcept {
  // It may have been a request on a handle before.
  if (BATON_UNLIKELY(operation.kind() != OperationKind::user)) {
    operation.prepare(OperationKind::user, nullptr, operation.flags() & Operation::cached);
  }
  Access::activate(operation, OperationState::posted);
  if (!per_thread_) {
    return taken_or_stopped(starter_->post(*first_lane_, operation, level), operation);
  }
  LaneLoop* const here = LaneLoop::here(ledger_);
  if (operation.strand() != nullptr && home.lane == Home::here_or_next) {
    // One queue keeps their order. (Another proactor of the strand may have more lanes.)
    home.lane = operation.strand()->lane(home_of(home)) % lanes();
  }
  const bool is_here = here != nullptr && home.lane == Home::here_or_next;
  LaneLoop& loop = is_here ? *here : *loops_[home_of(home)];
  if (!is_here && !loop.mine()) return taken_or_stopped(loop.mail(operation), operation);
  loop.begin_call();
  starter_->post(loop.lane(), operation, level);
  return success_;
}

// -- cancelling -----------------------------------------------------------------------------------

namespace {

// Any other operation is posted, complete or at rest. It must not be read, because its handler may
// be preparing it anew at this moment.
bool is_in_progress(const Operation& operation, std::uint32_t activation) noexcept {
  const OperationState state = operation.state();
  return (state == OperationState::started || state == OperationState::deferred) &&
         operation.activation() == activation;
}

// REQUIRES: the operation was in progress. Its lane may have completed it meanwhile and started
// another request with it, so the result is valid only if the caller finds the same activation
// afterwards.
std::uint16_t lane_of(const Operation& operation, const Handle* handle) noexcept {
  return handle != nullptr ? Access::lane(*handle) : Access::processor(operation);
}

}  // namespace

bool Proactor::Core::move_deadline(Operation& operation, Deadline deadline) noexcept {
  if (BATON_UNLIKELY(forked())) return false;
  const std::uint32_t activation = operation.activation();
  if (!per_thread_) {
    const os::LockGuard lock{ledger_.mutex(), system_};
    if (!is_in_progress(operation, activation)) return false;
    const bool sooner = deadline < operation.deadline();
    if (!ledger_.move_deadline(*first_lane_, operation, deadline)) return false;
    if (sooner) dispatcher_->timer_added(deadline);
    return true;
  }
  LaneLoop* const here = LaneLoop::here(ledger_);
  if (here == nullptr || !is_in_progress(operation, activation)) return false;
  const bool mine = lane_of(operation, operation.handle()) == here->lane_index();
  here->begin_call();  // it may still lie there
  return mine && is_in_progress(operation, activation) &&
         ledger_.move_deadline(here->lane(), operation, deadline);
}

CancelResult Proactor::Core::cancel(Operation& operation, std::uint32_t activation) noexcept {
  if (forked()) return CancelResult::nothing_pending;
  const auto pending = [&] { return is_in_progress(operation, activation); };
  if (!per_thread_) {
    const os::LockGuard lock{ledger_.mutex(), system_};
    if (!pending()) return CancelResult::nothing_pending;
    const Handle* const handle = operation.handle();
    const bool borrowed = handle != nullptr && !handle->owned();
    const bool asked = ledger_.cancel(*first_lane_, operation);
    dispatcher_->look_round();
    if (borrowed) dispatcher_->wait_for_cancels();
    return asked ? CancelResult::requested : CancelResult::nothing_pending;
  }
  if (LaneLoop* const here = LaneLoop::here(ledger_);
      here != nullptr && operation.handle() == nullptr &&
      Access::processor(operation) == here->lane_index()) {
    here->begin_call();  // it may still lie there
    return pending() && ledger_.cancel(here->lane(), operation) ? CancelResult::requested
                                                                : CancelResult::nothing_pending;
  }
  if (!pending()) return CancelResult::nothing_pending;
  Handle* handle = operation.handle();
  const std::uint16_t lane = lane_of(operation, handle);
  if (!pending()) return CancelResult::nothing_pending;
  LaneLoop& loop = *loops_[lane];
  if (loop.mine()) {
    loop.begin_call();  // it may still lie there
    if (!pending()) return CancelResult::nothing_pending;
    return ledger_.cancel(loop.lane(), operation) ? CancelResult::requested
                                                  : CancelResult::nothing_pending;
  }
  // Read before it is marked: after that it may be complete, and its memory may be used again.
  const std::uint32_t generation = handle != nullptr ? handle->generation() : 0;
  const bool borrowed = handle != nullptr && !handle->owned();
  Access::want_cancel(operation, activation);
  if (handle == nullptr) {
    loop.ask(LaneRequests::cancel_timers);
  } else {
    loop.ask(*handle, {generation, LaneRequests::cancel_marked});
  }
  if (borrowed) keep_off(loop, *handle, generation, Ledger::Which::marked);
  return CancelResult::requested;
}

// After a request to the lane: returns when no operation that it names is about to move bytes. The
// lane may have taken operations out of its mailbox before it could see the request. They are with
// the processors when the lane is out of its engines, so the dedicated processors come last.
void Proactor::Core::keep_off(LaneLoop& loop, Handle& handle, std::uint32_t generation,
                              Ledger::Which which) noexcept {
  loop.wait_for_engines(handle, generation);
  if (!ledger_.handles.has_dedicated_lists()) return;
  OperationQueue ended;
  const os::LockGuard lock{ledger_.mutex(), system_};
  ledger_.cancel_dedicated(handle, generation, which, ended);
  deliver_to_lanes(this, ended);
}

CancelResult Proactor::Core::cancel(Handle& handle) noexcept {
  if (forked()) return CancelResult::nothing_pending;
  bool asked = false;
  if (!per_thread_) {
    const os::LockGuard lock{ledger_.mutex(), system_};
    const bool borrowed = !handle.owned();
    asked = ledger_.cancel(*first_lane_, handle);
    dispatcher_->look_round();
    if (borrowed) dispatcher_->wait_for_cancels();
  } else {
    LaneLoop& loop = *loops_[Access::lane(handle)];
    if (loop.mine()) {
      loop.begin_call();
      asked = ledger_.cancel(loop.lane(), handle);
    } else {
      const std::uint32_t generation = handle.generation();
      const bool borrowed = !handle.owned();
      loop.ask(handle, {generation, LaneRequests::cancel});
      if (borrowed) keep_off(loop, handle, generation, Ledger::Which::all);
      asked = true;
    }
  }
  return asked ? CancelResult::requested : CancelResult::nothing_pending;
}

void Proactor::Core::cancel_all() noexcept {
  if (forked()) return;
  if (!per_thread_) {
    const os::LockGuard lock{ledger_.mutex(), system_};
    ledger_.cancel_all(*first_lane_);
    dispatcher_->look_round();
    return;
  }
  for (const auto& loop : loops_) {
    if (loop->mine()) {
      loop->begin_call();
      ledger_.cancel_all(loop->lane());
    } else if (loop->may_have_something()) {
      loop->ask(LaneRequests::cancel_all);
    }
  }
}

CancelWait Proactor::Core::cancel_wait(Operation& operation, std::uint32_t activation,
                                       Deadline deadline) noexcept {
  // A result counts as done even if no thread is there to run the handler.
  const auto pending = [&] {
    return operation.is_pending() && operation.state() != OperationState::result_ready &&
           operation.activation() == activation;
  };
  if (!pending()) return CancelWait::done;
  if (forked()) return CancelWait::still_running;
  ledger_.cancel_waiters.fetch_add(1, std::memory_order_seq_cst);
  static_cast<void>(cancel(operation, activation));
  CancelWait answer = CancelWait::still_running;
  for (;;) {
    const std::uint32_t seen = ledger_.completions.load(std::memory_order_acquire);
    if (!pending()) {
      const bool cancelled = operation.error_value() == ECANCELED;
      // Read afterwards, because the operation may have been started again meanwhile.
      std::atomic_thread_fence(std::memory_order_acquire);
      const bool is_its_own = operation.activation() == activation;
      answer = cancelled && is_its_own ? CancelWait::cancelled : CancelWait::done;
      break;
    }
    const Deadline now = ledger_.now();
    if (now >= deadline) break;
    // The completing thread reads cancel_waiters once per handler, without a fence, and may miss
    // this waiter. The bound on the wait makes up for that.
    const Deadline until = std::min(deadline, Deadline::after(std::chrono::milliseconds{5}, now));
    system_.futex_wait(&ledger_.completions, seen, until.ns());
  }
  ledger_.cancel_waiters.fetch_sub(1, std::memory_order_seq_cst);
  return answer;
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

Result<Handle*> Proactor::Core::adopt(NativeHandle native, HandleKind kind, Ownership ownership,
                                      Home home) noexcept {
  if (forked()) return unexpected{make_error_code(errc::after_fork)};
  if (refuses_everything()) return unexpected{make_error_code(errc::stopped)};
  if (home.processor != Home::any_processor && home.processor >= config.processors.size()) {
    return unexpected{make_error_code(errc::bad_configuration)};
  }
  const int flags = system_.fcntl(native, F_GETFL, 0);
  if (flags < 0) return unexpected{std::error_code{errno, std::system_category()}};  // EBADF
  OpenFacts facts{.readable = (flags & O_ACCMODE) != O_WRONLY,
                  .writable = (flags & O_ACCMODE) != O_RDONLY,
                  .appends = (flags & O_APPEND) != 0,
                  .direct = (flags & O_DIRECT) != 0,
                  .syncs = (flags & O_DSYNC) != 0};
  if (kind == HandleKind::file || kind == HandleKind::pipe) {
    if (const auto error = look_at_file(system_, native, kind, facts)) return unexpected{error};
  }
  const bool accepted = home.lane == Home::by_policy;
  // A listening socket becomes ready when a connection comes, which no read takes. If no connection
  // can come, an accept is answered at once as well.
  if (kind == HandleKind::listener || (kind == HandleKind::stream_socket && !accepted)) {
    facts.readable = os::listens(system_, native) == (kind == HandleKind::listener);
  }
  const bool owned = ownership == Ownership::owned;
  if (!owned) ledger_.has_borrowed.store(true, std::memory_order_relaxed);
  const bool nonblocking = (flags & O_NONBLOCK) != 0;
  const bool set_nonblocking = owned && !nonblocking && kind != HandleKind::file;
  const std::uint32_t lane = home_of(home);
  Handle* handle =
      ledger_.handles.allocate(native, kind, ownership, nonblocking || set_nonblocking,
                               static_cast<std::uint16_t>(lane), home.processor, facts, accepted);
  if (handle == nullptr) {
    return unexpected{
        make_error_code(refuses_everything() ? errc::stopped : errc::no_free_handles)};
  }
  if (const auto error = ledger_.numbers.claim(*handle)) {
    ledger_.handles.release(*handle);
    return unexpected{error};
  }
  // Last, so that a refused descriptor is left as it was.
  if (set_nonblocking && system_.fcntl(native, F_SETFL, flags | O_NONBLOCK) != 0) {
    const std::error_code error{errno, std::system_category()};
    ledger_.numbers.forget(*handle);
    ledger_.handles.release(*handle);
    return unexpected{error};
  }
  // FD_CLOEXEC is the only descriptor flag, so the flags need not be read before.
  if (owned) system_.fcntl(native, F_SETFD, FD_CLOEXEC);
  lanes_[lane]->open_handles.fetch_add(1, std::memory_order_relaxed);
  HandleTable::open(*handle);  // last: an end of the proactor closes it from now on
  return handle;
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
  if (ledger_.begin_close(loop.lane(), handle, &operation)) return {};
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

// -- the end --------------------------------------------------------------------------------------

bool Proactor::Core::everything_finished() noexcept {
  // acquire: before the queues are read, so that they hold what threads of other proactors queued.
  if (ledger_.in_strands.load(std::memory_order_acquire) > 0) return false;
  std::uint64_t pending = 0;
  for (const auto& lane : lanes_) pending += lane->counters.pending_now();
  if (ledger_.handles.count() != 0 || pending != 0) return false;
  // A dedicated thread hands over what it has taken while that is pending, so not before.
  return std::none_of(lanes_.begin(), lanes_.end(), [](const auto& lane) {
    return !lane->completed.empty() || lane->has_mail() || !lane->timers.empty();
  });
}

// What other threads mail from now on is refused.
bool Proactor::Core::close_mailboxes() noexcept {
  return !per_thread_ || std::all_of(lanes_.begin(), lanes_.end(),
                                     [](const auto& lane) { return lane->mailbox.close(); });
}

void Proactor::Core::refuse_to_end_driven(const char* sentence) const noexcept {
  // An attached thread leads its lane between its calls, too.
  if (!finishing_.load() && !crew_.has_attached() && is_driven()) detail::misused(sentence);
}

void Proactor::Core::finish() noexcept {
  if (inside()) return end_in_handler();
  refuse_to_end_driven(
      "finish() was called while another thread is in run(): stop() it, and join the thread");
  // seq_cst: a post that comes meanwhile is queued before its thread reads this. Either the thread
  // sees it, or the run that follows finds the post.
  finishing_.store(true, std::memory_order_seq_cst);
  run_what_is_left();
}

// One thread at a time; it goes on for those that come meanwhile.
void Proactor::Core::run_what_is_left() noexcept {
  if (left_.fetch_add(1, std::memory_order_acq_rel) != 0) return;
  std::uint32_t seen = 0;
  do {
    seen = left_.load(std::memory_order_acquire);
    finish_everything();
  } while (left_.fetch_sub(seen, std::memory_order_acq_rel) != seen);
  stop();
}

void Proactor::Core::end_in_handler() noexcept {
  // exit() may destroy operations, which stay pending.
  os::left_behind.store(true, std::memory_order_relaxed);
  ended_in_handler.set();
  stop();  // the turn ends when the handler returns, and other threads do not come out
  end_engines();
  stop();  // of the lanes that this thread has entered
}

// exit() goes on to free memory of the program, which kernel and engines must not write into any
// more. A lane of a thread that is in a handler, perhaps waiting for this one, is left after a
// while.
void Proactor::Core::end_engines() noexcept {
  const Deadline until = Deadline::after(std::chrono::seconds{1}, ledger_.now());
  for (const auto& loop : loops_) {
    bool here = loop->mine();
    while (!here && !(here = loop->enter(nullptr, LaneLoop::Led::at_home)) && loop->driven() &&
           ledger_.now() < until) {
      system_.yield();
    }
    if (here) loop->end_engines(until);
  }
  if (!per_thread_) {
    const os::LockGuard lock{ledger_.mutex(), system_};
    ledger_.cancel_all(*first_lane_);
    dispatcher_->look_round();
  }
  dispatcher_->end_engines(until);
}

// In a catch block.
void Proactor::Core::log_dropped_exception() const noexcept {
  if (config.log == nullptr) return;
  try {
    std::string line = "the end of a proactor drops an exception of a handler";
    try {
      throw;
    } catch (const std::exception& exception) {
      line += ": ";
      line += exception.what();
    } catch (...) {
      line += " that is no std::exception";
    }
    config.log->write(LogLevel::error, iso_8601(system_.realtime_us()), line);
  } catch (const std::bad_alloc&) {
    // No memory for the line: the exception is counted all the same.
  }
}

// Also for the destructor: cancels and closes everything, and runs the handlers in this thread.
// Starts fail as stopped.
void Proactor::Core::finish_everything() noexcept {
  {
    const os::LockGuard lock{ledger_.mutex(), system_, !per_thread_};  // see Starter::is_too_late
    refuse(Refusing::everything);
  }
  ledger_.draining.store(false);
  ledger_.handles.end();
  const auto step = [&](auto&& turn_once) {
    try {
      turn_once();
    } catch (...) {
      // No caller can take a handler's exception here, and the other handlers must still run.
      log_dropped_exception();
    }
  };
  for (const auto& loop : loops_) loop->take_over();
  while (!everything_finished() || !close_mailboxes()) {
    overtake_in_a_strand();
    for (const auto& loop : loops_) loop->restart();  // a handler may call stop() again
    dispatcher_->restart();
    const Deadline soon = Deadline::after(std::chrono::milliseconds{1}, ledger_.now());
    if (!per_thread_) {
      {
        const os::LockGuard lock{ledger_.mutex(), system_};
        ledger_.close_everything(*first_lane_);
        ledger_.cancel_everything(*first_lane_);
      }
      step([&] { dispatcher_->turn(soon, 0, true); });
      continue;
    }
    for (const auto& loop : loops_) {
      step([&] {
        loop->cancel_and_close_everything();
        loop->turn(soon, 0, true);
      });
    }
  }
  for (const auto& loop : loops_) loop->leave(false);
}

namespace {

// A fork copies the descriptors before the memory, and a close is accounted after it was made. So
// the child may lack the number, or have opened a file of its own under it. The proactor's
// descriptors are close-on-exec, so a file that is not is the child's.
void close_inherited(const os::System& system, NativeHandle native) noexcept {
  const int flags = system.fcntl(native, F_GETFD, 0);  // EBADF: it is not here
  if (flags >= 0 && (flags & FD_CLOEXEC) != 0) system.close(native);
}

// Connections that the parent delivers. Their peers would never see the end of one that is open in
// the child, too.
void close_accepted(const os::System& system, const OperationQueue& completed) noexcept {
  for (const Operation* operation = completed.front(); operation != nullptr;
       operation = OperationQueue::next(*operation)) {
    if (operation->kind() != OperationKind::accept || operation->failed()) continue;
    if (operation->state() != OperationState::result_ready) continue;
    close_inherited(system, operation->accepted());
  }
}

}  // namespace

void Proactor::Core::abandon_after_fork() noexcept {
  // No lock is taken: a thread that held one at the fork does not exist here, and may have been in
  // the middle of a change. An operation between two lists cannot be found and stays pending.
  os::left_behind.store(true, std::memory_order_relaxed);
  const auto abandon = [](Operation& operation) { Access::abandon(operation); };
  // First, because a timer is known by being pending, and so is a result.
  for (const auto& lane : lanes_) close_accepted(system_, lane->completed);
  for (const auto& lane : lanes_) lane->timers.take_apart(abandon);
  ledger_.handles.for_each([&](Handle& handle) {
    ledger_.for_each(handle, abandon);
    if (Operation* closing = Access::closing(handle)) abandon(*closing);
    if (handle.owned()) close_inherited(system_, handle.native());
    Access::set_phase(handle, Access::Phase::closed);
  });
  for (const auto& lane : lanes_) {
    while (!lane->completed.empty()) abandon(lane->completed.pop_front());
    for (Operation* mailed = lane->mailbox.take_all(); mailed != nullptr;) {
      Operation* next = Access::next(*mailed);
      abandon(*mailed);
      mailed = next;
    }
  }
  for (const auto& processor : processors_) processor->engine->after_fork_in_child();
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
