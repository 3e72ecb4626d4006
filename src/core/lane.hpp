// Lane: a queue of results, its timers and its counters. Completions are delivered in a lane. In
// shared and dedicated mode a proactor has one, guarded by the proactor's mutex and served by all
// threads in run(). In per_thread mode there is one for each thread. Only that thread touches it;
// others write to its mailbox.
#pragma once

#include <algorithm>
#include <atomic>
#include <bitset>
#include <cstdint>
#include <iterator>
#include <memory>
#include <new>
#include <system_error>
#include <utility>
#include <vector>

#include "baton/operation_queue.hpp"
#include "core/access.hpp"
#include "core/asked_word.hpp"
#include "core/coarse_clock.hpp"
#include "core/counter.hpp"
#include "core/mailbox.hpp"
#include "core/timer_queue.hpp"
#include "os/mutex.hpp"
#include "os/system.hpp"

namespace baton {

class PendingInquiry;
struct Processor;

/// The counters of one lane; see Statistics for their meaning.
struct LaneCounters {
  /// Simple ones (Starter), complete at once or pending at first. The former are not
  /// counted in `started` and `completed_at_once`, the latter not in `started` and `pending`.
  Counter simple_done, simple_pending;
  Counter started, completed, completed_at_once, deferred, posted, cancelled, timed_out,
      refused_limit, pending, waits, batch_total, batch_max, interrupts_sent, interrupts_suppressed,
      followers_woken, wakes_suppressed, leader_changes, seats_taken, handler_ns_max, slow_handlers,
      exceptions;

  /// Counts a wait that brought `brought` operations.
  void note_wait(std::size_t brought) noexcept {
    waits.add();
    batch_total.add(brought);
    batch_max.raise_to(brought);
  }
  /// Includes simple ones.
  [[nodiscard]] std::uint64_t pending_now() const noexcept {
    return pending.sum_with(simple_pending);
  }
};

struct OperationLinks {
  static Operation* next(Operation& operation) noexcept { return OperationAccess::next(operation); }
  static void set_next(Operation& operation, Operation* next) noexcept {
    OperationAccess::next(operation) = next;
  }
};
using Mailbox = BasicMailbox<Operation, OperationLinks>;

/// Requests of other threads to a lane, other than starts. A request needs no memory: one about a
/// handle is noted in the handle's record, which is linked into the lane's list, and an operation
/// to be cancelled is marked. Only a question about what is pending brings memory of its own.
///
/// Requests and mail take two paths, and numbers keep them in order. Each request takes the next
/// number. Mail carries the newest number at the time of its start. So a thread's mail has a
/// smaller number than each later request of that thread, and at least the number of each earlier
/// one. The lane's thread serves the requests up to the number of a piece of mail before it takes
/// that piece (LaneLoop::open_mailbox).
///
/// A request that is made again before it was served is served once, by its newer number. No cancel
/// is lost by that: the newer one ends all that the older one would have ended.
class LaneRequests {
 public:
  using Number = std::uint64_t;
  /// No request has it.
  static constexpr Number none = ~Number{0};

  /// For the lane as a whole.
  enum Wish : std::uint8_t {
    cancel_all,
    cancel_accepts,
    cancel_timers,  ///< those that are marked
    answer          ///< inquiries
  };
  static constexpr std::size_t wish_count = 4;
  /// For one handle.
  using enum AskedWord::OfHandle;
  struct Asked {
    std::uint32_t generation;
    std::uint32_t what;  ///< without linked and let_go
  };
  /// Requests that are due; they are removed from the lane.
  struct Due {
    std::bitset<wish_count> wishes;
    Handle* handle = nullptr;
    std::uint32_t what = 0;  ///< of the handle
    std::vector<std::shared_ptr<PendingInquiry>> inquiries;
  };

  void ask(Wish wish, const os::System& system) noexcept {
    const os::LockGuard lock{mutex_, system};
    wished_[wish] = next_number();
    tell_oldest();
  }
  /// Does nothing when the generation is over, because a closed handle needs no request.
  void ask(Handle& handle, Asked asked, const os::System& system) noexcept {
    const os::LockGuard lock{mutex_, system};
    std::atomic<std::uint64_t>& word = OperationAccess::asked(handle);
    std::uint64_t seen = word.load(std::memory_order_relaxed);
    do {
      if (AskedWord::generation(seen) != asked.generation || (seen & let_go) != 0) return;
      // relaxed: the mutex orders all but HandleTable::release, which reads nothing else of ours.
    } while (
        !word.compare_exchange_weak(seen, seen | linked | asked.what, std::memory_order_relaxed));
    if ((seen & linked) != 0) {
      if (!is_ordered(asked.what) || (seen & close_detached) != 0) return;
      unlink(handle);
    }
    append(handle);
    tell_oldest();
  }
  /// False when there is no memory for it.
  bool ask(std::shared_ptr<PendingInquiry> inquiry, const os::System& system) noexcept {
    const os::LockGuard lock{mutex_, system};
    try {
      inquiries_.push_back(std::move(inquiry));
    } catch (const std::bad_alloc&) {
      return false;
    }
    wished_[answer] = next_number();
    tell_oldest();
    return true;
  }

  /// Any thread: the number of the newest request. acquire: with what its asker has mailed before.
  [[nodiscard]] Number newest() const noexcept { return newest_.load(std::memory_order_acquire); }
  /// Any thread: the number of the oldest request that is not taken yet, or none.
  [[nodiscard]] Number oldest() const noexcept { return oldest_.load(std::memory_order_seq_cst); }
  /// True if a request is not taken yet.
  [[nodiscard]] bool any() const noexcept { return oldest() != none; }

  /// For the owner: takes the wishes and one handle of the requests up to this number. Call it
  /// again while oldest() reports more. Inquiries come last, after the requests made before them.
  [[nodiscard]] Due take(Number until, const os::System& system) noexcept {
    const os::LockGuard lock{mutex_, system};
    Due due;
    for (const Wish wish : {cancel_all, cancel_accepts, cancel_timers}) take(wish, until, due);
    if (is_due(first_, until)) {
      due.handle = first_;
      unlink(*first_);
      // acq_rel: with what was written before let_go, which is released next.
      due.what =
          AskedWord::what(OperationAccess::asked(*due.handle)
                              .fetch_and(~std::uint64_t{0xffff'ffff}, std::memory_order_acq_rel));
    }
    if (!is_due(first_, until)) take(answer, until, due);
    if (due.wishes[answer]) due.inquiries = std::exchange(inquiries_, {});
    tell_oldest();
    return due;
  }

 private:
  /// These end operations that were started before, and leave those that are started after. The
  /// other requests name their operation.
  static bool is_ordered(std::uint32_t what) noexcept {
    return (what & (cancel | close_detached)) != 0;
  }
  static bool is_due(Handle* handle, Number until) noexcept {
    return handle != nullptr && OperationAccess::asked_number(*handle) <= until;
  }
  void take(Wish wish, Number until, Due& due) noexcept BATON_REQUIRES(mutex_) {
    if (wished_[wish] > until) return;
    wished_[wish] = none;
    due.wishes.set(wish);
  }
  Number next_number() noexcept BATON_REQUIRES(mutex_) {
    const Number number = newest_.load(std::memory_order_relaxed) + 1;
    newest_.store(number, std::memory_order_release);  // see newest()
    return number;
  }
  void append(Handle& handle) noexcept BATON_REQUIRES(mutex_) {
    OperationAccess::asked_number(handle) = next_number();
    OperationAccess::asked_previous(handle) = last_;
    OperationAccess::asked_next(handle) = nullptr;
    (last_ != nullptr ? OperationAccess::asked_next(*last_) : first_) = &handle;
    last_ = &handle;
  }
  void unlink(Handle& handle) noexcept BATON_REQUIRES(mutex_) {
    Handle* const next = OperationAccess::asked_next(handle);
    Handle* const previous = OperationAccess::asked_previous(handle);
    (previous != nullptr ? OperationAccess::asked_next(*previous) : first_) = next;
    (next != nullptr ? OperationAccess::asked_previous(*next) : last_) = previous;
  }
  // seq_cst: ordered before the reading of the owner's sleep word that follows (SleepWord::notify).
  void tell_oldest() noexcept BATON_REQUIRES(mutex_) {
    const Number wished = *std::min_element(std::begin(wished_), std::end(wished_));
    const Number of_handles = first_ != nullptr ? OperationAccess::asked_number(*first_) : none;
    oldest_.store(std::min(wished, of_handles), std::memory_order_seq_cst);
  }

  std::atomic<Number> newest_{0};
  std::atomic<Number> oldest_{none};
  os::Mutex mutex_;
  Number wished_[wish_count] BATON_GUARDED_BY(mutex_) = {none, none, none, none};
  Handle* first_ BATON_GUARDED_BY(mutex_) = nullptr;  // of those with something asked, by number
  Handle* last_ BATON_GUARDED_BY(mutex_) = nullptr;
  std::vector<std::shared_ptr<PendingInquiry>> inquiries_ BATON_GUARDED_BY(mutex_);
};

class Starter;

/// The processor of a lane's streams, if one processor takes all of them. Fixed when the team is
/// complete.
struct Route {
  Processor* processor = nullptr;  ///< null: more than one takes them, or none
  Engine* engine = nullptr;        ///< its engine
  std::uint32_t started_max = 0;
  bool takes_datagrams = false;  ///< these as well
};

struct Lane {
  /// Number of handlers to run before polling the engine again. A batch triggers follow-up
  /// operations (read, write, read ...); polling in between would report descriptors whose next
  /// operation has not started yet.
  [[nodiscard]] std::size_t handlers_before_look() const noexcept {
    return std::max(limits::handlers_per_look, handlers_for_one * last_batch);
  }
  /// An operation of the batch has no handler: it must not put the next look off.
  void one_without_handler() noexcept { unlooked += handlers_for_one; }
  [[nodiscard]] bool look_is_due() const noexcept { return unlooked >= handlers_before_look(); }
  /// At least one: other threads may have run some since this one asked whether a look is due.
  [[nodiscard]] std::size_t handlers_to_look() const noexcept {
    return look_is_due() ? 1 : handlers_before_look() - unlooked;
  }

  /// Called by the lane's thread before it takes or leaves anything that the accounts of a drain do
  /// not include: mail, an engine's results, posted work, results of starts.
  void be_at_work() noexcept {
    const std::uint32_t before = activity.load(std::memory_order_relaxed);
    // seq_cst: see Core::lane_is_quiet.
    if (before % 2 == 0) activity.store(before + 1, std::memory_order_seq_cst);
  }

  void add_closable(Handle& handle) noexcept {
    OperationAccess::next(handle) = closable;
    closable = &handle;
  }

  void note_wait(std::size_t brought) noexcept {
    last_batch = brought;
    counters.note_wait(brought);
  }

  /// Handlers that may run before the next look, for each operation of the last batch.
  static constexpr std::size_t handlers_for_one = 4;

  const std::error_code success{};  // made once: each is a call into the C++ library
  std::uint16_t index = 0;
  Starter* starter = nullptr;
  Route route;
  std::size_t last_batch = 0;  // operations from the last wait
  std::size_t unlooked = 0;    // handlers since the last look, in however many turns
  CoarseClock clock;           // set by the threads that run this lane's handlers
  TimerQueue timers;
  OperationQueue completed;
  LaneCounters counters;
  OperationQueue behind;       // complete, each behind an earlier one of its order
  Handle* closable = nullptr;  // closing handles with nothing pending; linked by Handle::next_
  std::uint32_t closes = 0;    // that engines have (Ledger::submit_close)

  // per_thread mode only, for other threads:
  Mailbox mailbox;                       // to start, or posted
  Mailbox returned;                      // finished by a dedicated processor, or out of a strand
  std::atomic<std::uint32_t> mailed{0};  // operations in the mailbox, for the limit
  std::atomic<std::uint64_t> refused_limit{0};  // starts of other threads
  LaneRequests requests;
  /// Something was left in these, or starts are refused. Set after that; cleared by the owner
  /// before it looks, with acquire and release.
  std::atomic<bool> attention{false};
  std::atomic<std::uint32_t> open_handles{0};
  /// Even: its thread, if it has one, has nothing to do. Odd: it is at work, or was when it left.
  /// Its thread raises it with each change. A drain finds its end by it.
  std::atomic<std::uint32_t> activity{0};

  [[nodiscard]] bool has_mail() const noexcept { return !mailbox.empty() || !returned.empty(); }
};

}  // namespace baton
