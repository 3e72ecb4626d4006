// Running one handler.
#include "core/runner.hpp"

#include "baton/strand.hpp"

namespace baton {

using Access = OperationAccess;

namespace {

// Somebody may wait in cancel_wait for the moment an operation is complete.
void announce(Ledger& ledger) noexcept {
  if (ledger.cancel_waiters.load(std::memory_order_relaxed) == 0) return;
  ledger.completions.fetch_add(1, std::memory_order_release);
  ledger.system().futex_wake(&ledger.completions, ~0U >> 1);
}

// Enters the handler. What belongs to the operation is read before: the handler may destroy it.
void enter(Ledger& ledger, Operation& operation) {
  const bool cached = operation.has(Operation::cached);
  const CompletionFunction handler = Access::completion(operation);
  Access::complete(operation);
  announce(ledger);
  if (!cached) {
    if (handler != nullptr) handler(operation);
    return;
  }
  struct GiveBack {
    Ledger& ledger;
    CachedOperation& operation;
    ~GiveBack() {
      operation.destroy_handler();
      ledger.cache.give_back(operation);
    }
  } give_back{ledger, static_cast<CachedOperation&>(operation)};
  handler(operation);
}

}  // namespace

Handle* HandlerRunner::run(Lane& lane, Operation& first, bool locks) {
  Operation* operation = &first;
  Strand* const strand = first.strand();
  if (strand != nullptr && !strand->enter(first)) return nullptr;
  for (std::size_t run_count = 1;; ++run_count) {
    // What is posted may name a handle, but is not pending there.
    const bool posted = Access::state(*operation) == OperationState::posted;
    Handle* handle = posted ? nullptr : operation->handle();
    try {
      enter(ledger_, *operation);
    } catch (...) {
      settle(lane, handle, locks);
      if (strand != nullptr) next_in_strand(lane, *strand);
      throw;
    }
    if (strand == nullptr) {
      // The usual case: the caller settles under the lock that it takes anyway.
      if (handle == nullptr || !ledger_.per_thread() || Access::lane(*handle) == lane.index) {
        return handle;
      }
      returned_elsewhere(*handle);
      return nullptr;
    }
    settle(lane, handle, locks);
    if (run_count == limits::handlers_per_look) {
      next_in_strand(lane, *strand);
      return nullptr;
    }
    operation = strand->leave();
    if (operation == nullptr) return nullptr;
  }
}

void HandlerRunner::settle(Lane& lane, Handle* handle, bool locks) noexcept {
  if (handle == nullptr) return;
  if (ledger_.per_thread() && Access::lane(*handle) != lane.index) {
    returned_elsewhere(*handle);
    return;
  }
  const os::LockGuard lock{ledger_.mutex, ledger_.system(), locks};
  ledger_.handler_returned(lane, handle);
}

// The next operation of the strand keeps the strand's turn, but waits in the queue like others.
void HandlerRunner::next_in_strand(Lane& lane, Strand& strand) noexcept {
  Operation* next = strand.leave();
  if (next == nullptr) return;
  strand.hand_on(*next);
  requeue(lane, *next);
}

}  // namespace baton
