// LaneLoop: the life of one thread in per_thread mode. It owns a lane and that lane's processors:
// no lock and no atomic read-modify-write on the way of an operation. Everybody else - starters
// before run(), other threads, dedicated processors of the same team - leaves operations in the
// mailbox, and requests in a list.
//
// The one tricky piece is going to sleep: see sleep_word.hpp.
#pragma once

#include <cstdint>
#include <vector>

#include "baton/deadline.hpp"
#include "core/kept_lane.hpp"
#include "core/ledger.hpp"
#include "core/sleep_word.hpp"

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
  [[nodiscard]] static LaneLoop* here(const Ledger& ledger) noexcept;
  /// This thread is inside this lane.
  [[nodiscard]] bool mine() const noexcept;

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

  // -- for the owner, and for the destructor when no thread is inside -----------------------------

  /// Starts one operation of this lane. The error tells why it was refused.
  std::error_code start(Processor& processor, Operation& operation) noexcept;
  void take_mail() noexcept;
  void run_closures() noexcept;
  void cancel_and_close_everything() noexcept;
  /// Waits once for engines that still hold operations.
  void reap(Deadline deadline) noexcept;
  [[nodiscard]] std::uint32_t started() const noexcept;

  [[nodiscard]] Lane& lane() noexcept { return lane_; }
  [[nodiscard]] std::uint64_t wakes_sent() const noexcept { return wakes_sent_.load(); }
  [[nodiscard]] std::uint64_t wakes_suppressed() const noexcept { return wakes_suppressed_.load(); }

 private:
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
  void be_at_work() noexcept;
  void be_quiet() noexcept;
  std::size_t run_batch(std::size_t handlers_max);
  std::int64_t note_time(std::int64_t begin, std::size_t timed) noexcept;
  void wait(Deadline deadline) noexcept;
  void wake() noexcept;
  void drain_pinned() noexcept;
  void let_go() noexcept;

  Ledger& ledger_;
  Lane& lane_;
  HandlerRunner& runner_;
  const os::System& system_;
  std::vector<Processor*> own_;
  std::atomic<bool> stopped_{false};
  SleepWord sleep_;
  std::atomic<std::uint64_t> owner_{0};  // System::thread_self, 0: free
  std::uint32_t depth_ = 0;              // nested turns of the owner
  std::atomic<bool> inside_{false};      // depth_ > 0, for others to see
  KeptLane kept_lane_;
  std::atomic<std::uint64_t> wakes_sent_{0};
  std::atomic<std::uint64_t> wakes_suppressed_{0};
};

}  // namespace baton
