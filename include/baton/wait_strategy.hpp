// WaitStrategy: how readiness is awaited (the paper's AIO_Wait_Strategy for readiness engines, 000
// section 9 and 11.3). Four verbs and a description; it returns reports and calls no handler. A new
// one is a file and a registry line (docs/porting/wait_strategy.md); the Demultiplexer hides the
// differences that info() declares.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <system_error>

#include "baton/deadline.hpp"
#include "baton/error.hpp"
#include "baton/export.hpp"
#include "baton/fwd.hpp"
#include "baton/handle.hpp"
#include "baton/interest.hpp"
#include "baton/result.hpp"

namespace baton {

/// Facts, fixed once the strategy is open.
struct WaitStrategyInfo {
  std::string_view name;             ///< as in the registry
  Trigger trigger = Trigger::level;  ///< when it reports again
  /// Descriptors it can watch at once; 0: no bound of its own.
  std::uint32_t descriptors_max = 0;
  /// Descriptors must be below this number (select: FD_SETSIZE); 0: any number.
  std::uint32_t descriptor_end = 0;
  /// add, modify and remove take effect for a wait that is already running. If not, the client
  /// interrupts the wait after a change.
  bool changes_during_wait = false;
  /// May be waited for by changing threads; if not, one thread has to wait (real-time signals).
  bool any_thread_waits = true;
  /// If one thread has to wait: whether another may take its place when it has ended or left, at a
  /// price. If not, only that thread may ever wait.
  bool hands_over = false;
  /// Some descriptors report room only after a write that was tried since they were added, and
  /// failed (real-time signals on UNIX stream sockets). After a short write the client tries again.
  bool tells_room_after_try = false;
  /// wait can apply a signal mask atomically (pselect, ppoll, epoll_pwait), so that a signal can be
  /// the interrupt.
  bool takes_signal_mask = false;
  /// A closed descriptor drops out by itself (epoll); if not, remove before close is a must, which
  /// the library does anyway.
  bool forgets_closed = false;
  /// It has watch_once (epoll).
  bool watches_once = false;
};

/// The options that a wait strategy is opened with.
struct WaitOptions {
  const os::System* system = nullptr;  ///< every system call goes through it
  std::uint32_t descriptors_max = 0;   ///< what to make room for at most
  int signal_number = 0;  ///< for strategies that wait for signals; 0: their own choice
};

class BATON_EXPORT WaitStrategy {
 public:
  WaitStrategy() = default;
  WaitStrategy(const WaitStrategy&) = delete;
  WaitStrategy& operator=(const WaitStrategy&) = delete;
  virtual ~WaitStrategy() = default;

  /// The same reference for the strategy's whole life.
  [[nodiscard]] virtual const WaitStrategyInfo& info() const noexcept = 0;

  /// Calls of add, modify and remove are serialised by the client; wait runs beside them.
  /// `interest` may be none: known, but nothing is reported. Errors: the system's;
  /// errc::descriptor_out_of_range when the number does not fit; EPERM for files without readiness.
  virtual std::error_code add(NativeHandle fd, Interest interest, Token token) noexcept = 0;
  /// Watches a descriptor for input like an edge strategy: a report each time that something was
  /// written, whether what came before has been read or not. Only for interrupts
  /// (InterruptStrategy::tells_anew), which then need no read. ENOTSUP, as by default: use add.
  virtual std::error_code add_edge(NativeHandle fd, Token token) noexcept {
    static_cast<void>(fd), static_cast<void>(token);
    return std::make_error_code(std::errc::not_supported);
  }
  /// Watches for one report. The descriptor may stay in the set afterwards, but nothing is reported
  /// of it before the next watch_once, whatever its owner does to the number meanwhile. `again`: no
  /// remove has come since the last watch_once; the number may name another file since, which is
  /// then watched. ENOTSUP, as by default: use add and remove.
  virtual std::error_code watch_once(NativeHandle fd, Interest interest, Token token,
                                     bool again) noexcept {
    static_cast<void>(fd), static_cast<void>(interest), static_cast<void>(token);
    static_cast<void>(again);
    return std::make_error_code(std::errc::not_supported);
  }
  /// Replaces interest and token; arms again after a one-shot report. `interest` replaces the old
  /// one completely: directions that stay must be named again.
  virtual std::error_code modify(NativeHandle fd, Interest interest, Token token) noexcept = 0;
  /// After return no new report names this token; one already taken is caught by its generation.
  virtual std::error_code remove(NativeHandle fd) noexcept = 0;

  /// Fills `reports`; returns how many. EINTR is zero reports, timeouts round up. `unblocked`,
  /// when not null, replaces the thread's signal mask for the time of the wait only (its type is in
  /// signal_mask.hpp).
  virtual Result<std::size_t> wait(std::span<Report> reports, Deadline deadline,
                                   const SignalMask* unblocked) noexcept = 0;

  /// Readable when wait would report something; invalid_handle if there is none.
  [[nodiscard]] virtual NativeHandle descriptor() const noexcept { return invalid_handle; }

  /// In the child after fork: close what is shared with the parent without disturbing it.
  virtual void after_fork_in_child() noexcept {}
};

/// Opens a strategy; a Failure says what is missing.
using WaitStrategyFactory =
    std::function<Result<std::unique_ptr<WaitStrategy>, Failure>(const WaitOptions& options)>;

}  // namespace baton
