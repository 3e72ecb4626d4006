// The accounts of handles that close.
#include "core/ledger.hpp"

#include "base/probes.hpp"
#include "os/handles_bound.hpp"

namespace baton {

using Access = OperationAccess;

bool Ledger::begin_close(Lane& lane, Handle& handle, Operation* operation) noexcept {
  if (Access::phase(handle) != Access::Phase::open) return false;
  Access::set_phase(handle, Access::Phase::closing);
  Access::route(handle).store(nullptr, std::memory_order_relaxed);
  Access::closing(handle) = operation;
  if (operation != nullptr) {
    Access::set_started(*operation, lane.clock.tick());
    lane.counters.started.add();
    lane.counters.pending.add();
    BATON_PROBE3(operation_start, operation, operation->kind(), handle.native());
  }
  cancel(lane, handle);
  if (Access::pending(handle) == 0) lane.add_closable(handle);
  return true;
}

void Ledger::close_everything(Lane& lane) noexcept {
  handles.for_each([&](Handle& handle) {
    if (Access::lane(handle) == lane.index) begin_close(lane, handle, nullptr);
  });
}

// A lane's thread may call its own engines. Any thread may call engines that start from any thread.
// All others are called by their leader only.
bool Ledger::may_call(const Processor& processor) noexcept {
  return processor.info.start_from_any_thread || processor.mode == Mode::per_thread;
}

Handle* Ledger::next_closable(Lane& lane) noexcept {
  while (Handle* handle = lane.closable) {
    lane.closable = Access::next(*handle);
    Access::next(*handle) = nullptr;
    Processor* wanted = nullptr;
    for (Processor* processor : teams[lane.index]) {
      if ((Access::attached(*handle) & attached_bit(*processor)) == 0) continue;
      if (!may_call(*processor)) {
        wanted = processor;
        break;
      }
      detach(*processor, *handle);
    }
    if (wanted == nullptr) {
      numbers.forget(*handle);  // once it is closed, its number may be another's
      return handle;
    }
    Access::next(*handle) = wanted->detaching;
    wanted->detaching = handle;
    wanted->seat.interrupted.store(true, std::memory_order_seq_cst);
    wanted->engine->interrupt();
  }
  return nullptr;
}

void Ledger::serve_as_leader(Lane& lane, Processor& processor, OperationQueue& finished) noexcept {
  detach_as_leader(lane, processor);
  if (processor.cancelling) cancel_as_leader(processor, finished);
  start_deferred(processor, finished);
}

// The operations belong to the engine and cannot be linked anywhere, so this searches for them. It
// is rare.
void Ledger::cancel_as_leader(Processor& processor, OperationQueue& finished) noexcept {
  processor.cancelling = false;
  ++processor.cancels_served;
  handles.for_each([&](Handle& handle) {
    for_each(handle, [&](Operation& operation) {
      if (Access::processor(operation) != processor.index || !operation.cancel_asked() ||
          Access::state(operation) != OperationState::started ||
          processor.engine->cancel(operation) != CancelAnswer::completed) {
        return;
      }
      --processor.started;
      processor.outstanding.sub();
      finished.push_back(operation);
    });
  });
}

void Ledger::detach_as_leader(Lane& lane, Processor& processor) noexcept {
  while (Handle* handle = processor.detaching) {
    processor.detaching = Access::next(*handle);
    detach(processor, *handle);
    lane.add_closable(*handle);
  }
}

// The processor that takes closes, else any whose engine can, because the caller must not block.
Processor* Ledger::closer(const Lane& lane, const Handle& handle) const noexcept {
  if (Processor* const taker = route(lane, OperationKind::close, handle)) return taker;
  for (Processor* processor : teams[lane.index]) {
    const auto close = static_cast<std::size_t>(OperationKind::close);
    if (processor->info.support[close] != Support::unsupported) return processor;
  }
  return nullptr;
}

bool Ledger::may_wait_for_closes(const Lane& lane) const noexcept {
  const std::uint32_t places = os::handles_bound_now(system_, handles.most());
  const std::uint32_t taken = handles.count();
  return taken < places && lane.closes < places - taken;
}

bool Ledger::submit_close(Lane& lane, Handle& handle) noexcept {
  if (!handle.owned() || !handle.close_may_block()) return false;
  // A socket that lingers would hold this thread for as long as its peer likes.
  if (handle.is_file() && !may_wait_for_closes(lane)) return false;
  Processor* const processor = closer(lane, handle);
  if (processor == nullptr || !may_call(*processor)) return false;
  Operation* operation = Access::closing(handle);
  if (operation == nullptr) {
    operation = cache.take();
    if (operation == nullptr) return false;
    operation->prepare(OperationKind::close, &handle, Operation::cached | Operation::internal);
    Access::activate(*operation, OperationState::started);
    Access::closing(handle) = operation;
    lane.counters.pending.add();
  }
  Access::set_processor(*operation, processor->index);
  {
    const Guard guard{*this, *processor};
    ++processor->started;
    processor->outstanding.add();
  }
  BATON_PROBE2(operation_submit, operation, processor->index);
  const Submission answer = processor->engine->submit(*operation, nullptr);
  if (answer == Submission::pending) {
    ++lane.closes;
    if (processor->info.start_from_any_thread) processor->engine->flush();
    return true;
  }
  {
    const Guard guard{*this, *processor};
    --processor->started;
    processor->outstanding.sub();
  }
  if (answer == Submission::busy) return false;
  closed(lane, handle, operation->error_value());
  return true;
}

void Ledger::closed(Lane& lane, Handle& handle, int error) noexcept {
  Operation* operation = Access::closing(handle);
  Access::closing(handle) = nullptr;
  Access::set_phase(handle, Access::Phase::closed);
  lane.open_handles.fetch_sub(1, std::memory_order_relaxed);
  handles.release(handle);
  if (operation == nullptr) return;
  operation->finish(error);
  lane.counters.pending.sub();
  BATON_PROBE3(operation_complete, operation, operation->bytes(), operation->error_value());
  Access::publish(*operation);
  if (operation->has(Operation::internal)) {
    Access::complete(*operation);
    cache.give_back(static_cast<CachedOperation&>(*operation));
    return;
  }
  // The record is free now, so it must not be followed any more.
  operation->prepare_closed();
  lane.completed.push_back(*operation);
}

}  // namespace baton
