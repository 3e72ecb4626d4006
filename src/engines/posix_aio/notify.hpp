// NotifyStrategy: how the POSIX AIO engine learns that a request is done (what a wait strategy is
// to the emulated engine). Three of them, one file each: suspend, sigwait, callback.
//
// What surprises: a notification is a hint, never the truth. The truth is aio_error. The system
// promises a signal or a thread for each request, and gives up in silence when the queue of signals
// is full or no thread can be made; and what does come may come late, for a request that was found
// complete long ago. So nothing is read out of a notification. The woken thread looks at every
// request in flight, and with `may_be_lost` the wait is never longer than it may be wrong.
//
// Threads. wait() and descriptor() belong to the leader, prepare() and not_taken() to the engine's
// lock, interrupt() to everybody, signal handlers included.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "baton/deadline.hpp"
#include "baton/error.hpp"
#include "baton/handle.hpp"
#include "baton/reason_code.hpp"
#include "baton/result.hpp"
#include "os/system.hpp"

struct aiocb;

namespace baton::engines::posix_aio {

/// The requests that a wait is for. Room for one more is reserved: the strategy's own.
using WaitList = std::vector<const aiocb*>;

struct NotifyInfo {
  std::string_view name;
  std::string_view interrupt_name;
  /// A wait is for its list only: what is started meanwhile needs an interrupt.
  bool list_is_fixed = false;
  /// A notification may fail to come.
  bool may_be_lost = false;
};

class NotifyStrategy {
 public:
  NotifyStrategy() = default;
  NotifyStrategy(const NotifyStrategy&) = delete;
  NotifyStrategy& operator=(const NotifyStrategy&) = delete;
  /// REQUIRES: no request in flight, no thread waiting.
  virtual ~NotifyStrategy() = default;

  [[nodiscard]] virtual const NotifyInfo& info() const noexcept = 0;

  /// Writes into a request how its end is to be told.
  virtual void prepare(aiocb& block) noexcept = 0;
  /// The system has not taken the request that was prepared last: nothing will be told.
  virtual void not_taken() noexcept {}

  /// Returns when a request of the list may be complete, after an interrupt, at the deadline, or
  /// for no reason. May append to the list.
  virtual void wait(WaitList& list, Deadline deadline) noexcept = 0;
  /// Sticky: one that comes before the wait makes it return at once.
  virtual void interrupt() noexcept = 0;

  /// Readable when wait would not block; invalid_handle if there is none.
  [[nodiscard]] virtual NativeHandle descriptor() const noexcept { return invalid_handle; }
  virtual void after_fork_in_child() noexcept {}
};

using Opened = Result<std::unique_ptr<NotifyStrategy>, Failure>;

/// Why the engine does not open.
inline unexpected<Failure> unavailable(ReasonCode code, const std::string& why) {
  return unexpected{Failure{make_error_code(errc::engine_unavailable), "posix_aio: " + why, code}};
}
inline ReasonCode code_of(int error) noexcept {
  return reason_code_of({error, std::system_category()});
}

Opened open_suspend(const os::System& system);
/// `signal_number` 0: one that is free.
Opened open_sigwait(const os::System& system, int signal_number);
Opened open_callback(const os::System& system);

/// The time until the deadline; null for never. For calls that take a span.
inline const timespec* span_until(const os::System& system, Deadline deadline,
                                  timespec& out) noexcept {
  if (deadline.is_never()) return nullptr;
  const auto now = Deadline::at_ns(deadline.ns() > 0 ? system.monotonic_ns() : 0);
  const auto left = deadline.remaining(now).count();
  out = {.tv_sec = left / 1'000'000'000, .tv_nsec = left % 1'000'000'000};
  return &out;
}

}  // namespace baton::engines::posix_aio
