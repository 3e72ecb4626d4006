// Ledger: the life of an operation between start and handler (admission, submission, deferral,
// deadlines, cancellation, close) and the accounts that must balance at the end. The dispatcher and
// the lane loop decide about threads.
//
// The accounts have two domains: a lane's part (handles, timers, results) and a processor's part
// (started, deferred). In shared and dedicated mode the proactor's mutex guards both, and every
// caller holds it. In per_thread mode a lane and its own processors belong to the lane's thread. A
// dedicated processor in such a team is guarded by the mutex, which Guard takes. Functions that
// take a Lane are called with the lane's domain held.
#pragma once

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <system_error>
#include <vector>

#include "base/probes.hpp"
#include "core/adopted_numbers.hpp"
#include "core/handle_table.hpp"
#include "core/lane.hpp"
#include "core/operation_cache.hpp"
#include "core/processor.hpp"
#include "os/fork.hpp"
#include "os/mutex.hpp"
#include "os/system.hpp"

namespace baton {

/// The name of a shared lane's mutex for the lock analysis. The ledger, the starter and the
/// dispatcher reach that mutex by different paths. Declared only.
extern os::WakingMutex shared_lane;

/// The result of Ledger::admit.
enum class Admission : std::uint8_t {
  refused,   ///< nothing started; the error says why
  finished,  ///< started and complete: the engine does not take its handle
  deferred,  ///< in the processor's deferred queue
  submit     ///< the caller submits it now, outside the mutex, and then calls submitted()
};

/// The starts that drain and stop refuse.
enum class Refusing : std::uint8_t { nothing, accepts, everything };

class Ledger {
 public:
  Ledger(const os::System& system, std::uint32_t handles_max, bool per_thread)
      : handles(handles_max, system),
        numbers(system),
        cache(system),
        system_(system),
        per_thread_(per_thread) {}

  /// Memory for the handles of connections that are accepted next. Any thread. Inside a signal
  /// handler nothing is asked for, and the answer is true.
  [[nodiscard]] bool has_memory_for_accepted() noexcept {
    return handles.make_room() && numbers.make_room();
  }

  // -- start --------------------------------------------------------------------------------------

  /// Checks and claims an operation. It is at rest, or was activated by another thread and came by
  /// mail; then the caller delivers a refusal by refuse_mailed(). `may_submit`: this thread may
  /// call the engine.
  Admission admit(Lane& lane, Processor& processor, Operation& operation, bool may_submit,
                  bool mailed, std::error_code& error) noexcept;
  void refuse_mailed(Lane& lane, Operation& operation, std::error_code error) noexcept;
  /// Books the answer of Engine::submit. REQUIRES: completed or busy (a pending operation belongs
  /// to the engine and may be gone). A completed one is in the lane's queue afterwards.
  void submitted(Lane& lane, Processor& processor, Operation& operation,
                 Submission answer) noexcept;
  /// True if an operation that has not started yet, and completed during its start, would overtake
  /// an earlier one of the same order (rule 3): its starting thread may still have the earlier one
  /// in hand.
  [[gnu::always_inline]] static bool would_overtake(const Operation& operation,
                                                    Handle& handle) noexcept {
    return BATON_UNLIKELY(OperationAccess::first(handle) != nullptr) &&
           is_behind(operation, OperationAccess::first(handle));
  }
  /// Books a simple operation (Starter) that completed during its start. False: nothing was booked,
  /// and submitted() has to do it. REQUIRES: no Guard for this processor.
  [[gnu::always_inline]] bool completed_simply(Lane& lane, Processor& processor,
                                               Operation& operation) noexcept;
  /// Submits deferred operations while there is room. REQUIRES: processor's domain held, and this
  /// thread may call its engine. Operations that complete at once go to `finished`, for
  /// take_back_all.
  void start_deferred(Processor& processor, OperationQueue& finished) noexcept;
  /// REQUIRES: activated as started.
  void start_timer(Lane& lane, Operation& operation) noexcept {
    OperationAccess::set_started(operation, lane.clock.tick());
    if (!operation.has(Operation::internal)) {
      lane.counters.started.add();
      lane.counters.pending.add();
    }
    BATON_PROBE3(operation_start, &operation, operation.kind(), invalid_handle);
    lane.timers.add(operation);
  }

  // -- completion ---------------------------------------------------------------------------------

  /// The processor's part for operations that its engine finished. REQUIRES: processor's domain
  /// held.
  void account(Processor& processor, const OperationQueue& finished) noexcept {
    account(processor, finished.size());
  }
  void account(Processor& processor, std::size_t finished) noexcept {
    const auto count = static_cast<std::uint32_t>(finished);
    BATON_ASSERT(processor.started >= count);
    processor.started -= count;
    processor.outstanding.sub(count);
  }
  /// The lane's part for a finished operation: drops its deadline, publishes its result, and queues
  /// it, with the operations that had to wait for it (overtakes).
  void take_back(Lane& lane, Operation& operation) noexcept;
  void take_back_all(Lane& lane, OperationQueue& finished) noexcept;
  /// The same for operations that the engine has put into the lane's queue itself, which was empty.
  [[gnu::always_inline]] void take_back_queued(Lane& lane) noexcept;
  /// To be called next in a shared lane: queues operations that had to wait for these.
  void take_back_behind(Lane& lane) noexcept {
    if (BATON_UNLIKELY(!lane.behind.empty())) take_back_all_behind(lane);
  }
  /// A handler of an operation on `handle` has returned (or let an exception out).
  void handler_returned(Lane& lane, Handle* handle) noexcept {
    if (handle != nullptr) handler_returned(lane, *handle);
  }
  static void handler_returned(Lane& lane, Handle& handle) noexcept {
    std::uint32_t& pending = OperationAccess::pending(handle);
    const std::uint32_t before = pending;
    pending = before - 1;
    if (BATON_LIKELY(before > 1)) return;
    BATON_ASSERT(before == 1);
    if (OperationAccess::phase(handle) == OperationAccess::Phase::closing) {
      lane.add_closable(handle);
    }
  }

  // -- timers and cancel --------------------------------------------------------------------------

  /// Moves due timers to the lane's queue, at most `timers_max`. Deadlines of operations become
  /// cancellations.
  void expire(Lane& lane, Deadline now, std::size_t timers_max = ~std::size_t{0}) noexcept;
  /// Changes the deadline of a pending operation. False: it has none any more.
  bool move_deadline(Lane& lane, Operation& operation, Deadline deadline) noexcept;
  /// Asks for the end of a pending operation of this lane. False: it is not pending any more.
  bool cancel(Lane& lane, Operation& operation) noexcept;
  bool cancel(Lane& lane, Handle& handle) noexcept;
  enum class Which : std::uint8_t { all, marked };
  /// For any thread, in a team with lanes: cancels what dedicated processors hold of a handle.
  /// Their threads go on while the lane's thread is in a handler. `ended` is for the lane, which
  /// also cancels the rest. REQUIRES: the mutex is held.
  void cancel_dedicated(Handle& handle, std::uint32_t generation, Which which,
                        OperationQueue& ended) noexcept;
  /// Cancels what users have started. The deadline of a drain stays.
  void cancel_all(Lane& lane) noexcept;
  /// Cancels that deadline as well.
  void cancel_everything(Lane& lane) noexcept;
  void cancel_accepts(Lane& lane) noexcept;

  // -- close --------------------------------------------------------------------------------------

  /// Begins a close; `operation`, if not null, is activated and completes last. False: one is under
  /// way already.
  bool begin_close(Lane& lane, Handle& handle, Operation* operation) noexcept;
  void close_everything(Lane& lane) noexcept;
  /// The next handle of the lane with nothing pending, detached from its engines. Null when there
  /// is none.
  Handle* next_closable(Lane& lane) noexcept;
  /// Hands the closing to an engine because it may block. False: the caller closes the descriptor,
  /// outside the mutex, and calls closed(). So it is, too, for a file when engines have more closes
  /// than there are free places for handles: each holds one, and a program that opens and closes
  /// faster than they are made would find none.
  bool submit_close(Lane& lane, Handle& handle) noexcept;
  [[nodiscard]] Processor* closer(const Lane& lane, const Handle& handle) const noexcept;
  [[nodiscard]] bool may_wait_for_closes(const Lane& lane) const noexcept;
  void closed(Lane& lane, Handle& handle, int error) noexcept;
  /// For a leader before it waits: detaches and cancels what only the leader may, and starts
  /// deferred operations. Completed ones go to `finished`, for take_back_all. REQUIRES: lane and
  /// processor share a domain.
  void serve_as_leader(Lane& lane, Processor& processor, OperationQueue& finished) noexcept;

  /// Visits the operations that are pending on a handle, as LaneLoop or the mutex guards them. The
  /// visited one may leave its list.
  template <class Visit>
  void for_each(Handle& handle, Visit&& visit) {
    OperationAccess::for_each(OperationAccess::first(handle), visit);
    if (BATON_UNLIKELY(handles.has_dedicated_lists())) {
      OperationAccess::for_each(handles.dedicated(handle), visit);
    }
  }

  // -- facts --------------------------------------------------------------------------------------

  /// The processor of the team, as this lane sees it, for operations of `kind`; null when none
  /// takes it.
  [[nodiscard]] Processor* route(const Lane& lane, OperationKind kind,
                                 const Handle& handle) const noexcept;
  [[nodiscard]] Deadline now() const noexcept { return Deadline::at_ns(system_.monotonic_ns()); }
  [[nodiscard]] const os::System& system() const noexcept { return system_; }
  /// This process is a forked child of the one that made the proactor.
  [[nodiscard]] bool forked() const noexcept {
    return BATON_UNLIKELY(os::fork_generation() != fork_generation_);
  }
  [[nodiscard]] bool per_thread() const noexcept { return per_thread_; }
  /// A drain has reached its deadline: an operation that starts now, or lies in a mailbox, would
  /// outlive it.
  [[nodiscard]] bool drain_is_over() const noexcept {
    // Acquire: a stop() ends the drain before it refuses everything.
    return refusing.load(std::memory_order_acquire) == Refusing::everything &&
           draining.load(std::memory_order_relaxed);
  }

  /// The domain of shared and dedicated processors; outermost of all locks.
  [[nodiscard]] os::WakingMutex& mutex() noexcept BATON_RETURN_CAPABILITY(shared_lane) {
    return mutex_;
  }

  HandleTable handles;
  AdoptedNumbers numbers;
  OperationCache cache;
  OperationsOfChild operations_of_child;
  /// From the cache; but a thread of a forked child's parent may have held its mutex.
  CachedOperation* take_cached() noexcept {
    return BATON_UNLIKELY(forked()) ? operations_of_child.take() : cache.take();
  }
  void give_back(CachedOperation& operation) noexcept {
    if (BATON_UNLIKELY(forked())) return operations_of_child.give_back(operation);
    cache.give_back(operation);
  }
  /// The team, lane by lane: fixed before the first start.
  alignas(64) std::vector<std::vector<Processor*>> teams;
  std::atomic<Refusing> refusing{Refusing::nothing};
  std::atomic<bool> draining{false};
  /// cancel_wait: how many wait, and the word they sleep on.
  std::atomic<std::uint32_t> cancel_waiters{0};
  std::atomic<std::uint32_t> completions{0};
  /// The number of complete operations that are queued in strands, and so neither pending nor in a
  /// lane's queue. Only the destructor reads it.
  std::atomic<std::uint32_t> in_strands{0};
  /// Threads that are starting something from outside: see visit.hpp.
  std::atomic<std::uint32_t> visitors{0};
  /// A borrowed descriptor has had a handle. Set before its first operation.
  std::atomic<bool> has_borrowed{false};
  /// The number of operations in in_strands that no other proactor's thread is bringing back. The
  /// end of a drain reads it, under the lock under which they are queued again
  /// (Core::brought_back).
  std::atomic<std::uint32_t> held_by_strands{0};

 private:
  class Guard;
  /// In Handle::attached.
  [[nodiscard]] static std::uint16_t attached_bit(const Processor& processor) noexcept {
    return static_cast<std::uint16_t>(1U << processor.index);
  }

  [[nodiscard]] Processor* first_that_takes(const Lane& lane, OperationKind kind,
                                            const Handle& handle) const noexcept;
  /// A dedicated processor of a per_thread team: its part of the accounts has the mutex.
  [[nodiscard]] bool is_beside_lanes(const Processor& processor) const noexcept {
    return per_thread_ && processor.mode == Mode::dedicated;
  }
  /// REQUIRES: a processor has the operation.
  [[nodiscard]] Processor& processor_of(std::uint16_t lane,
                                        const Operation& operation) const noexcept {
    return *teams[lane][OperationAccess::processor(operation)];
  }
  void unlist(const Lane& lane, Operation& operation) noexcept;
  /// Returns whether the processor has let go of the operation. REQUIRES: its domain is held.
  bool cancel_in(Processor& processor, Operation& operation) noexcept;
  static bool attach(Processor& processor, Handle& handle, std::error_code& error) noexcept;
  static void detach(Processor& processor, Handle& handle) noexcept;
  [[gnu::always_inline]] static bool take_back_fast(Operation& operation) noexcept;
  /// Operations of one handle and one order are in flight one after the other, and complete one
  /// after the other.
  enum class Order : std::uint8_t { none, input, output };
  [[nodiscard]] static Order order_of(const Operation& operation) noexcept {
    switch (operation.kind()) {
      case OperationKind::read_stream:
        return Order::input;
      case OperationKind::write_stream:
      case OperationKind::shutdown:
        return Order::output;
      case OperationKind::write_file:
        return operation.has(Operation::append) ? Order::output : Order::none;
      default:
        return Order::none;
    }
  }
  static bool is_behind(const Operation& operation, Operation* earlier) noexcept;
  [[gnu::always_inline]] static bool overtakes(Operation& operation) noexcept;
  void take_back_one(Lane& lane, Operation& operation) noexcept;
  void take_back_rest(Lane& lane, Operation& first, std::size_t count) noexcept;
  void take_back_all_behind(Lane& lane) noexcept;
  void queue_for_handler(Lane& lane, Operation& operation) noexcept;
  void finish_timer(Lane& lane, Operation& operation) noexcept;
  void finish_cancelled(Lane& lane, Operation& operation) noexcept;
  void cancel_all(Lane& lane, bool own_timers) noexcept;
  static void tell_of_room(Processor& processor) noexcept;
  static bool may_call(const Processor& processor) noexcept;
  static void detach_as_leader(Lane& lane, Processor& processor) noexcept;
  void cancel_as_leader(Processor& processor, OperationQueue& finished) noexcept;

  // In a cache line of its own, because the members behind it are read without the mutex.
  alignas(64) os::WakingMutex mutex_;
  alignas(64) const os::System& system_;
  const bool per_thread_;
  const std::uint32_t fork_generation_ = os::fork_generation();
};

// For operations that need no more than to be taken out of their handle's list. False: this one
// needs more.
inline bool Ledger::take_back_fast(Operation& operation) noexcept {
  using Access = OperationAccess;
  if (BATON_UNLIKELY(operation.error_value() == ECANCELED)) return false;
  if (BATON_LIKELY(Access::flags(operation) == (Access::direct | Access::listed))) {
    // A simple one: not internal, and in the state that publish() would look for.
    Access::unlist(operation);
    BATON_PROBE3(operation_complete, &operation, operation.bytes(), operation.error_value());
    Access::forget_deadline(operation);
    Access::set_state(operation, OperationState::result_ready);
    return true;
  }
  if (Access::flags(operation) != Access::listed || operation.has(Operation::internal)) {
    return false;
  }
  Access::unlist(operation);
  BATON_PROBE3(operation_complete, &operation, operation.bytes(), operation.error_value());
  Access::publish(operation);
  return true;
}

// The operation is complete in its start while an earlier one of the same order (rule 3) is on its
// way from the engine to the lane: the leader, or the thread that started it, has it in hand. This
// cannot happen in a lane with one thread. An operation that was cancelled in its start was never
// tried, and the earlier one may have to wait for long.
inline bool Ledger::overtakes(Operation& operation) noexcept {
  Operation* const earlier = OperationAccess::after(operation);
  return BATON_UNLIKELY(earlier != nullptr) && operation.error_value() != ECANCELED &&
         is_behind(operation, earlier);
}

inline bool Ledger::completed_simply(Lane& lane, Processor& processor,
                                     Operation& operation) noexcept {
  if (BATON_UNLIKELY(!processor.deferred.empty() || overtakes(operation) ||
                     !take_back_fast(operation))) {
    return false;
  }
  --processor.started;
  processor.outstanding.sub();
  lane.counters.completed_at_once.add();
  lane.counters.pending.sub();
  lane.completed.push_back(operation);
  take_back_behind(lane);
  return true;
}

inline void Ledger::take_back_queued(Lane& lane) noexcept {
  std::size_t taken = 0;
  for (Operation* next = lane.completed.front(); next != nullptr;
       next = OperationQueue::next(*next), ++taken) {
    if (BATON_UNLIKELY(!take_back_fast(*next))) {
      take_back_rest(lane, *next, lane.completed.size() - taken);
      break;
    }
  }
  lane.counters.pending.sub(taken);
}

/// Guards a processor's part of the accounts where the caller does not hold it already: a dedicated
/// processor seen from a lane of a per_thread team.
class Ledger::Guard {
 public:
  Guard(Ledger& ledger, const Processor& processor) noexcept
      : ledger_(ledger), locks_(ledger.is_beside_lanes(processor)) {
    if (locks_) ledger_.mutex().lock(ledger_.system_);
  }
  ~Guard() {
    if (locks_) ledger_.mutex().unlock(ledger_.system_);
  }
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

 private:
  Ledger& ledger_;
  const bool locks_;
};

}  // namespace baton
