// NotifyStrategy: how the POSIX AIO engine learns that a request is done, as a wait strategy does
// for the emulated engine. There are three, one file each: suspend, sigwait, callback.
//
// A notification is only a hint; aio_error decides. The system promises a signal or a thread for
// each request, but gives up silently when the queue of signals is full or no thread can be made. A
// notification may also come late, for a request that was found complete long ago. So nothing is
// read from a notification: the woken thread checks every request in flight. With `may_be_lost` a
// wait is bounded by the time that a lost one may remain unnoticed.
//
// Threads. The leader calls wait() and descriptor(). prepare() and not_taken() are called under the
// engine's lock. Any thread may call interrupt(), signal handlers included.
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

/// The requests to wait for. Room for one more, the strategy's own, is reserved.
using WaitList = std::vector<const aiocb*>;

struct NotifyInfo {
  std::string_view name;
  std::string_view interrupt_name;
  /// A wait covers its list only: a request that is started meanwhile needs an interrupt.
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

  /// Sets in a request how its end is notified.
  virtual void prepare(aiocb& block) noexcept = 0;
  /// The system has refused the request that was prepared last: no notification will come.
  virtual void not_taken() noexcept {}

  /// Returns when a request of the list may be complete, after an interrupt, at the deadline, or
  /// without a reason. May append to the list.
  virtual void wait(WaitList& list, Deadline deadline) noexcept = 0;
  /// Sticky: an interrupt before the wait makes it return at once.
  virtual void interrupt() noexcept = 0;

  /// Readable when wait would not block; invalid_handle if there is none.
  [[nodiscard]] virtual NativeHandle descriptor() const noexcept { return invalid_handle; }
  virtual void after_fork_in_child() noexcept {}
};

using Opened = Result<std::unique_ptr<NotifyStrategy>, Failure>;

/// The Failure of opening the engine.
inline unexpected<Failure> unavailable(ReasonCode code, const std::string& why) {
  return unexpected{Failure{make_error_code(errc::engine_unavailable), "posix_aio: " + why, code}};
}
inline ReasonCode code_of(int error) noexcept {
  return reason_code_of({error, std::system_category()});
}

Opened open_suspend(const os::System& system);
/// `signal_number` 0: any free signal.
Opened open_sigwait(const os::System& system, int signal_number);
Opened open_callback(const os::System& system);

/// The time until the deadline, for calls that take a time span; null for never.
inline const timespec* span_until(const os::System& system, Deadline deadline,
                                  timespec& out) noexcept {
  if (deadline.is_never()) return nullptr;
  const auto now = Deadline::at_ns(deadline.ns() > 0 ? system.monotonic_ns() : 0);
  const auto left = deadline.remaining(now).count();
  out = {.tv_sec = left / 1'000'000'000, .tv_nsec = left % 1'000'000'000};
  return &out;
}

}  // namespace baton::engines::posix_aio
