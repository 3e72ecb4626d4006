// The slow path of a start, and telling the leader about started operations.
#include "core/starter.hpp"

#include <algorithm>

#include "core/runner.hpp"
#include "core/visit.hpp"

namespace baton {

using Access = OperationAccess;

Starter::Starter(Ledger& ledger, Dispatcher* dispatcher) noexcept
    : ledger_(ledger), dispatcher_(dispatcher), system_(ledger.system()) {}

void Starter::find_route(Lane& lane) noexcept {
  lane.starter = this;
  const auto first_that_takes = [&](OperationKind kind) -> Processor* {
    for (Processor* processor : ledger_.teams[lane.index]) {
      if (processor->supports(kind)) return processor;
    }
    return nullptr;
  };
  Processor* const found = first_that_takes(OperationKind::read_stream);
  if (found == nullptr || first_that_takes(OperationKind::write_stream) != found) return;
  if (found->mode != Mode::per_thread && (!shared() || !found->start_any)) return;
  Route& route = lane.route;
  route.processor = found;
  route.engine = found->engine.get();
  route.takes_datagrams = first_that_takes(OperationKind::read_datagram) == found &&
                          first_that_takes(OperationKind::write_datagram) == found;
  route.started_max = found->operations_max;
  if (found->started_max != 0) route.started_max = std::min(route.started_max, found->started_max);
  found->simple = &lane.counters.simple_pending;
}

// -- simple requests ------------------------------------------------------------------------------

// For datagrams, and for operations with a strand or from the cache.
const std::error_code* Starter::start_less_simple(Operation& operation) noexcept {
  const bool is_stream = Access::is_simple(operation);
  if (!(is_stream ? is_well_formed(operation) : Access::is_simple_datagram(operation))) {
    return nullptr;
  }
  Handle* const handle = operation.handle();
  if (handle == nullptr) return nullptr;
  Lane* const lane = Access::route(*handle).load(std::memory_order_relaxed);
  if (lane == nullptr) return nullptr;
  if (!is_stream && (!lane->route.takes_datagrams || handle->kind() == HandleKind::pipe ||
                     handle->kind() == HandleKind::file)) {
    return nullptr;
  }
  const bool more = operation.strand() != nullptr || operation.has(Operation::cached);
  const std::uint8_t flags = more ? 0 : Access::direct;
  Starter& starter = *lane->starter;
  if (starter.shared()) return starter.start_shared(*lane, operation, *handle, flags);
  return lane == os::thread_locals.lane ? start_at(*lane, operation, *handle, flags) : nullptr;
}

// Releases the lock just before the call of the engine, which keeps the order from there
// (engine.hpp).
const std::error_code* Starter::start_beside_others(Lane& lane, Operation& operation,
                                                    Handle& handle, std::uint8_t flags) noexcept {
  static const std::error_code success;  // not the lane's, which may be gone after a visit
  Dispatcher& dispatcher = *dispatcher_;
  const Visit visit{ledger_, !dispatcher.inside()};
  Processor& processor = *lane.route.processor;
  set_clock(lane);
  const Deadline deadline = operation.deadline();
  void* const record = Access::record(handle);
  if (BATON_UNLIKELY(Access::route(handle).load(std::memory_order_relaxed) != &lane ||
                     !claim(lane, operation, handle))) {
    ledger_.mutex().unlock(system_);
    return nullptr;
  }
  book(lane, operation, handle, flags);
  if (BATON_UNLIKELY(!deadline.is_never())) dispatcher.timer_added(deadline);
  dispatcher.look_round_after_start();
  ledger_.mutex().unlock(system_);
  BATON_PROBE2(operation_submit, &operation, processor.index);
  const Submission answer = lane.route.engine->submit(operation, record);
  if (answer == Submission::pending) {
    if (BATON_UNLIKELY(!Dispatcher::leads(processor))) tell_leader(processor);
    return &success;
  }
  ledger_.mutex().lock(system_);
  if (BATON_LIKELY(answer == Submission::completed &&
                   ledger_.completed_simply(lane, processor, operation))) {
    dispatcher.look_round_after_start();
  } else {
    came_back(lane, processor, operation, answer);
  }
  ledger_.mutex().unlock(system_);
  return &success;
}

void Starter::add_deadline(Lane& lane, Operation& operation) noexcept {
  lane.timers.add(operation);
}

// -- all requests ---------------------------------------------------------------------------------

// A lane's thread sets the clock while it runs handlers. A shared lane may have no such thread.
void Starter::set_clock(Lane& lane) noexcept {
  if (shared() && !dispatcher_->inside()) lane.clock.set(system_.monotonic_coarse_ns());
}

std::error_code Starter::start(Lane& lane, Processor& processor, Operation& operation,
                               bool mailed) noexcept {
  std::error_code error;
  const bool any_thread = processor.mode == Mode::per_thread || processor.start_any;
  Admission admission{};
  void* record = nullptr;
  Submission answer = Submission::pending;
  {
    const os::LockGuard lock{ledger_.mutex(), system_, shared()};
    set_clock(lane);
    const bool may_submit = any_thread || Dispatcher::leads(processor);
    const Deadline deadline = operation.deadline();
    admission = ledger_.admit(lane, processor, operation, may_submit, mailed, error);
    if (admission == Admission::submit) record = learn_route(lane, processor, operation);
    // There was room, so the operation waits only for the leader. The leader must be interrupted.
    if (admission == Admission::deferred && !may_submit) call_leader(processor);
    if (shared() && admission != Admission::refused) {
      if (!deadline.is_never()) dispatcher_->timer_added(deadline);
      dispatcher_->look_round_after_start();
    }
    // Only the leader submits, and never during a wait. A leader in a long handler can lose the
    // seat to a thread that waits next, whenever the mutex is free.
    if (admission == Admission::submit && !any_thread) {
      answer = processor.engine->submit(operation, record);
    }
  }
  if (answer != Submission::pending) {
    submitted(lane, processor, operation, answer);
  } else if (admission == Admission::submit && any_thread) {
    submit(lane, processor, operation, record);
  }
  return error;
}

// Sets the handle's route: the engine knows the handle now, and every check for a simple request
// has passed. Later simple requests only check that the route is still set; a close clears it.
// Returns the engine's record of the handle, or null.
void* Starter::learn_route(Lane& lane, const Processor& processor, Operation& operation) noexcept {
  if (&processor != lane.route.processor) return nullptr;
  Handle& handle = *operation.handle();
  if (Access::route(handle).load(std::memory_order_relaxed) == nullptr) {
    const OperationKind kind = operation.kind();
    const bool is_datagram =
        kind == OperationKind::read_datagram || kind == OperationKind::write_datagram;
    const bool is_simple_kind =
        kind <= OperationKind::write_stream || (lane.route.takes_datagrams && is_datagram);
    if (!is_simple_kind || Access::preferred(handle) != Handle::any_processor) return nullptr;
    Access::record(handle) = lane.route.engine->handle_record(handle);
    Access::route(handle).store(&lane, std::memory_order_relaxed);
  }
  return Access::record(handle);
}

void Starter::submit(Lane& lane, Processor& processor, Operation& operation,
                     void* record) noexcept {
  BATON_PROBE2(operation_submit, &operation, processor.index);
  const Submission answer = processor.engine->submit(operation, record);
  if (answer == Submission::pending) {
    tell_leader(processor);  // the operation may be gone already
  } else {
    submitted(lane, processor, operation, answer);
  }
}

void Starter::submitted(Lane& lane, Processor& processor, Operation& operation,
                        Submission answer) noexcept {
  const os::LockGuard lock{ledger_.mutex(), system_, shared()};
  came_back(lane, processor, operation, answer);
}

// REQUIRES: the lane's lock is held.
void Starter::came_back(Lane& lane, Processor& processor, Operation& operation,
                        Submission answer) noexcept {
  ledger_.submitted(lane, processor, operation, answer);
  // The leader may have reaped operations meanwhile, so there may be room.
  if (answer == Submission::busy && processor.mode != Mode::per_thread) call_leader(processor);
  if (shared()) dispatcher_->look_round_after_start();
}

void Starter::simple_came_back(Lane& lane, Operation& operation, Submission answer) noexcept {
  lane.starter->ledger_.mutex().assume_held();
  lane.be_at_work();
  lane.starter->came_back(lane, *lane.route.processor, operation, answer);
}

// A thread that is about to wait flushes then.
void Starter::tell_leader(Processor& processor) noexcept {
  if (processor.mode == Mode::per_thread || Dispatcher::leads(processor)) return;
  processor.engine->flush();
  if (processor.info.start_interrupts_leader &&
      processor.seat.state.load(std::memory_order_seq_cst) == SeatState::waiting) {
    processor.engine->interrupt();
  }
}

void Starter::call_leader(Processor& processor) noexcept {
  if (shared()) {
    dispatcher_->interrupt_leader(processor);
  } else {
    processor.engine->interrupt();
  }
}

// -- timers and posts -----------------------------------------------------------------------------

// A thread that finishes the proactor takes the lock after it has begun to refuse.
bool Starter::is_too_late(const Operation& operation) const noexcept {
  return shared() && !operation.has(Operation::internal) &&
         ledger_.refusing.load(std::memory_order_relaxed) == Refusing::everything;
}

bool Starter::start_timer(Lane& lane, Operation& timer) noexcept {
  const Deadline deadline = timer.deadline();
  const os::LockGuard lock{ledger_.mutex(), system_, shared()};
  if (is_too_late(timer)) return false;
  set_clock(lane);
  ledger_.start_timer(lane, timer);
  // A mailed timer may have been cancelled in the mailbox.
  if (Access::cancel_wanted(timer) || ledger_.drain_is_over()) ledger_.cancel(lane, timer);
  if (shared()) dispatcher_->timer_added(deadline);
  return true;
}

bool Starter::post(Lane& lane, Operation& operation, Notify level) noexcept {
  const os::LockGuard lock{ledger_.mutex(), system_, shared()};
  if (is_too_late(operation)) return false;
  if (!operation.has(Operation::internal)) lane.counters.posted.add();
  lane.completed.push_back(operation);
  if (!shared()) return true;
  if (level == Notify::strong) dispatcher_->look_round();
  if (level == Notify::follower) dispatcher_->look_round_for_followers();
  return true;
}

}  // namespace baton
