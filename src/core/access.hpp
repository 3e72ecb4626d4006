// OperationAccess: the core's access to the private fields of operations and handles. Engines and
// users do not include this file. Every transition of the state machine is made and asserted here
// (P-20).
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "base/assert.hpp"
#include "baton/handle.hpp"
#include "baton/operation.hpp"

namespace baton {

class OperationAccess {
 public:
  /// Flags of an operation in flight, for the core only. Guarded like the list or queue that holds
  /// the operation.
  enum CoreFlag : std::uint8_t {
    deadline_hit = 1U << 0,  ///< its deadline passed: the cancellation becomes errc::timed_out
    timer_armed = 1U << 1,   ///< is in a timer queue
    listed = 1U << 2,        ///< is in its handle's list, and counts as pending there
    direct = 1U << 3,        ///< a simple operation: no strand, not from the cache
    timer_near = 1U << 4,    ///< in the queue's heap: due before everything in the wheel
    handler_only = 1U << 5,  ///< posted, or a timer: completing it only runs the handler
    timer_next = 1U << 6,    ///< in the queue's sorted row
    behind = 1U << 7,        ///< complete, but waits for an earlier one (Ledger::overtakes)
  };

  static OperationState state(const Operation& operation) noexcept {
    return operation.state_.load(std::memory_order_relaxed);
  }

  /// True for a stream read or write that a user has prepared and that has none of the flags
  /// `besides`. Checks one word. Says nothing about pooled reads and deadlines.
  template <std::uint16_t besides = 0>
  [[gnu::always_inline]] static bool is_simple(const Operation& operation) noexcept {
    static_assert(static_cast<int>(OperationKind::read_stream) == 0 &&
                  static_cast<int>(OperationKind::write_stream) == 1);
    constexpr auto special =
        std::bit_cast<std::uint32_t>(Word{not_prepared, 0xfe, Operation::internal | besides});
    return (word_of(operation) & special) == 0;
  }
  /// The same for a datagram with one buffer.
  [[gnu::always_inline]] static bool is_simple_datagram(const Operation& operation) noexcept {
    constexpr auto kind = static_cast<std::uint8_t>(OperationKind::read_datagram);
    static_assert(kind % 2 == 0 && static_cast<int>(OperationKind::write_datagram) == kind + 1);
    constexpr auto looked_at = std::bit_cast<std::uint32_t>(
        Word{not_prepared, 0xfe, Operation::vectored | Operation::until | Operation::internal});
    return (word_of(operation) & looked_at) == std::bit_cast<std::uint32_t>(Word{0, kind, 0});
  }
  /// True for posted work of a user that is at rest and not from the cache.
  [[gnu::always_inline]] static bool is_simple_post(const Operation& operation) noexcept {
    constexpr auto kind = static_cast<std::uint8_t>(OperationKind::user);
    constexpr auto looked_at = std::bit_cast<std::uint32_t>(
        Word{Operation::pending_bit, 0xff, Operation::internal | Operation::cached});
    return (word_of(operation) & looked_at) == std::bit_cast<std::uint32_t>(Word{0, kind, 0});
  }

  /// For timers. REQUIRES: at rest.
  static void activate_timer(Operation& operation, std::uint16_t lane) noexcept {
    set_processor(operation, lane);  // for cancel
    activate_simple(operation);
    operation.core_flags_ = 0;
    set_state(operation, OperationState::started);
  }

  /// Begins a new activation: from rest to `to` (started, deferred or posted). REQUIRES: at rest.
  static void activate(Operation& operation, OperationState to) noexcept {
    BATON_ASSERT(!operation.is_pending());
    BATON_ASSERT(to == OperationState::started || to == OperationState::deferred ||
                 to == OperationState::posted);
    // Reset before the activation changes. A late mark carries the previous activation's number and
    // does not match the new one.
    operation.cancel_wanted_.store(0, std::memory_order_relaxed);
    operation.activation_.store(operation.activation_.load(std::memory_order_relaxed) + 1,
                                std::memory_order_relaxed);
    operation.core_flags_ = 0;
    operation.state_.store(to, std::memory_order_release);
  }
  /// The same for a simple operation, but leaves its state and flags alone. The state may be set
  /// after the engine has answered, because only this thread reads it until then. REQUIRES: at
  /// rest.
  static void activate_simple(Operation& operation) noexcept {
    operation.cancel_wanted_.store(0, std::memory_order_relaxed);
    operation.activation_.store(operation.activation_.load(std::memory_order_relaxed) + 1,
                                std::memory_order_relaxed);
  }
  /// The same for a post. REQUIRES: is_simple_post().
  static void activate_post(Operation& operation) noexcept {
    activate_simple(operation);
    operation.core_flags_ = handler_only;
    operation.state_.store(OperationState::posted, std::memory_order_release);
  }
  static void set_state(Operation& operation, OperationState state) noexcept {
    operation.state_.store(state, std::memory_order_release);
  }
  /// Also for a pending operation, after its owner has removed it from the timer queue.
  static void set_deadline(Operation& operation, Deadline deadline) noexcept {
    operation.deadline_ = deadline;
  }
  static void forget_deadline(Operation& operation) noexcept {
    operation.deadline_ = Deadline::never();
  }
  /// The start was refused after all: back to rest without a completion.
  static void deactivate(Operation& operation) noexcept {
    BATON_ASSERT(state(operation) == OperationState::started ||
                 state(operation) == OperationState::posted);
    operation.state_.store(OperationState::initialized, std::memory_order_release);
  }
  static void defer(Operation& operation) noexcept {
    BATON_ASSERT(state(operation) == OperationState::started);
    operation.state_.store(OperationState::deferred, std::memory_order_relaxed);
  }
  static void undefer(Operation& operation) noexcept {
    BATON_ASSERT(state(operation) == OperationState::deferred);
    operation.state_.store(OperationState::started, std::memory_order_relaxed);
  }
  /// From STARTED or DEFERRED to RESULT_READY: publishes the result. A refusal by the engine
  /// (START_ERROR) also comes here, with its error as the result.
  static void publish(Operation& operation) noexcept {
    const OperationState now = state(operation);
    BATON_ASSERT(now == OperationState::started || now == OperationState::deferred ||
                 now == OperationState::start_error);
    operation.deadline_ = Deadline::never();  // it applied to this activation only
    // release: a thread that reads the state reads the result (Operation::state() acquires).
    operation.state_.store(OperationState::result_ready, std::memory_order_release);
  }
  /// From RESULT_READY or POSTED to COMPLETED: the handler runs next.
  static void complete(Operation& operation) noexcept {
    const OperationState now = state(operation);
    BATON_ASSERT(now == OperationState::result_ready || now == OperationState::posted);
    operation.state_.store(OperationState::completed, std::memory_order_release);
  }
  /// Queued again before its handler ran: the state stays the same.
  static void requeued(const Operation& operation) noexcept {
    BATON_ASSERT(state(operation) == OperationState::result_ready ||
                 state(operation) == OperationState::posted);
  }
  static void abandon(Operation& operation) noexcept { operation.abandon(); }

  static std::uint8_t& flags(Operation& operation) noexcept { return operation.core_flags_; }
  static bool has(const Operation& operation, CoreFlag flag) noexcept {
    return (operation.core_flags_ & flag) != 0;
  }
  static void set(Operation& operation, CoreFlag flag) noexcept {
    operation.core_flags_ = static_cast<std::uint8_t>(operation.core_flags_ | flag);
  }
  static void clear(Operation& operation, CoreFlag flag) noexcept {
    operation.core_flags_ = static_cast<std::uint8_t>(operation.core_flags_ & ~flag);
  }

  static void ask_cancel(Operation& operation) noexcept {
    operation.cancel_asked_.store(true, std::memory_order_relaxed);
  }
  /// Marks the operation for the thread that may cancel it, unless this activation is over. The
  /// mark holds 16 bits of the activation's number, so a late mark does not match a newer
  /// activation. The next activation clears it.
  static void want_cancel(Operation& operation, std::uint32_t activation) noexcept {
    std::uint16_t seen = operation.cancel_wanted_.load(std::memory_order_relaxed);
    do {
      if (operation.activation() != activation) return;
      // release: publishes what the caller wrote before.
    } while (!operation.cancel_wanted_.compare_exchange_weak(
        seen, mark_of(activation), std::memory_order_release, std::memory_order_relaxed));
  }
  static bool cancel_wanted(const Operation& operation) noexcept {
    return operation.cancel_wanted_.load(std::memory_order_acquire) ==
           mark_of(operation.activation());
  }
  // A cancel from another thread reads the processor and the handle of an operation that may be
  // prepared again meanwhile. It then checks that the activation is still the same. Acquire and
  // release order that check after these reads.
  static std::uint16_t processor(const Operation& operation) noexcept {
    return operation.processor_.load(std::memory_order_acquire);
  }
  static void set_processor(Operation& operation, std::uint16_t index) noexcept {
    operation.processor_.store(index, std::memory_order_release);
  }
  static std::uint32_t started_tick(const Operation& operation) noexcept {
    return operation.started_tick_;
  }
  static void set_started(Operation& operation, std::uint32_t tick) noexcept {
    operation.started_tick_ = tick;
  }
  static CompletionFunction completion(const Operation& operation) noexcept {
    return operation.completion_;
  }
  static Operation*& next(Operation& operation) noexcept { return operation.next_; }

  // The links of the timer queue: see timer_row.hpp, timer_heap.cpp and timer_wheel.cpp.
  static std::int64_t& filed_ns(Operation& operation) noexcept { return operation.timer_filed_ns_; }
  static Operation*& child(Operation& operation) noexcept { return operation.timer_child_; }
  static TimerSlot*& slot(Operation& operation) noexcept { return operation.timer_slot_; }
  static Operation*& sibling(Operation& operation) noexcept { return operation.timer_sibling_; }
  static Operation*& previous(Operation& operation) noexcept { return operation.timer_previous_; }

  /// For an operation queued in a strand: the runner that will run it. `processor` holds that
  /// runner's lane meanwhile.
  static HandlerRunner*& runner(Operation& operation) noexcept { return operation.runner_; }

  // -- handles ------------------------------------------------------------------------------------

  using Phase = Handle::Phase;
  static Phase phase(const Handle& handle) noexcept {
    return handle.phase_.load(std::memory_order_relaxed);
  }
  static void set_phase(Handle& handle, Phase phase) noexcept {
    handle.phase_.store(phase, std::memory_order_relaxed);
  }
  static std::uint16_t lane(const Handle& handle) noexcept {
    return handle.lane_.load(std::memory_order_relaxed);
  }
  static std::uint16_t preferred(const Handle& handle) noexcept {
    return handle.processor_.load(std::memory_order_relaxed);
  }
  static std::uint16_t& attached(Handle& handle) noexcept { return handle.attached_; }
  static std::uint32_t& pending(Handle& handle) noexcept { return handle.pending_; }
  static Operation*& closing(Handle& handle) noexcept { return handle.closing_; }
  static Operation* first(Handle& handle) noexcept { return handle.operations_; }
  /// Visits the operations of a list of a handle from `operation` on. The visited one may leave it.
  template <class Visit>
  static void for_each(Operation* operation, Visit&& visit) {
    while (operation != nullptr) {
      Operation* next = after(*operation);
      visit(*operation);
      operation = next;
    }
  }
  static Operation* after(Operation& operation) noexcept { return operation.sibling_next_; }
  static Handle*& next(Handle& handle) noexcept { return handle.next_; }
  static std::atomic<Lane*>& route(Handle& handle) noexcept { return handle.route_; }
  /// While route() is set: Engine::handle_record.
  static void*& record(Handle& handle) noexcept { return handle.record_; }
  static std::atomic<std::uint64_t>& asked(Handle& handle) noexcept { return handle.asked_; }
  static std::atomic<std::uint32_t>& returned(Handle& handle) noexcept { return handle.returned_; }
  static std::uint64_t& asked_number(Handle& handle) noexcept { return handle.asked_number_; }
  static Handle*& asked_next(Handle& handle) noexcept { return handle.asked_next_; }
  static Handle*& asked_previous(Handle& handle) noexcept { return handle.asked_previous_; }
  static void set_close_may_block(Handle& handle, bool may_block) noexcept {
    // relaxed: a close that depends on the flag is started by a thread that has already seen it.
    handle.set(Handle::close_blocks, may_block);
  }

  /// Adds the operation to its handle's list and counts it as pending. unlist() does not change the
  /// count, which includes the operation until its handler has returned.
  static void list(Operation& operation) noexcept {
    list_in(operation.handle()->operations_, operation);
  }
  /// The same, and replaces the flags. REQUIRES: `handle` is the operation's.
  static void list(Operation& operation, Handle& handle, std::uint8_t flags) noexcept {
    link(operation, handle.operations_);
    ++handle.pending_;
    operation.core_flags_ = static_cast<std::uint8_t>(flags | listed);
  }
  static void unlist(Operation& operation) noexcept {
    unlist_from(operation.handle()->operations_, operation);
  }
  /// The same with another list that belongs to the handle.
  static void list_in(Operation*& first, Operation& operation) noexcept {
    link(operation, first);
    ++operation.handle()->pending_;
    set(operation, listed);
  }
  static void unlist_from(Operation*& first, Operation& operation) noexcept {
    unlink(operation, first);
    clear(operation, listed);
  }

  /// A ring of operations that are in no handle's list. It begins at `first`; null: it is empty.
  static void add_to_ring(Operation*& first, Operation& operation) noexcept {
    if (first == nullptr) first = operation.sibling_previous_ = &operation;
    operation.sibling_next_ = first;
    operation.sibling_previous_ = std::exchange(first->sibling_previous_, &operation);
    operation.sibling_previous_->sibling_next_ = &operation;
  }
  static void take_from_ring(Operation*& first, Operation& operation) noexcept {
    operation.sibling_previous_->sibling_next_ = operation.sibling_next_;
    operation.sibling_next_->sibling_previous_ = operation.sibling_previous_;
    if (first == &operation) first = after(operation) != &operation ? after(operation) : nullptr;
  }

 private:
  static void link(Operation& operation, Operation*& first) noexcept {
    operation.sibling_previous_ = nullptr;
    operation.sibling_next_ = first;
    if (first != nullptr) first->sibling_previous_ = &operation;
    first = &operation;
  }
  static void unlink(Operation& operation, Operation*& first) noexcept {
    (operation.sibling_previous_ != nullptr ? operation.sibling_previous_->sibling_next_ : first) =
        operation.sibling_next_;
    if (operation.sibling_next_ != nullptr) {
      operation.sibling_next_->sibling_previous_ = operation.sibling_previous_;
    }
  }

  /// State, kind and flags, which are adjacent in an Operation.
  struct Word {
    std::uint8_t state;
    std::uint8_t kind;
    std::uint16_t flags;
  };
  /// All bits that any state but `initialized` has.
  static constexpr std::uint8_t not_prepared =
      Operation::pending_bit | static_cast<std::uint8_t>(OperationState::completed);

  [[gnu::always_inline]] static std::uint32_t word_of(const Operation& operation) noexcept {
    static_assert(offsetof(Operation, kind_) == offsetof(Operation, state_) + 1 &&
                  offsetof(Operation, flags_) == offsetof(Operation, state_) + 2);
    std::uint32_t word;
    std::memcpy(&word, reinterpret_cast<const char*>(&operation) + offsetof(Operation, state_),
                sizeof(word));
    return word;
  }
  static std::uint16_t mark_of(std::uint32_t activation) noexcept {
    return static_cast<std::uint16_t>(activation % 0xffff + 1);  // never 0
  }
};

}  // namespace baton
