// OperationAccess: the core's access to the private fields of operations and handles. Engines and
// users do not include this; the moves of the state machine are all made and asserted here (P-20).
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/assert.hpp"
#include "baton/handle.hpp"
#include "baton/operation.hpp"

namespace baton {

class OperationAccess {
 public:
  /// The core's own flags of an operation in flight; guarded as the collection it is in.
  enum CoreFlag : std::uint8_t {
    deadline_hit = 1U << 0,  ///< its deadline passed: the cancellation becomes errc::timed_out
    timer_armed = 1U << 1,   ///< it stands in a timer queue
    listed = 1U << 2,        ///< it stands in its handle's list, and counts as pending there
    direct = 1U << 3,        ///< a simple one; it has no strand and is not from the cache
    timer_near = 1U << 4,    ///< and there before all that the wheel has
    handler_only = 1U << 5,  ///< posted, or a timer: its handler is entered, and no more
    timer_next = 1U << 6,    ///< in a timer queue, among those that it has sorted
    behind = 1U << 7,        ///< complete, behind an earlier one (Ledger::overtakes)
  };

  static OperationState state(const Operation& operation) noexcept {
    return operation.state_.load(std::memory_order_relaxed);
  }

  /// Prepared, a read or a write of a stream, by a user, without one of the flags `besides`: by one
  /// look at one word. Of pooled reads and deadlines it says nothing.
  template <std::uint16_t besides = 0>
  [[gnu::always_inline]] static bool is_simple(const Operation& operation) noexcept {
    static_assert(static_cast<int>(OperationKind::read_stream) == 0 &&
                  static_cast<int>(OperationKind::write_stream) == 1);
    constexpr auto special =
        std::bit_cast<std::uint32_t>(Word{not_prepared, 0xfe, Operation::internal | besides});
    return (word_of(operation) & special) == 0;
  }
  /// The same of a datagram with one buffer.
  [[gnu::always_inline]] static bool is_simple_datagram(const Operation& operation) noexcept {
    constexpr auto kind = static_cast<std::uint8_t>(OperationKind::read_datagram);
    static_assert(kind % 2 == 0 && static_cast<int>(OperationKind::write_datagram) == kind + 1);
    constexpr auto looked_at = std::bit_cast<std::uint32_t>(
        Word{not_prepared, 0xfe, Operation::vectored | Operation::until | Operation::internal});
    return (word_of(operation) & looked_at) == std::bit_cast<std::uint32_t>(Word{0, kind, 0});
  }
  /// At rest, posted work by a user, not from the cache.
  [[gnu::always_inline]] static bool is_simple_post(const Operation& operation) noexcept {
    constexpr auto kind = static_cast<std::uint8_t>(OperationKind::user);
    constexpr auto looked_at = std::bit_cast<std::uint32_t>(
        Word{Operation::pending_bit, 0xff, Operation::internal | Operation::cached});
    return (word_of(operation) & looked_at) == std::bit_cast<std::uint32_t>(Word{0, kind, 0});
  }

  /// For a timer. REQUIRES: at rest.
  static void activate_timer(Operation& operation, std::uint16_t lane) noexcept {
    set_processor(operation, lane);  // for cancel
    activate_simple(operation);
    operation.core_flags_ = 0;
    set_state(operation, OperationState::started);
  }

  /// A new activation: from rest to `to` (started, deferred or posted). REQUIRES: at rest.
  static void activate(Operation& operation, OperationState to) noexcept {
    BATON_ASSERT(!operation.is_pending());
    BATON_ASSERT(to == OperationState::started || to == OperationState::deferred ||
                 to == OperationState::posted);
    // Before the number: a mark that comes late, for the last activation, is of no use to this one.
    operation.cancel_wanted_.store(0, std::memory_order_relaxed);
    operation.activation_.store(operation.activation_.load(std::memory_order_relaxed) + 1,
                                std::memory_order_relaxed);
    operation.core_flags_ = 0;
    operation.state_.store(to, std::memory_order_release);
  }
  /// The same for a simple one: still at rest, and without flags. Its state may be set after the
  /// engine has answered, because only this thread looks at it until then. REQUIRES: at rest.
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
  /// Of a pending operation, too: its owner has taken it out of the timer queue.
  static void set_deadline(Operation& operation, Deadline deadline) noexcept {
    operation.deadline_ = deadline;
  }
  static void forget_deadline(Operation& operation) noexcept {
    operation.deadline_ = Deadline::never();
  }
  /// The start was refused after all: back to rest, no completion.
  static void deactivate(Operation& operation) noexcept {
    BATON_ASSERT(state(operation) == OperationState::started);
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
  /// STARTED or DEFERRED to RESULT_READY: publishes the result. An engine's refusal (START_ERROR)
  /// comes here, too: its error is the result.
  static void publish(Operation& operation) noexcept {
    const OperationState now = state(operation);
    BATON_ASSERT(now == OperationState::started || now == OperationState::deferred ||
                 now == OperationState::start_error);
    operation.deadline_ = Deadline::never();  // was for this activation only
    // release: a thread that reads the state reads the result (Operation::state() acquires).
    operation.state_.store(OperationState::result_ready, std::memory_order_release);
  }
  /// RESULT_READY or POSTED to COMPLETED: the handler is entered next.
  static void complete(Operation& operation) noexcept {
    const OperationState now = state(operation);
    BATON_ASSERT(now == OperationState::result_ready || now == OperationState::posted);
    operation.state_.store(OperationState::completed, std::memory_order_release);
  }
  /// Back into the queue before its handler was entered: nothing changes.
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
  /// mark names the activation, of which it has 16 bits: one that comes late finds another number,
  /// and the next activation takes it away.
  static void want_cancel(Operation& operation, std::uint32_t activation) noexcept {
    std::uint16_t seen = operation.cancel_wanted_.load(std::memory_order_relaxed);
    do {
      if (operation.activation() != activation) return;
      // release: with what the caller did before.
    } while (!operation.cancel_wanted_.compare_exchange_weak(
        seen, mark_of(activation), std::memory_order_release, std::memory_order_relaxed));
  }
  static bool cancel_wanted(const Operation& operation) noexcept {
    return operation.cancel_wanted_.load(std::memory_order_acquire) ==
           mark_of(operation.activation());
  }
  // A cancel from a foreign thread reads it (and the handle) of an operation that may be prepared
  // anew meanwhile, and looks afterwards whether the activation is still the same. Acquire and
  // release order that second look after the first.
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

  // The timer queue: its row (timer_row.hpp), its heap (timer_heap.cpp), its wheel
  // (timer_wheel.cpp).
  static std::int64_t& filed_ns(Operation& operation) noexcept { return operation.timer_filed_ns_; }
  static Operation*& child(Operation& operation) noexcept { return operation.timer_child_; }
  static TimerSlot*& slot(Operation& operation) noexcept { return operation.timer_slot_; }
  static Operation*& sibling(Operation& operation) noexcept { return operation.timer_sibling_; }
  static Operation*& previous(Operation& operation) noexcept { return operation.timer_previous_; }

  /// Of one that is queued in a strand: the runner that will run it. Meanwhile set_processor holds
  /// that runner's lane.
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
    // relaxed: a close that is to know of it is started by a thread that does.
    handle.close_may_block_.store(may_block, std::memory_order_relaxed);
  }

  /// Into the list of its handle, which has one more pending; unlist leaves the count, which lasts
  /// until the handler has returned.
  static void list(Operation& operation) noexcept {
    list(operation, *operation.handle(), operation.core_flags_);
  }
  /// With new flags. REQUIRES: `handle` is the operation's.
  static void list(Operation& operation, Handle& handle, std::uint8_t flags) noexcept {
    operation.sibling_previous_ = nullptr;
    operation.sibling_next_ = handle.operations_;
    if (handle.operations_ != nullptr) handle.operations_->sibling_previous_ = &operation;
    handle.operations_ = &operation;
    ++handle.pending_;
    operation.core_flags_ = static_cast<std::uint8_t>(flags | listed);
  }
  static void unlist(Operation& operation) noexcept {
    Handle& handle = *operation.handle();
    (operation.sibling_previous_ != nullptr ? operation.sibling_previous_->sibling_next_
                                            : handle.operations_) = operation.sibling_next_;
    if (operation.sibling_next_ != nullptr) {
      operation.sibling_next_->sibling_previous_ = operation.sibling_previous_;
    }
    clear(operation, listed);
  }

 private:
  /// State, kind and flags, which stand side by side.
  struct Word {
    std::uint8_t state;
    std::uint8_t kind;
    std::uint16_t flags;
  };
  /// The bits of every state but initialized.
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
