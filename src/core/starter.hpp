// Starter: takes a request from a user into a lane, in every mode. Requests are claimed, admitted
// and booked under the lock of their lane, and handed to an engine outside of it. A lane of
// per_thread mode has no lock: only its thread calls this class, and other threads use the mailbox.
//
// The fast path is start_at(): a stream read or write, or a datagram with one buffer, on a
// handle that has been used before. It makes one combined check. The slow path is start(): it makes
// every check, and finds out whether the handle's next simple requests may take the fast path.
#pragma once

#include <cerrno>
#include <cstdint>
#include <string_view>
#include <system_error>

#include "base/probes.hpp"
#include "baton/proactor.hpp"
#include "core/dispatcher.hpp"
#include "core/ledger.hpp"
#include "os/thread_locals.hpp"

namespace baton {

class Starter {
 public:
  /// `dispatcher`: that of a shared or dedicated team; null in per_thread mode.
  Starter(Ledger& ledger, Dispatcher* dispatcher) noexcept;
  Starter(const Starter&) = delete;
  Starter& operator=(const Starter&) = delete;

  /// Call when the team is complete.
  void find_route(Lane& lane) noexcept;

  // A simple request is a stream read or write, or a datagram with one buffer, on a handle that has
  // been used before.

  /// The handle of a simple stream request without a strand and not from the cache. Null for any
  /// other request, or without a handle.
  [[gnu::always_inline]] static Handle* handle_of_simple(const Operation& operation) noexcept;

  // The following return success, or null if the slow path is needed; then nothing was done. Any
  // thread.

  /// REQUIRES: handle_of_simple() returned `handle`; `lane` is its route and this thread's lane.
  [[gnu::always_inline]] static const std::error_code* start_here(Lane& lane, Operation& operation,
                                                                  Handle& handle) noexcept {
    return start_at(lane, operation, handle, OperationAccess::direct);
  }
  /// The same for any lane. `lane`: null, or the handle's route.
  [[gnu::always_inline]] static const std::error_code* start_elsewhere(Lane* lane,
                                                                       Operation& operation,
                                                                       Handle& handle) noexcept {
    if (BATON_UNLIKELY(lane == nullptr || !lane->starter->shared())) return nullptr;
    return lane->starter->start_shared(*lane, operation, handle, OperationAccess::direct);
  }
  /// Any simple request.
  static const std::error_code* start_less_simple(Operation& operation) noexcept;
  /// For a thread that is inside a per_thread lane of `ledger`.
  [[gnu::always_inline]] static const std::error_code* start_simple_timer(
      const Ledger& ledger, Operation& timer) noexcept;
  [[gnu::always_inline]] static const std::error_code* post_simple(const Ledger& ledger,
                                                                   Operation& operation) noexcept;

  /// A buffer list is not too long, and read_until has a valid delimiter.
  [[nodiscard]] static bool is_well_formed(const Operation& operation) noexcept {
    if (operation.has(Operation::vectored) && operation.buffers().size() > limits::buffers_max) {
      return false;
    }
    if (!operation.has(Operation::until)) return true;
    const std::string_view* const delimiter = operation.delimiter();
    return delimiter != nullptr && !delimiter->empty() &&
           delimiter->size() <= limits::delimiter_max &&
           operation.bytes() <= operation.buffer().size;
  }

  // REQUIRES: this thread is inside `lane`, if that is a per_thread lane. The operation has been
  // checked.

  /// Returns the reason for a refusal. `mailed`: another thread activated the operation.
  std::error_code start(Lane& lane, Processor& processor, Operation& operation,
                        bool mailed) noexcept;
  /// These two return false when the proactor has stopped meanwhile; never in a per_thread lane.
  bool start_timer(Lane& lane, Operation& timer) noexcept;
  bool post(Lane& lane, Operation& operation, Notify level) noexcept;
  /// REQUIRES: the lane's lock is held. Sets the clock that stamps the next start, even if no
  /// thread is in the lane.
  void set_clock(Lane& lane) noexcept;

 private:
  [[nodiscard]] bool shared() const noexcept { return dispatcher_ != nullptr; }
  [[nodiscard]] bool is_too_late(const Operation& operation) const noexcept;
  [[gnu::always_inline]] inline const std::error_code* start_shared(Lane& lane,
                                                                    Operation& operation,
                                                                    Handle& handle,
                                                                    std::uint8_t flags) noexcept;
  [[gnu::noinline]] const std::error_code* start_beside_others(Lane& lane, Operation& operation,
                                                               Handle& handle,
                                                               std::uint8_t flags) noexcept
      BATON_RELEASE(shared_lane);
  [[gnu::always_inline]] static bool claim(Lane& lane, Operation& operation,
                                           const Handle& handle) noexcept;
  [[gnu::always_inline]] static const std::error_code* start_at(Lane& lane, Operation& operation,
                                                                Handle& handle,
                                                                std::uint8_t flags) noexcept;
  [[gnu::always_inline]] static const std::error_code* write_at(Lane& lane, Operation& operation,
                                                                Handle& handle,
                                                                std::uint8_t flags) noexcept;
  [[gnu::always_inline]] static void book(Lane& lane, Operation& operation, Handle& handle,
                                          std::uint8_t flags) noexcept;
  static void add_deadline(Lane& lane, Operation& operation) noexcept;
  [[nodiscard]] static constexpr bool is_output(OperationKind kind) noexcept {
    return static_cast<unsigned>(kind) % 2 != 0;  // of the simple kinds
  }
  [[nodiscard]] static Lane* inside_lane_of(const Ledger& ledger) noexcept;
  static void* learn_route(Lane& lane, const Processor& processor, Operation& operation) noexcept;
  void submit(Lane& lane, Processor& processor, Operation& operation, void* record) noexcept;
  void submitted(Lane& lane, Processor& processor, Operation& operation,
                 Submission answer) noexcept;
  [[gnu::cold]] static void simple_came_back(Lane& lane, Operation& operation,
                                             Submission answer) noexcept;
  void came_back(Lane& lane, Processor& processor, Operation& operation, Submission answer) noexcept
      BATON_REQUIRES(shared_lane);
  static void tell_leader(Processor& processor) noexcept;
  void call_leader(Processor& processor) noexcept BATON_REQUIRES(shared_lane);

  Ledger& ledger_;
  Dispatcher* const dispatcher_;
  const os::System& system_;
};

// Null: the request is less simple, or has no handle.
inline Handle* Starter::handle_of_simple(const Operation& operation) noexcept {
  constexpr std::uint16_t cached = Operation::cached;
  constexpr std::uint16_t to_check = cached | Operation::vectored | Operation::until;
  if (BATON_UNLIKELY(!OperationAccess::is_simple<to_check>(operation)) &&
      !(OperationAccess::is_simple<cached>(operation) && is_well_formed(operation))) {
    return nullptr;
  }
  return BATON_LIKELY(operation.strand() == nullptr) ? operation.handle() : nullptr;
}

// Null in a forked child, which is inside no lane, and while starts are refused, which sets
// `attention`.
inline Lane* Starter::inside_lane_of(const Ledger& ledger) noexcept {
  const void* const inside = os::thread_locals.lane;
  if (BATON_UNLIKELY(inside == &os::nowhere)) return nullptr;
  Lane& lane = *static_cast<Lane*>(const_cast<void*>(inside));
  const bool busy = lane.attention.load(std::memory_order_relaxed);
  return BATON_LIKELY(&lane.starter->ledger_ == &ledger && !busy) ? &lane : nullptr;
}

inline const std::error_code* Starter::start_simple_timer(const Ledger& ledger,
                                                          Operation& timer) noexcept {
  Lane* const lane = inside_lane_of(ledger);
  if (BATON_UNLIKELY(lane == nullptr)) return nullptr;
  OperationAccess::activate_timer(timer, lane->index);
  lane->starter->ledger_.start_timer(*lane, timer);
  return &lane->success;
}

inline const std::error_code* Starter::post_simple(const Ledger& ledger,
                                                   Operation& operation) noexcept {
  Lane* const lane = inside_lane_of(ledger);
  if (BATON_UNLIKELY(lane == nullptr || !OperationAccess::is_simple_post(operation) ||
                     operation.strand() != nullptr)) {
    return nullptr;
  }
  OperationAccess::activate_post(operation);
  lane->be_at_work();
  lane->counters.posted.add();
  lane->completed.push_back(operation);
  return &lane->success;
}

// Three checks replace Ledger::admit: the handle's route, the lane's `attention`, and room. The
// caller has made the first. False: nothing was done.
inline bool Starter::claim(Lane& lane, Operation& operation, const Handle& handle) noexcept {
  const Processor& processor = *lane.route.processor;
  // relaxed: this start happens after anything that had to come before it. Other events may come in
  // either order.
  if (BATON_UNLIKELY(lane.attention.load(std::memory_order_relaxed) ||
                     !processor.deferred.empty() || processor.started >= lane.route.started_max)) {
    return false;
  }
  BATON_PROBE3(operation_start, &operation, operation.kind(), handle.native());
  OperationAccess::activate_simple(operation);
  return true;
}

// No other thread can interfere: the lane has one thread, or its lock is held.
inline const std::error_code* Starter::start_at(Lane& lane, Operation& operation, Handle& handle,
                                                std::uint8_t flags) noexcept {
  if (BATON_UNLIKELY(!claim(lane, operation, handle))) return nullptr;
  if (is_output(operation.kind())) return write_at(lane, operation, handle, flags);
  // Reads usually have to wait, so the operation is booked as pending before it is submitted.
  book(lane, operation, handle, flags);
  BATON_PROBE2(operation_submit, &operation, lane.route.processor->index);
  const Submission answer = lane.route.engine->submit(operation, OperationAccess::record(handle));
  if (BATON_UNLIKELY(answer != Submission::pending)) simple_came_back(lane, operation, answer);
  return &lane.success;
}

// Calls the engine without the lock, so that threads in run() do not wait for each other's system
// calls. A thread that leads alone keeps the lock: that takes one critical section instead of two,
// and there is no other thread to tell.
inline const std::error_code* Starter::start_shared(Lane& lane, Operation& operation,
                                                    Handle& handle, std::uint8_t flags) noexcept {
  if (BATON_UNLIKELY(ledger_.forked())) return nullptr;
  ledger_.mutex().lock(system_);
  if (BATON_UNLIKELY(!dispatcher_->leads_alone(*lane.route.processor) ||
                     Ledger::would_overtake(operation, handle))) {
    return start_beside_others(lane, operation, handle, flags);
  }
  const bool open = OperationAccess::route(handle).load(std::memory_order_relaxed) == &lane;
  const std::error_code* const done =
      BATON_LIKELY(open) ? start_at(lane, operation, handle, flags) : nullptr;
  ledger_.mutex().unlock(system_);
  return done;
}

// Engines that try writes first usually complete them at once. Such a write is never pending.
inline const std::error_code* Starter::write_at(Lane& lane, Operation& operation, Handle& handle,
                                                std::uint8_t flags) noexcept {
  BATON_PROBE2(operation_submit, &operation, lane.route.processor->index);
  const Submission answer = lane.route.engine->submit(operation, OperationAccess::record(handle));
  if (answer != Submission::completed) {
    book(lane, operation, handle, flags);
    if (BATON_UNLIKELY(answer != Submission::pending)) simple_came_back(lane, operation, answer);
    return &lane.success;
  }
  OperationAccess::flags(operation) = flags;
  lane.be_at_work();
  ++OperationAccess::pending(handle);
  lane.counters.simple_done.add();
  if (BATON_UNLIKELY(operation.error_value() == ECANCELED)) lane.counters.cancelled.add();
  BATON_PROBE3(operation_complete, &operation, operation.bytes(), operation.error_value());
  OperationAccess::forget_deadline(operation);
  OperationAccess::set_state(operation, OperationState::result_ready);
  lane.completed.push_back(operation);
  return &lane.success;
}

inline void Starter::book(Lane& lane, Operation& operation, Handle& handle,
                          std::uint8_t flags) noexcept {
  Processor& processor = *lane.route.processor;
  OperationAccess::set_state(operation, OperationState::started);
  OperationAccess::set_processor(operation, processor.index);
  OperationAccess::set_started(operation, lane.clock.tick());
  OperationAccess::list(operation, handle, flags);
  ++processor.started;
  lane.counters.simple_pending.add();
  if (BATON_UNLIKELY(!operation.deadline().is_never())) add_deadline(lane, operation);
}

}  // namespace baton
