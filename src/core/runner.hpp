// HandlerRunner: runs the handler of a completed operation and handles its strand, its cache,
// exceptions and its handle's account, in the same way in every mode. The library holds no lock
// while a handler runs.
#pragma once

#include "base/probes.hpp"
#include "core/ledger.hpp"

namespace baton {

class HandlerRunner {
 public:
  explicit HandlerRunner(Ledger& ledger) noexcept : ledger_(ledger) {}
  virtual ~HandlerRunner() = default;

  /// This process is a forked child of the one that made the proactor. A handler may have forked,
  /// so its caller checks this before it touches anything. Locks may be held by threads that do not
  /// exist here, and queued operations are the parent's.
  [[nodiscard]] bool forked() const noexcept { return ledger_.forked(); }

  /// Call before run(), in the critical section that takes `operation` out of the queue. So
  /// operations enter their strand in the order of completion, whichever thread is faster
  /// afterwards. False: the operation waits in the strand and is queued again when its turn comes.
  /// Another thread may own it by now.
  [[nodiscard, gnu::always_inline]] bool arrives(Lane& lane, Operation& operation) noexcept {
    return BATON_LIKELY(operation.strand() == nullptr) ||
           enter_strand(lane, *operation.strand(), operation);
  }

  /// Runs the handler of `operation`. Returns the handle, or null, for which the caller calls
  /// Ledger::handler_returned in the lane's domain. `locks`: that domain is the mutex. If the
  /// handler throws, everything is settled before the exception is passed on.
  [[gnu::always_inline]] Handle* run(Lane& lane, Operation& operation, bool locks) {
    if (BATON_LIKELY(OperationAccess::has(operation, OperationAccess::direct))) {
      return &run_direct(lane, operation, locks);
    }
    // The operation is read before it is complete. After that its handler, or any thread that sees
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
  /// The same for an operation with OperationAccess::direct.
  [[gnu::always_inline]] Handle& run_direct(Lane& lane, Operation& operation, bool locks) {
    const CompletionFunction handler = OperationAccess::completion(operation);
    Handle& handle = *operation.handle();
    OperationAccess::set_state(operation, OperationState::completed);
    enter(lane, operation, handler, &handle, locks);
    return handle;
  }
  /// The same for an operation with OperationAccess::handler_only, which has no account.
  [[gnu::always_inline]] void run_handler_only(Lane& lane, Operation& operation) {
    const CompletionFunction handler = OperationAccess::completion(operation);
    OperationAccess::set_state(operation, OperationState::completed);
    enter(lane, operation, handler, nullptr, false);
  }

  /// A strand calls these, with its mutex held, when it queues an operation of this proactor, and
  /// when it takes the operation out of its queue.
  void waits_in_strand(Operation& operation) noexcept;
  void leaves_strand(Operation& operation) noexcept;

  /// Called while draining, when this lane has nothing left to do.
  virtual void lane_is_quiet(Lane& lane) noexcept = 0;
  /// Something was left in a lane without a leader.
  virtual void lane_needs_leader() noexcept = 0;

 protected:
  /// For the end of a proactor: lets one of its operations that wait in strands overtake operations
  /// of other proactors.
  void overtake_in_a_strand() noexcept;
  /// Queues an operation again, at the end.
  virtual void requeue(Lane& lane, Operation& operation) noexcept = 0;
  /// Queues an operation again that a thread of another proactor took from the strand. Any thread.
  virtual void brought_back(Operation& operation) noexcept = 0;
  /// A handler ran in this lane for a handle of another lane.
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
  /// Posted work may name a handle, but is not pending there.
  [[nodiscard]] static Handle* handle_of(const Operation& operation) noexcept {
    const bool posted = OperationAccess::state(operation) == OperationState::posted;
    return posted ? nullptr : operation.handle();
  }
  /// Wakes threads in cancel_wait, which wait until an operation is complete.
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
  os::Mutex waiting_mutex_;                                        // after those of strands
  Operation* waiting_ BATON_GUARDED_BY(waiting_mutex_) = nullptr;  // in strands; a ring
};

}  // namespace baton
