// Running one handler with a strand or a cached operation; leaving strands.
#include "core/runner.hpp"

#include "base/probes.hpp"
#include "baton/misuse.hpp"
#include "baton/strand.hpp"

namespace baton {

using Access = OperationAccess;

void HandlerRunner::wake_waiters() noexcept {
  ledger_.completions.fetch_add(1, std::memory_order_release);
  ledger_.system().futex_wake(&ledger_.completions, ~0U >> 1);
}

// Runs the handler. A cached operation returns to its cache afterwards.
void HandlerRunner::enter(Operation& operation) {
  const bool cached = operation.has(Operation::cached);
  const CompletionFunction handler = Access::completion(operation);
  Access::complete(operation);
  announce();
  if (!cached) {
    if (handler != nullptr) handler(operation);
    return;
  }
  struct GiveBack {
    HandlerRunner& runner;
    CachedOperation& operation;
    ~GiveBack() {
      operation.destroy_handler();
      if (!runner.forked()) runner.ledger_.cache.give_back(operation);
    }
  } give_back{*this, static_cast<CachedOperation&>(operation)};
  if (handler != nullptr) handler(operation);
}

// For an operation with a strand, from the cache, or both. REQUIRES: it has entered its strand
// (arrives).
Handle* HandlerRunner::run_with_more(Lane& lane, Operation& operation, bool locks) {
  Strand* const strand = operation.strand();
  Handle* const handle = handle_of(operation);
  BATON_PROBE2(handler_entry, &operation, Access::completion(operation));
  try {
    enter(operation);
  } catch (...) {
    BATON_PROBE1(handler_return, handle);
    settle(lane, handle, locks);
    if (strand != nullptr && !forked()) leave_strand(lane, *strand);
    throw;
  }
  BATON_PROBE1(handler_return, handle);
  if (forked()) return nullptr;
  if (strand != nullptr) leave_strand(lane, *strand);
  if (handle == nullptr || !ledger_.per_thread() || Access::lane(*handle) == lane.index) {
    return handle;
  }
  returned_elsewhere(*handle);
  return nullptr;
}

// False: the operation is queued in the strand. Another thread may own it by now.
bool HandlerRunner::enter_strand(Lane& lane, Strand& strand, Operation& operation) noexcept {
  // Once it was handed on, another proactor that ends reads it in overtake().
  if (Access::runner(operation) != this) Access::runner(operation) = this;
  Access::set_processor(operation, lane.index);
  if (strand.enter(operation)) return true;
  ledger_.in_strands.fetch_add(1, std::memory_order_relaxed);
  ledger_.held_by_strands.fetch_add(1, std::memory_order_relaxed);
  return false;
}

// release: if another proactor brought the operation back, this is its last access to this
// proactor, and the destructor may go on.
void HandlerRunner::no_longer_in_strand() noexcept {
  ledger_.in_strands.fetch_sub(1, std::memory_order_release);
}

void HandlerRunner::waits_in_strand(Operation& operation) noexcept {
  const os::LockGuard lock{waiting_mutex_, ledger_.system()};
  Access::add_to_ring(waiting_, operation);
}

void HandlerRunner::leaves_strand(Operation& operation) noexcept {
  const os::LockGuard lock{waiting_mutex_, ledger_.system()};
  Access::take_from_ring(waiting_, operation);
}

// The strand stays alive after the lock: its operation has yet to run, in this thread.
void HandlerRunner::overtake_in_a_strand() noexcept {
  Strand* strand = nullptr;
  {
    const os::LockGuard lock{waiting_mutex_, ledger_.system()};
    if (waiting_ == nullptr) return;
    strand = waiting_->strand();
    waiting_ = Access::after(*waiting_);  // another one the next time
  }
  if (strand->running_in_this_thread()) {
    detail::misused(
        "a proactor was ended inside a handler of another one, while its own operations wait for "
        "the strand of that handler: end it after the handler");
  }
  Operation* const operation = strand->overtake(*this);
  if (operation == nullptr) return;
  brought_back(*operation);
  no_longer_in_strand();
}

void HandlerRunner::settle(Lane& lane, Handle* handle, bool locks) noexcept {
  if (handle == nullptr || forked()) return;
  if (ledger_.per_thread() && Access::lane(*handle) != lane.index) {
    returned_elsewhere(*handle);
    return;
  }
  const os::LockGuard lock{ledger_.mutex(), ledger_.system(), locks};
  ledger_.handler_returned(lane, handle);
}

// The next operation owns the strand now. It waits in the queue like any other, so other work that
// is due is not delayed. An operation of another proactor returns there: its handler must run in
// that proactor's threads, because its handle, cache and timers belong to that proactor.
void HandlerRunner::leave_strand(Lane& lane, Strand& strand) noexcept {
  Operation* const next = strand.leave();
  if (next == nullptr) return;
  HandlerRunner& home = *Access::runner(*next);
  if (&home != this) {
    home.brought_back(*next);
  } else {
    requeue(lane, *next);
  }
  home.no_longer_in_strand();
}

}  // namespace baton
