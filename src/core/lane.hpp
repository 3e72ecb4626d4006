// Lane: where completions are delivered - a queue of results, its timers, its counters. In shared
// and dedicated mode a proactor has one, guarded by the proactor's mutex and served by all threads
// in run(). In per_thread mode there is one for each thread, touched by that thread only; everybody
// else writes to its mailbox.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <new>
#include <system_error>
#include <utility>
#include <vector>

#include "baton/operation_queue.hpp"
#include "core/access.hpp"
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

  /// Simple ones included.
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

/// What other threads ask of a lane besides starting. Asking needs no memory: what concerns a
/// handle is written into its record, which is linked into the lane's list, and an operation to be
/// cancelled is marked; only a question about what is pending brings memory of its own.
///
/// A word of a handle names the generation that is meant: with the record in use for another
/// handle, perhaps at home in another lane, what was asked before is void. The link may then still
/// be in the first lane's list, which passes on what it finds there.
class LaneRequests {
 public:
  /// For the lane as a whole.
  enum Wish : std::uint32_t {
    cancel_all = 1U << 0,
    cancel_accepts = 1U << 1,
    cancel_timers = 1U << 2  ///< those that are marked
  };
  /// For one handle.
  enum OfHandle : std::uint32_t {
    linked = 1U << 0,  ///< the record is in a list
    cancel = 1U << 1,
    cancel_marked = 1U << 2,  ///< operations that are marked
    close_detached = 1U << 3,
    handler_returned = 1U << 4  ///< as often as Handle::returned_ says
  };
  struct Asked {
    std::uint32_t generation;
    std::uint32_t what;
  };

  void ask(Wish wish) noexcept {
    wishes_.fetch_or(wish, std::memory_order_release);
    any_.store(true, std::memory_order_seq_cst);
  }
  /// REQUIRES: `what` without linked.
  void ask(Handle& handle, Asked asked) noexcept {
    std::atomic<std::uint64_t>& word = OperationAccess::asked(handle);
    std::uint64_t seen = word.load(std::memory_order_relaxed);
    std::uint64_t wanted = 0;
    do {
      if (generation_of(seen) == asked.generation) {
        wanted = seen | asked.what | linked;
      } else if (handle.generation() == asked.generation) {
        wanted = std::uint64_t{asked.generation} << 32 | (seen & linked) | asked.what | linked;
      } else {
        return;  // the handle is gone, and with it all that could be asked of it
      }
      // seq_cst: what was mailed before is found by whoever takes this.
    } while (!word.compare_exchange_weak(seen, wanted, std::memory_order_seq_cst,
                                         std::memory_order_relaxed));
    // Whoever has linked it sees to the rest: the taker unlinks and reads in one step.
    if ((seen & linked) != 0) return;
    Handle* head = handles_.load(std::memory_order_relaxed);
    do {
      OperationAccess::asked_next(handle) = head;
    } while (!handles_.compare_exchange_weak(head, &handle, std::memory_order_release,
                                             std::memory_order_relaxed));
    any_.store(true, std::memory_order_seq_cst);
  }
  /// False when there is no memory for it.
  bool ask(std::shared_ptr<PendingInquiry> inquiry, const os::System& system) noexcept {
    const os::LockGuard lock{mutex_, system};
    try {
      inquiries_.push_back(std::move(inquiry));
    } catch (const std::bad_alloc&) {
      return false;
    }
    any_.store(true, std::memory_order_seq_cst);
    return true;
  }

  /// There may be something.
  [[nodiscard]] bool any() const noexcept { return any_.load(std::memory_order_seq_cst); }

  // For the owner: after begin(), everything is taken.

  void begin() noexcept { any_.store(false, std::memory_order_seq_cst); }
  [[nodiscard]] std::uint32_t take_wishes() noexcept {
    return wishes_.exchange(0, std::memory_order_acquire);
  }
  /// The first of the handles with something asked; others follow by asked_next, which is to be
  /// read before take_of.
  [[nodiscard]] Handle* take_handles() noexcept {
    return handles_.exchange(nullptr, std::memory_order_acquire);
  }
  /// Unlinks the handle. The generation that is meant may be over.
  static Asked take_of(Handle& handle) noexcept {
    const std::uint64_t word =
        OperationAccess::asked(handle).exchange(0, std::memory_order_seq_cst);
    return {generation_of(word), static_cast<std::uint32_t>(word) & ~std::uint32_t{linked}};
  }
  [[nodiscard]] std::vector<std::shared_ptr<PendingInquiry>> take_inquiries(
      const os::System& system) noexcept {
    const os::LockGuard lock{mutex_, system};
    return std::exchange(inquiries_, {});
  }

 private:
  static std::uint32_t generation_of(std::uint64_t word) noexcept {
    return static_cast<std::uint32_t>(word >> 32);
  }

  std::atomic<bool> any_{false};
  std::atomic<std::uint32_t> wishes_{0};
  std::atomic<Handle*> handles_{nullptr};
  os::Mutex mutex_;
  std::vector<std::shared_ptr<PendingInquiry>> inquiries_ BATON_GUARDED_BY(mutex_);
};

class Starter;

/// Where the streams of a lane go when one processor takes all of them; fixed when the team is
/// complete.
struct Route {
  Processor* processor = nullptr;  ///< null: more than one takes them, or none
  Engine* engine = nullptr;        ///< its engine
  std::uint32_t started_max = 0;
  bool takes_datagrams = false;  ///< these as well
};

struct Lane {
  /// Handlers to run before the next look at an engine. A batch brings follow-ups - a read's
  /// handler starts a write, whose handler starts a read: looking in between would find descriptors
  /// ready whose operation is about to start.
  [[nodiscard]] std::size_t handlers_before_look() const noexcept {
    return std::max(limits::handlers_per_look, 4 * last_batch);
  }
  [[nodiscard]] bool look_is_due() const noexcept { return unlooked >= handlers_before_look(); }
  /// At least one: other threads may have run some since this one asked whether a look is due.
  [[nodiscard]] std::size_t handlers_to_look() const noexcept {
    return look_is_due() ? 1 : handlers_before_look() - unlooked;
  }

  const std::error_code success{};  // made once: each is a call into the C++ library
  std::uint16_t index = 0;
  Starter* starter = nullptr;
  Route route;
  std::size_t last_batch = 0;  // operations that the last wait brought
  std::size_t unlooked = 0;    // handlers since the last look, in however many turns
  CoarseClock clock;           // set by whoever runs this lane's handlers
  TimerQueue timers;
  OperationQueue completed;
  LaneCounters counters;
  Handle* closable = nullptr;  // closing handles with nothing pending; linked by Handle::next_

  // per_thread mode only, for other threads:
  Mailbox mailbox;                       // to start, or posted
  Mailbox returned;                      // finished by a dedicated processor, or out of a strand
  std::atomic<std::uint32_t> mailed{0};  // operations in the mailbox, for the limit
  std::atomic<std::uint64_t> refused_limit{0};  // starts of other threads
  LaneRequests requests;
  /// Something was left in these, or starts are refused. Set after that, and taken back by the
  /// owner, with acquire and release, before it looks.
  std::atomic<bool> attention{false};
  std::atomic<std::uint32_t> open_handles{0};
  /// Even: its thread, if it has one, has nothing to do. Odd: it is at work, or was when it left.
  /// Raised with each change, by its thread only; what a drain's end is found by.
  std::atomic<std::uint32_t> activity{0};

  [[nodiscard]] bool has_mail() const noexcept { return !mailbox.empty() || !returned.empty(); }
};

}  // namespace baton
