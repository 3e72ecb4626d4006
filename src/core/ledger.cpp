// The accounts of operations: start, completion, timers, cancel.
#include "core/ledger.hpp"

#include "base/probes.hpp"

namespace baton {

using Access = OperationAccess;

namespace {

int raw(std::error_code error) noexcept {
  return error.category() == error_category() ? -error.value() : error.value();
}

}  // namespace

Processor* Ledger::route(const Lane& lane, OperationKind kind,
                         const Handle& handle) const noexcept {
  const OperationKind behind = detail::ordered_with(kind);
  if (behind != kind) {
    Processor* const writer = first_that_takes(lane, behind, handle);
    if (writer != nullptr && writer->is_able(kind)) return writer;
  }
  return first_that_takes(lane, kind, handle);
}

Processor* Ledger::first_that_takes(const Lane& lane, OperationKind kind,
                                    const Handle& handle) const noexcept {
  const std::uint16_t preferred = Access::preferred(handle);
  Processor* first = nullptr;
  for (Processor* processor : teams[lane.index]) {
    if (!processor->supports(kind)) continue;
    if (preferred == Handle::any_processor || processor->index == preferred) return processor;
    if (first == nullptr) first = processor;
  }
  return first;
}

// -- start ----------------------------------------------------------------------------------------

// The handle's record may belong to another handle by now, so the operation forgets it.
void Ledger::refuse_mailed(Lane& lane, Operation& operation, std::error_code error) noexcept {
  operation.prepare_closed();
  operation.finish(raw(error));
  lane.counters.started.add();  // the start has succeeded, as far as its caller knows
  lane.counters.pending.add();
  take_back(lane, operation);
}

Admission Ledger::admit(Lane& lane, Processor& processor, Operation& operation, bool may_submit,
                        bool mailed, std::error_code& error) noexcept {
  Handle& handle = *operation.handle();
  if (Access::phase(handle) != Access::Phase::open) {
    error = errc::handle_closed;
    return Admission::refused;
  }
  // The caller has checked this too, but a drain may have cancelled accepts, or everything, since.
  const Refusing refused = refusing.load(std::memory_order_relaxed);
  if (refused != Refusing::nothing &&
      (drain_is_over() ||
       (refused == Refusing::accepts && operation.kind() == OperationKind::accept))) {
    error = mailed ? std::make_error_code(std::errc::operation_canceled)
                   : make_error_code(errc::stopped);
    return Admission::refused;
  }
  bool submit = false;
  bool taken = false;
  std::error_code refusal;
  {
    const Guard guard{*this, processor};
    if (processor.outstanding_now() >= processor.operations_max) {
      lane.counters.refused_limit.add();
      error = errc::limit_reached;
      return Admission::refused;
    }
    // Behind others that wait, to keep the order of one handle's operations.
    submit = may_submit && processor.has_room() && processor.deferred.empty();
    // If any thread may attach, a deferred operation is attached as well, by its own thread.
    taken = !(submit || may_call(processor)) || attach(processor, handle, refusal);
    if (mailed && Access::cancel_wanted(operation)) {
      taken = false;
      refusal = std::make_error_code(std::errc::operation_canceled);
    }
    if (!mailed) Access::activate(operation, OperationState::started);
    Access::set_processor(operation, processor.index);
    Access::set_started(operation, lane.clock.tick());
    if (is_beside_lanes(processor)) {
      Access::list_in(handles.dedicated(handle), operation);
    } else {
      Access::list(operation);
    }
    BATON_PROBE3(operation_start, &operation, operation.kind(), handle.native());
    if (taken) {
      processor.outstanding.add();
      if (submit) {
        ++processor.started;
      } else {
        Access::defer(operation);
        processor.deferred.push_back(operation);
      }
    }
  }
  lane.counters.started.add();
  lane.counters.pending.add();
  if (!taken) {
    // An engine's answer, and a cancel, is a completion, not an error of start.
    operation.finish(raw(refusal));
    lane.counters.completed_at_once.add();
    take_back(lane, operation);
    return Admission::finished;
  }
  if (!operation.deadline().is_never()) lane.timers.add(operation);
  if (submit) return Admission::submit;
  lane.counters.deferred.add();
  return Admission::deferred;
}

// One of the same order is among those from `earlier` on.
bool Ledger::is_behind(const Operation& operation, Operation* earlier) noexcept {
  const Order order = order_of(operation);
  if (order == Order::none) return false;
  while (earlier != nullptr && order_of(*earlier) != order) earlier = Access::after(*earlier);
  return earlier != nullptr;
}

void Ledger::submitted(Lane& lane, Processor& processor, Operation& operation,
                       Submission answer) noexcept {
  BATON_ASSERT(answer != Submission::pending);
  {
    const Guard guard{*this, processor};
    --processor.started;
    if (answer == Submission::busy) {
      if (!operation.cancel_asked()) {
        Access::defer(operation);
        processor.deferred.push_back(operation);
        lane.counters.deferred.add();
        return;
      }
      operation.finish(ECANCELED);
    }
    processor.outstanding.sub();
    tell_of_room(processor);
  }
  lane.counters.completed_at_once.add();
  if (!per_thread_ && overtakes(operation)) {
    Access::set(operation, Access::behind);
    lane.behind.push_back(operation);
    return;
  }
  take_back(lane, operation);
}

// The leader starts deferred operations before it waits. If it waits already, it has to be told of
// room that another thread has made. (A lane has one thread for both.)
void Ledger::tell_of_room(Processor& processor) noexcept {
  if (processor.deferred.empty() || processor.mode == Mode::per_thread) return;
  if (!processor.seat.is(SeatState::waiting) && processor.mode != Mode::dedicated) return;
  processor.seat.interrupted.store(true, std::memory_order_seq_cst);
  processor.engine->interrupt();
}

void Ledger::start_deferred(Processor& processor, OperationQueue& finished) noexcept {
  // Bounded by the present number. An operation that the engine refuses as busy returns to the
  // front and ends the loop.
  for (std::size_t left = processor.deferred.size(); left > 0 && processor.has_room(); --left) {
    Operation& operation = processor.deferred.pop_front();
    std::error_code error;
    if (!attach(processor, *operation.handle(), error)) {
      operation.finish(raw(error));
      Access::undefer(operation);
      processor.outstanding.sub();
      finished.push_back(operation);
      continue;
    }
    Access::undefer(operation);
    ++processor.started;
    BATON_PROBE2(operation_submit, &operation, processor.index);
    switch (processor.engine->submit(operation, nullptr)) {
      case Submission::pending:
        break;  // it belongs to the engine now
      case Submission::completed:
        --processor.started;
        processor.outstanding.sub();
        finished.push_back(operation);
        break;
      case Submission::busy:
        --processor.started;
        Access::defer(operation);
        processor.deferred.push_front(operation);
        return;
    }
  }
}

bool Ledger::attach(Processor& processor, Handle& handle, std::error_code& error) noexcept {
  if ((Access::attached(handle) & attached_bit(processor)) != 0) return true;
  error = processor.engine->attach(handle);
  if (error) return false;
  Access::attached(handle) |= attached_bit(processor);
  return true;
}

void Ledger::detach(Processor& processor, Handle& handle) noexcept {
  processor.engine->detach(handle);
  Access::attached(handle) &= static_cast<std::uint16_t>(~attached_bit(processor));
}

// -- completion -----------------------------------------------------------------------------------

void Ledger::take_back(Lane& lane, Operation& operation) noexcept {
  take_back_one(lane, operation);
  take_back_behind(lane);
}

void Ledger::take_back_one(Lane& lane, Operation& operation) noexcept {
  if (operation.kind() == OperationKind::close && operation.handle() != nullptr) {
    --lane.closes;
    if (operation.has(Operation::internal)) lane.one_without_handler();
    closed(lane, *operation.handle(), operation.error_value());
    return;
  }
  if (Access::has(operation, Access::timer_armed)) lane.timers.remove(operation);
  if (Access::has(operation, Access::listed)) unlist(lane, operation);
  if (operation.error_value() == ECANCELED) {
    if (Access::has(operation, Access::deadline_hit)) {
      operation.finish(errc::timed_out);
      lane.counters.timed_out.add();
    } else {
      lane.counters.cancelled.add();
    }
  }
  queue_for_handler(lane, operation);
}

inline void Ledger::unlist(const Lane& lane, Operation& operation) noexcept {
  const Processor& processor = processor_of(lane.index, operation);
  if (BATON_LIKELY(!is_beside_lanes(processor))) return Access::unlist(operation);
  const Guard guard{*this, processor};
  Access::unlist_from(handles.dedicated(*operation.handle()), operation);
}

inline void Ledger::queue_for_handler(Lane& lane, Operation& operation) noexcept {
  if (!operation.has(Operation::internal)) lane.counters.pending.sub();
  BATON_PROBE3(operation_complete, &operation, operation.bytes(), operation.error_value());
  Access::publish(operation);
  lane.completed.push_back(operation);
}

// From the first operation that takes the slow path on.
void Ledger::take_back_rest(Lane& lane, Operation& first, std::size_t count) noexcept {
  OperationQueue rest;
  lane.completed.split_off(first, count, rest);
  take_back_all(lane, rest);
}

// Operations of the fast path stay linked as the engine has linked them, and move in one piece.
void Ledger::take_back_all(Lane& lane, OperationQueue& finished) noexcept {
  if (finished.empty()) return;
  std::size_t taken = 0;
  for (Operation* next = finished.front(); next != nullptr;) {
    Operation& operation = *next;
    next = OperationQueue::next(operation);
    if (BATON_LIKELY(take_back_fast(operation))) {
      ++taken;
      continue;
    }
    // Behind those that came before it.
    while (finished.front() != &operation) lane.completed.push_back(finished.pop_front());
    take_back_one(lane, finished.pop_front());
  }
  lane.counters.pending.sub(taken);
  lane.completed.splice_back(finished);
  take_back_behind(lane);
}

// They are in the order in which their threads have come, so one may be behind a later one.
void Ledger::take_back_all_behind(Lane& lane) noexcept {
  bool some = true;
  while (some && !lane.behind.empty()) {
    some = false;
    OperationQueue behind;
    behind.splice_back(lane.behind);
    while (!behind.empty()) {
      Operation& operation = behind.pop_front();
      if (overtakes(operation)) {
        lane.behind.push_back(operation);
      } else {
        take_back_one(lane, operation);
        some = true;
      }
    }
  }
}

// take_back for an operation that has left the timer queue.
inline void Ledger::finish_timer(Lane& lane, Operation& operation) noexcept {
  const bool handler_only = !operation.has(Operation::internal) &&
                            !operation.has(Operation::cached) && operation.strand() == nullptr;
  Access::flags(operation) = handler_only ? Access::handler_only : 0;
  queue_for_handler(lane, operation);
}

// -- timers and cancel ----------------------------------------------------------------------------

void Ledger::expire(Lane& lane, Deadline now, std::size_t timers_max) noexcept {
  for (std::size_t i = 0; i < timers_max; ++i) {
    Operation* const due = lane.timers.pop_due(now);
    if (due == nullptr) return;
    if (due->kind() == OperationKind::timer) {
      finish_timer(lane, *due);
      continue;
    }
    Access::set(*due, Access::deadline_hit);
    cancel(lane, *due);
  }
}

bool Ledger::move_deadline(Lane& lane, Operation& operation, Deadline deadline) noexcept {
  if (!Access::has(operation, Access::timer_armed)) return false;
  lane.timers.move(operation, deadline);
  return true;
}

bool Ledger::cancel(Lane& lane, Operation& operation) noexcept {
  if (operation.kind() == OperationKind::timer) {
    if (!Access::has(operation, Access::timer_armed)) return false;
    lane.timers.remove(operation);
    operation.finish(ECANCELED);
    lane.counters.cancelled.add();
    finish_timer(lane, operation);
    return true;
  }
  if (operation.kind() == OperationKind::close || !Access::has(operation, Access::listed) ||
      Access::has(operation, Access::behind)) {
    return false;
  }
  Processor& processor = processor_of(lane.index, operation);
  bool ended = false;
  {
    const Guard guard{*this, processor};
    ended = cancel_in(processor, operation);
  }
  if (ended) take_back(lane, operation);
  return true;
}

bool Ledger::cancel_in(Processor& processor, Operation& operation) noexcept {
  switch (Access::state(operation)) {
    case OperationState::deferred:
      processor.deferred.erase(operation);
      Access::undefer(operation);
      operation.finish(ECANCELED);
      break;
    case OperationState::started:
      Access::ask_cancel(operation);
      if (!may_call(processor)) {
        processor.cancelling = true;
        processor.seat.interrupted.store(true, std::memory_order_seq_cst);
        processor.engine->interrupt();
        return false;
      }
      if (processor.engine->cancel(operation) != CancelAnswer::completed) return false;
      --processor.started;
      tell_of_room(processor);
      break;
    default:
      BATON_UNREACHABLE("what has its result stands in no handle's list");
  }
  processor.outstanding.sub();
  return true;
}

// An operation in the list keeps the record to its handle.
void Ledger::cancel_dedicated(Handle& handle, std::uint32_t generation, Which which,
                              OperationQueue& ended) noexcept {
  Access::for_each(handles.dedicated(handle), [&](Operation& operation) {
    if (handle.generation() != generation) return;
    if (which == Which::marked && !Access::cancel_wanted(operation)) return;
    Processor& processor = processor_of(Access::lane(handle), operation);
    if (cancel_in(processor, operation)) ended.push_back(operation);
  });
}

void Ledger::finish_cancelled(Lane& lane, Operation& operation) noexcept {
  operation.finish(ECANCELED);
  take_back(lane, operation);
}

bool Ledger::cancel(Lane& lane, Handle& handle) noexcept {
  bool any = false;
  for_each(handle, [&](Operation& operation) { any |= cancel(lane, operation); });
  return any;
}

void Ledger::cancel_all(Lane& lane) noexcept { cancel_all(lane, false); }

void Ledger::cancel_everything(Lane& lane) noexcept { cancel_all(lane, true); }

void Ledger::cancel_all(Lane& lane, bool own_timers) noexcept {
  handles.for_each([&](Handle& handle) {
    if (Access::lane(handle) == lane.index) cancel(lane, handle);
  });
  // The queue now holds timers proper, and deadlines of operations that are about to end anyway.
  OperationQueue kept;
  while (Operation* timer = lane.timers.pop_due(Deadline::never())) {
    if (timer->kind() != OperationKind::timer) continue;
    if (timer->has(Operation::internal) && !own_timers) {
      kept.push_back(*timer);
    } else {
      finish_cancelled(lane, *timer);
    }
  }
  while (!kept.empty()) lane.timers.add(kept.pop_front());
}

void Ledger::cancel_accepts(Lane& lane) noexcept {
  handles.for_each([&](Handle& handle) {
    if (Access::lane(handle) != lane.index) return;
    for_each(handle, [&](Operation& operation) {
      if (operation.kind() == OperationKind::accept) cancel(lane, operation);
    });
  });
}

}  // namespace baton
