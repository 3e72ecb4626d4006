// Lane: where completions are delivered - a queue of results, its timers, its counters. In shared
// and dedicated mode a proactor has one, guarded by the proactor's mutex and served by all threads
// in run(). In per_thread mode there is one for each thread, touched by that thread only; everybody
// else writes to its mailbox.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
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

/// The counters of one lane; see Statistics for their meaning.
struct LaneCounters {
  Counter started, completed, completed_at_once, deferred, posted, cancelled, timed_out,
      refused_limit, pending, waits, batch_total, batch_max, interrupts_sent, interrupts_suppressed,
      followers_woken, wakes_suppressed, leader_changes, seats_taken, handler_ns_max, slow_handlers,
      exceptions;
};

struct OperationLinks {
  static Operation* next(Operation& operation) noexcept { return OperationAccess::next(operation); }
  static void set_next(Operation& operation, Operation* next) noexcept {
    OperationAccess::next(operation) = next;
  }
};
using Mailbox = BasicMailbox<Operation, OperationLinks>;

/// What another thread asks of a lane besides starting: rare, so a plain list under a mutex.
struct LaneRequest {
  enum class Kind : std::uint8_t {
    cancel,
    cancel_handle,
    cancel_all,
    cancel_accepts,
    close_detached,
    handler_returned,  ///< a strand ran a handler of one of our handles on another lane
    pending            ///< tell what is pending
  };
  Kind kind;
  Operation* operation = nullptr;  // compared, and followed only when found among the living
  std::uint32_t activation = 0;
  Handle* handle = nullptr;
  std::uint32_t generation = 0;
  std::shared_ptr<PendingInquiry> inquiry = nullptr;
};

struct Lane {
  /// Handlers to run before the next look at an engine. A batch brings follow-ups - a read's
  /// handler starts a write, whose handler starts a read: looking in between would find descriptors
  /// ready whose operation is about to start.
  [[nodiscard]] std::size_t handlers_before_look() const noexcept {
    return std::max(limits::handlers_per_look, 4 * last_batch);
  }

  std::uint16_t index = 0;
  std::size_t last_batch = 0;  // operations that the last wait brought
  CoarseClock clock;           // set by whoever runs this lane's handlers, once a batch
  TimerQueue timers;
  OperationQueue completed;
  LaneCounters counters;
  Handle* closable = nullptr;  // closing handles with nothing pending; linked by Handle::next_

  // per_thread mode only, for other threads:
  Mailbox mailbox;                              // to start, or posted
  Mailbox returned;                             // finished by a dedicated processor of the team
  std::atomic<std::uint32_t> mailed{0};         // operations in the mailbox, for the limit
  std::atomic<std::uint64_t> refused_limit{0};  // starts of other threads
  os::Mutex request_mutex;
  std::vector<LaneRequest> requests BATON_GUARDED_BY(request_mutex);
  std::atomic<bool> requested{false};
  std::atomic<std::uint32_t> open_handles{0};
  std::atomic<bool> quiet{true};  // while draining: nothing pending, nothing in a handler

  [[nodiscard]] bool has_mail() const noexcept { return !mailbox.empty() || !returned.empty(); }
};

}  // namespace baton
