// HandlerRunner: runs a completed operation's handler - strand, cache, exception, handle account -
// the same in every mode. No lock of ours is held while a handler runs.
#pragma once

#include "base/probes.hpp"
#include "core/ledger.hpp"

namespace baton {

class HandlerRunner {
 public:
  explicit HandlerRunner(Ledger& ledger) noexcept : ledger_(ledger) {}
  virtual ~HandlerRunner() = default;

  /// This process is a forked child of the one that made the proactor. A handler may have forked,
  /// so its caller asks before it touches anything: locks may be held by threads that do not exist
  /// here, and what is queued is the parent's.
  [[nodiscard]] bool forked() const noexcept { return ledger_.forked(); }

  /// Before run(), in the critical section that takes `operation` out of the queue: what was
  /// complete first is first in its strand, whichever thread is faster afterwards. False: it waits
  /// in the strand, is queued again when it is its turn, and may be another thread's by now.
  [[nodiscard, gnu::always_inline]] bool arrives(Lane& lane, Operation& operation) noexcept {
    return BATON_LIKELY(operation.strand() == nullptr) ||
           enter_strand(lane, *operation.strand(), operation);
  }

  /// Runs the handler of `operation`. Returns the handle whose account the caller settles with
  /// Ledger::handler_returned, under the lane's domain (or null). `locks`: that domain is the
  /// mutex. When a handler lets an exception out, everything is settled before it is passed on.
  [[gnu::always_inline]] Handle* run(Lane& lane, Operation& operation, bool locks) {
    if (BATON_LIKELY(OperationAccess::has(operation, OperationAccess::direct))) {
      return &run_direct(lane, operation, locks);
    }
    // The operation is read before it is complete. After that its handler, and any thread that sees
    // it complete, may destroy it.
    if (operation.strand() != nullptr || operation.has(Operation::cached)) {
      return run_with_more(lane, operation, locks);
    }
    const CompletionFunction handler = OperationAccess::completion(operation);
    Handle* const handle = handle_of(operation);
    OperationAccess::complete(operation);
    enter(lane, operation, handler, handle, locks);
    return handle;
  }
  /// The same for one that has OperationAccess::direct.
  [[gnu::always_inline]] Handle& run_direct(Lane& lane, Operation& operation, bool locks) {
    const CompletionFunction handler = OperationAccess::completion(operation);
    Handle& handle = *operation.handle();
    OperationAccess::set_state(operation, OperationState::completed);
    enter(lane, operation, handler, &handle, locks);
    return handle;
  }
  /// The same for one that has OperationAccess::handler_only, and no account.
  [[gnu::always_inline]] void run_handler_only(Lane& lane, Operation& operation) {
    const CompletionFunction handler = OperationAccess::completion(operation);
    OperationAccess::set_state(operation, OperationState::completed);
    enter(lane, operation, handler, nullptr, false);
  }

  /// While draining: called when this lane has nothing left to do.
  virtual void lane_is_quiet(Lane& lane) noexcept = 0;
  /// Something was left in a lane without a leader.
  virtual void lane_needs_leader() noexcept = 0;

 protected:
  /// Queues an operation again, behind what is queued.
  virtual void requeue(Lane& lane, Operation& operation) noexcept = 0;
  /// Queues an operation again that the strand gave to a thread of another proactor. Any thread.
  virtual void brought_back(Operation& operation) noexcept = 0;
  /// A handler ran on this lane for a handle that is at home in another.
  virtual void returned_elsewhere(Handle& handle) noexcept = 0;

 private:
  [[gnu::always_inline]] void enter(Lane& lane, Operation& operation, CompletionFunction handler,
                                    Handle* handle, bool locks) {
    announce();
    if (handler == nullptr) return;
    BATON_PROBE2(handler_entry, &operation, handler);
    try {
      handler(operation);
    } catch (...) {
      BATON_PROBE1(handler_return, handle);
      settle(lane, handle, locks);
      throw;
    }
    BATON_PROBE1(handler_return, handle);
  }
  /// What is posted may name a handle, but is not pending there.
  [[nodiscard]] static Handle* handle_of(const Operation& operation) noexcept {
    const bool posted = OperationAccess::state(operation) == OperationState::posted;
    return posted ? nullptr : operation.handle();
  }
  /// Threads may wait in cancel_wait until an operation is complete.
  void announce() noexcept {
    if (ledger_.cancel_waiters.load(std::memory_order_relaxed) != 0) wake_waiters();
  }
  Handle* run_with_more(Lane& lane, Operation& operation, bool locks);
  void enter(Operation& operation);
  void wake_waiters() noexcept;
  void settle(Lane& lane, Handle* handle, bool locks) noexcept;
  bool enter_strand(Lane& lane, Strand& strand, Operation& operation) noexcept;
  void no_longer_in_strand() noexcept;
  void leave_strand(Lane& lane, Strand& strand) noexcept;

  Ledger& ledger_;
};

}  // namespace baton
