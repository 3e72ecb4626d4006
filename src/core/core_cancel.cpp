// Cancels, by operation, by handle and of everything, and deadlines that move.
#include "core/core.hpp"

#include <errno.h>

#include <algorithm>
#include <atomic>
#include <chrono>

namespace baton {

using Access = OperationAccess;

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
    } else if (Access::phase(handle) != Access::Phase::free) {
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

}  // namespace baton
