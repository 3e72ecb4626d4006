// LaneLoop: the life of one thread in per_thread mode. It owns a lane and that lane's processors:
// no lock and no atomic read-modify-write on the way of an operation. Everybody else - starters
// before run(), other threads, dedicated processors of the same team - leaves operations in the
// mailbox, and requests in a list.
//
// The one tricky piece is going to sleep: see sleep_word.hpp.
#pragma once

#include <cerrno>
#include <cstdint>
#include <vector>

#include "base/probes.hpp"
#include "baton/deadline.hpp"
#include "core/kept_lane.hpp"
#include "core/ledger.hpp"
#include "core/sleep_word.hpp"
#include "os/thread_locals.hpp"

namespace baton {

class HandlerRunner;

class LaneLoop {
 public:
  LaneLoop(Ledger& ledger, Lane& lane, HandlerRunner& runner) noexcept;
  LaneLoop(const LaneLoop&) = delete;
  LaneLoop& operator=(const LaneLoop&) = delete;

  void add(Processor& processor) { own_.push_back(&processor); }

  /// The calling thread becomes the owner; false when another thread is. May be nested.
  bool enter() noexcept;
  /// Gives the lane up; a pinned engine is drained first (`for_good`), or stays with this thread.
  void leave(bool for_good) noexcept;
  /// For the destructor: no thread is inside any more, whoever owned the lane.
  void take_over() noexcept;
  /// The calling thread kept the lane when it left (a pinned engine).
  [[nodiscard]] bool owned_by_this_thread() const noexcept;
  /// Nobody is inside, but a thread that was has kept it (a pinned engine).
  [[nodiscard]] bool kept() const noexcept {
    return owner_.load(std::memory_order_relaxed) != 0 && !inside_.load(std::memory_order_relaxed);
  }
  /// A thread is inside.
  [[nodiscard]] bool driven() const noexcept { return inside_.load(std::memory_order_relaxed); }
  /// The innermost lane of this proactor that this thread is inside, or null.
  [[nodiscard]] static LaneLoop* here(const Ledger& ledger) noexcept {
    const Inside* inside = inside_chain();
    while (inside != nullptr && &inside->loop->ledger_ != &ledger) inside = inside->outer;
    return inside != nullptr ? inside->loop : nullptr;
  }
  /// This thread is inside this lane.
  [[nodiscard]] bool mine() const noexcept {
    const Inside* inside = inside_chain();
    while (inside != nullptr && inside->loop != this) inside = inside->outer;
    return inside != nullptr;
  }

  /// As Dispatcher::turn. REQUIRES: mine().
  std::size_t turn(Deadline deadline, std::size_t handlers_max, bool return_after_handlers);

  void stop() noexcept;
  void restart() noexcept { stopped_.store(false, std::memory_order_release); }
  [[nodiscard]] bool stopped() const noexcept { return stopped_.load(std::memory_order_acquire); }

  // -- from other threads -------------------------------------------------------------------------

  /// An activated operation: to start, or posted.
  void mail(Operation& operation) noexcept;
  /// One of this lane's operations, finished by a dedicated processor of the team.
  void mail_back(Operation& operation) noexcept;
  void ask(LaneRequests::Wish wish) noexcept;
  void ask(Handle& handle, LaneRequests::Asked asked) noexcept;
  /// False when there was no memory for it.
  bool ask(std::shared_ptr<PendingInquiry> inquiry) noexcept;

  /// Something has changed that a start must not overlook.
  void call_attention() noexcept { lane_.attention.store(true, std::memory_order_release); }

  // -- for the owner, and for the destructor when no thread is inside -----------------------------

  /// The usual start, in one piece: of a stream, one buffer, by a thread that is inside the lane of
  /// its handle, whose own engine takes it and has room. False: nothing was done, for something is
  /// out of the ordinary.
  [[gnu::always_inline]] static bool start_straight(Operation& operation) noexcept;
  /// When the team is complete.
  void find_straight_way() noexcept;
  /// Starts one operation of this lane. The error tells why it was refused.
  std::error_code start(Processor& processor, Operation& operation) noexcept;
  void take_mail() noexcept {
    if (BATON_UNLIKELY(lane_.attention.load(std::memory_order_relaxed))) look_at_mail();
  }
  void run_closures() noexcept {
    if (BATON_UNLIKELY(lane_.closable != nullptr)) close_handles();
  }
  void cancel_and_close_everything() noexcept;
  /// Waits once for engines that still hold operations.
  void reap(Deadline deadline) noexcept;
  [[nodiscard]] std::uint32_t started() const noexcept;

  [[nodiscard]] Lane& lane() noexcept { return lane_; }
  [[nodiscard]] std::uint16_t lane_index() const noexcept { return lane_.index; }
  [[nodiscard]] std::uint64_t wakes_sent() const noexcept { return wakes_sent_.load(); }
  [[nodiscard]] std::uint64_t wakes_suppressed() const noexcept { return wakes_suppressed_.load(); }

 private:
  /// The lanes that a thread is inside; in os::thread_locals, on the stacks of turn().
  struct Inside {
    LaneLoop* loop;
    const Inside* outer;
  };
  static const Inside* inside_chain() noexcept {
    return static_cast<const Inside*>(os::thread_locals.lane_loops);
  }
  static void set_inside_chain(const Inside* link) noexcept {
    os::thread_locals.lane_loops = link;
    os::thread_locals.straight = link != nullptr ? link->loop : nullptr;
  }

  [[gnu::always_inline]] bool start_here(Operation& operation, Handle& handle) noexcept;
  void found_busy(Operation& operation) noexcept;
  void went_well(Handle& handle) noexcept;
  void look_at_mail() noexcept;
  void close_handles() noexcept;
  void start_what_is_deferred() noexcept;
  void open_mailbox() noexcept;
  void take_returned() noexcept;
  void take_requests() noexcept;
  void serve(std::uint32_t wishes) noexcept;
  void serve(Handle& handle) noexcept;
  void cancel_marked(Handle& handle) noexcept;
  void start_mailed(Operation& operation) noexcept;
  void submit(Processor& processor, Operation& operation) noexcept;
  void book(Processor& processor, Operation& operation, Admission admission) noexcept;
  [[nodiscard]] static bool may_submit(const Processor& processor) noexcept;
  [[nodiscard]] bool quiet() const noexcept;
  [[gnu::always_inline]] void be_at_work() noexcept;
  void be_quiet() noexcept;
  [[gnu::always_inline]] std::size_t run_batch(std::size_t handlers_max);
  [[gnu::always_inline]] std::int64_t note_time(std::int64_t begin, std::size_t timed) noexcept;
  void note_long_time(std::uint64_t took, std::size_t timed) noexcept;
  [[gnu::always_inline]] void wait(Deadline deadline) noexcept;
  std::size_t reap_all(Deadline deadline) noexcept;
  [[gnu::always_inline]] std::size_t take_in(Processor& processor, OperationQueue& batch) noexcept;
  void wake() noexcept;
  void drain_pinned() noexcept;
  void let_go() noexcept;

  Ledger& ledger_;
  Lane& lane_;
  HandlerRunner& runner_;
  const os::System& system_;
  // Of all lane loops of the process, so that a handle's word names one of them.
  inline static std::atomic<std::uint32_t> last_number_{0};
  const std::uint32_t number_ = last_number_.fetch_add(1, std::memory_order_relaxed) + 1;
  std::vector<Processor*> own_;
  Processor* way_ = nullptr;  // takes all streams, and is one of these; else null
  std::uint32_t way_started_max_ = 0;
  std::atomic<bool> stopped_{false};
  SleepWord sleep_;
  std::atomic<std::uint64_t> owner_{0};  // System::thread_self, 0: free
  std::uint32_t depth_ = 0;              // nested turns of the owner
  std::atomic<bool> inside_{false};      // depth_ > 0, for others to see
  KeptLane kept_lane_;
  std::atomic<std::uint64_t> wakes_sent_{0};
  std::atomic<std::uint64_t> wakes_suppressed_{0};
};

inline bool LaneLoop::start_straight(Operation& operation) noexcept {
  constexpr std::uint16_t special = Operation::vectored | Operation::until | Operation::internal;
  if (BATON_UNLIKELY(operation.is_pending() || operation.kind() > OperationKind::write_stream ||
                     (operation.flags() & special) != 0)) {
    return false;
  }
  Handle* const handle = operation.handle();
  if (BATON_UNLIKELY(handle == nullptr)) return false;
  auto* const loop = static_cast<LaneLoop*>(os::thread_locals.straight);
  if (BATON_UNLIKELY(loop == nullptr || OperationAccess::straight(*handle).load(
                                            std::memory_order_relaxed) != loop->number_)) {
    return false;
  }
  return loop->start_here(operation, *handle);
}

// What claim, submit and the rest of the long way do for such an operation, without the looks at
// what cannot be here. It is booked after the engine has it: engine and lane have one thread, so
// that nobody can come in between, and what is complete at once is never booked as pending.
inline bool LaneLoop::start_here(Operation& operation, Handle& handle) noexcept {
  Lane& lane = lane_;
  Processor& processor = *way_;
  // relaxed: who left something before this start was called has been seen to, for the call came
  // after; else either order will do.
  if (BATON_UNLIKELY(lane.attention.load(std::memory_order_relaxed) ||
                     !processor.deferred.empty() || processor.started >= way_started_max_)) {
    return false;
  }
  const bool is_direct = operation.strand() == nullptr && !operation.has(Operation::cached);
  OperationAccess::activate_straight(operation, is_direct ? OperationAccess::direct : 0);
  BATON_PROBE3(operation_start, &operation, operation.kind(), handle.native());
  BATON_PROBE2(operation_submit, &operation, processor.index);
  const Submission answer = processor.engine->submit(operation);
  if (answer == Submission::completed) {
    ++OperationAccess::pending(handle);
    lane.counters.straight.add();
    if (BATON_UNLIKELY(operation.error_value() == ECANCELED)) lane.counters.cancelled.add();
    BATON_PROBE3(operation_complete, &operation, operation.bytes(), operation.error_value());
    OperationAccess::forget_deadline(operation);
    OperationAccess::set_state_straight(operation, OperationState::result_ready);
    lane.completed.push_back(operation);
    return true;
  }
  OperationAccess::set_state_straight(operation, OperationState::started);
  OperationAccess::set_processor(operation, processor.index);
  OperationAccess::set_started(operation, lane.clock.tick());
  OperationAccess::list(operation);
  ++processor.started;
  processor.outstanding.add();
  lane.counters.started.add();
  lane.counters.pending.add();
  if (BATON_UNLIKELY(!operation.deadline().is_never())) lane.timers.add(operation);
  if (BATON_UNLIKELY(answer == Submission::busy)) found_busy(operation);
  return true;
}

}  // namespace baton
