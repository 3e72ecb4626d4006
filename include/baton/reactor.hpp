// Reactor: tells handlers that descriptors are ready, and lets them do the I/O themselves - the
// other pattern, beside the Proactor and over the same wait strategies. Any number of threads run
// it, as leader and followers.
//
//   auto reactor = Reactor::open({}).value();
//   auto key = reactor->add(fd, Interest::in, [](NativeHandle fd, Interest) {
//     char block[512];
//     return ::read(fd, block, sizeof block) > 0 ? Next::keep : Next::remove;
//   });
//   reactor->run();
//
// Guarantees:
//
//   - Fair: every ready registration is called once before the system is asked again.
//   - A registration is suspended while its handler runs, and resumed by itself afterwards, late:
//     by the thread that is about to wait (the lesson of the ACE_Dev_Poll_Reactor article). As long
//     as no thread asks the system meanwhile, that costs no system call at all.
//   - A registration is named by its RegistrationKey for ever. A descriptor number that was removed
//     and added again is another registration; no late event reaches it.
//   - Notifications are bounded, and wake one thread each at most; an idle reactor makes no system
//     call.
//
// Threads: every member but the constructors' and destructor's may be called by any thread at any
// time, from inside handlers too, unless it says otherwise. No lock is held while a handler runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>

#include "baton/deadline.hpp"
#include "baton/error.hpp"
#include "baton/event_handler.hpp"
#include "baton/export.hpp"
#include "baton/fwd.hpp"
#include "baton/handle.hpp"
#include "baton/interest.hpp"
#include "baton/limits.hpp"
#include "baton/result.hpp"
#include "baton/wait_strategy.hpp"

namespace baton {

/// Identifies one registration of a reactor for ever; a default-constructed key identifies none.
struct RegistrationKey {
  std::uint32_t index = 0;       ///< place in its table
  std::uint32_t generation = 0;  ///< raised each time the place is used again
  friend constexpr bool operator==(RegistrationKey, RegistrationKey) noexcept = default;
};

/// Variants of how the reactor works. The defaults are right; the others exist so that their effect
/// can be measured (baton bench fairness).
struct ReactorTuning {
  /// When a handler is taken out of the set.
  enum class Suspension : std::uint8_t {
    lazy,  ///< a handler that runs is taken out of the set only if it is reported again meanwhile
    eager  ///< always, before it is called
  };
  /// When it is put back.
  enum class Resumption : std::uint8_t {
    late,       ///< by the thread that is about to wait, from a list
    immediate,  ///< by the thread that has run the handler, at once
    token       ///< the same, but it has to get the token that a waiting thread holds, by a
                ///< notification: the form that the article replaced; REQUIRES: token_line
  };
  Suspension suspension = Suspension::lazy;  ///< when handlers are taken out of the set
  Resumption resumption = Resumption::late;  ///< when they are put back
  /// The leader runs short handlers itself and stays the leader; if not, it gives up the lead
  /// before every handler, and another thread waits. A strategy that one thread has to wait for
  /// always keeps it.
  bool keep_lead = true;
  /// ACE's token, imitated: threads do not follow a leader but queue for the token, first in, first
  /// out, and the thread that has it waits. Timeouts of handle_events have no effect in the queue.
  /// REQUIRES: not keep_lead.
  bool token_line = false;
  /// The token imitation only: the notification handler is suspended and resumed as all others.
  bool suspend_notifier = false;
  /// Events taken from the system at once; at most limits::reports_max.
  std::uint32_t reports_max = limits::reports_max;
};

/// The options that a reactor is opened with.
struct BATON_EXPORT ReactorConfig {
  /// Registered names, or "auto".
  std::string wait = "auto";
  std::string interrupt = "auto";  ///< how a wait is cut short
  /// Signals of strategies that need one; 0: their own choice.
  int wait_signal = 0;
  int interrupt_signal = 0;  ///< of the interrupt strategy
  /// Registrations at once, a signal being one as well; at most 1,048,576. 0: min(RLIMIT_NOFILE,
  /// limits::handles_max).
  std::uint32_t handles_max = 0;
  /// Notifications that may wait; beyond it notify fails with errc::limit_reached.
  std::uint32_t notifications_max = 65'536;
  /// Timers at once; beyond it errc::limit_reached.
  std::uint32_t timers_max = 1'048'576;
  /// Microseconds in one handler until a leader loses the lead; up to 9 times that in calm times.
  std::uint32_t understudy_look_us = 1'000;
  ReactorTuning tuning{};  ///< for measurements
  /// The system-call table in place of the real one: for tests; null: the real one.
  const os::System* system = nullptr;

  /// Options from the first processor of `config`: wait, interrupt, their signals, and the rest
  /// that both patterns share. So BATON=wait=poll works for a reactor, too.
  static ReactorConfig from(const Config& config);
};

/// Counters since the opening.
struct ReactorStatistics {
  std::uint64_t waits = 0;           ///< waits in the system
  std::uint64_t calls = 0;           ///< handlers called
  std::uint64_t suspended = 0;       ///< taken out of the set while their handler ran
  std::uint64_t resumed_late = 0;    ///< put back by a thread about to wait
  std::uint64_t resumed_now = 0;     ///< put back by the thread that had run the handler
  std::uint64_t resume_notices = 0;  ///< waits interrupted because of a resume
  std::uint64_t notifications = 0;   ///< accepted
  std::uint64_t interrupts = 0;      ///< waits interrupted, for any reason
  std::uint64_t stale_reports = 0;   ///< of registrations that have ended
  std::uint64_t leads_taken = 0;     ///< from a leader that stayed in a handler too long
};

class BATON_EXPORT Reactor {
 public:
  /// Called when a descriptor is ready.
  using Callback = std::function<Next(NativeHandle fd, Interest ready)>;
  /// Called when a timer is due.
  using TimerCallback = std::function<Next(TimerKey timer, Deadline due)>;
  /// Called when a signal has arrived.
  using SignalCallback = std::function<Next(int number)>;

  /// A Failure says what is missing.
  static Result<std::unique_ptr<Reactor>, Failure> open(const ReactorConfig& config);
  /// Calls on_close of every registration. Additions, timers and notifications by on_close or by
  /// destructors of callables are refused with errc::stopped. REQUIRES: no thread is inside. A
  /// handler may call exit(): the reactor, if it is static, is left as it is.
  ~Reactor();
  Reactor(const Reactor&) = delete;
  Reactor& operator=(const Reactor&) = delete;

  [[nodiscard]] const WaitStrategyInfo& info() const noexcept;  ///< facts of the wait strategy
  /// The chosen interrupt strategy.
  [[nodiscard]] std::string_view interrupt_name() const noexcept;
  [[nodiscard]] ReactorStatistics statistics() const noexcept;  ///< a snapshot; any thread
  /// Requested parts that were replaced, a line each; empty if there are none.
  [[nodiscard]] const std::string& explain() const noexcept;

  // -- descriptors --------------------------------------------------------------------------------

  /// From now on `handler` is called when `fd` is ready for what `interest` names; none: later, by
  /// change. The handler lives until on_close. Errors: the system's (EPERM: a file without
  /// readiness), errc::descriptor_out_of_range, errc::no_free_handles, ENOMEM. EEXIST: the number
  /// is registered already, even if suspended or in a call; nothing happens to that registration.
  /// The descriptor should be non-blocking: a report is a hint.
  Result<RegistrationKey> add(NativeHandle fd, Interest interest, EventHandler& handler) noexcept;
  Result<RegistrationKey> add(NativeHandle fd, Interest interest,
                              std::shared_ptr<EventHandler> handler) noexcept;
  /// The callback is destroyed when the registration ends.
  Result<RegistrationKey> add(NativeHandle fd, Interest interest, Callback callback);

  /// Replaces what is watched. ENOENT: the registration has ended; the system's errors, which leave
  /// it as it was.
  std::error_code change(RegistrationKey key, Interest interest) noexcept;
  /// No calls for readiness until resume; readiness that was found but not yet reported to the
  /// handler is dropped. Notifications by its key still arrive. Does not wait for a running call.
  /// ENOENT.
  std::error_code suspend(RegistrationKey key) noexcept;
  /// Undoes suspend(). A registration whose call runs is resumed when the call has returned.
  /// ENOENT; the system's errors, which leave it as it was.
  std::error_code resume(RegistrationKey key) noexcept;

  /// How a registration ended.
  enum class Removal : std::uint8_t {
    done,             ///< on_close was called, by this call
    when_it_returns,  ///< a call runs; on_close follows it, in that thread
    unknown           ///< it had ended before
  };
  /// Ends it: from now on no call begins (but on_close), and queued events are dropped. The
  /// descriptor may be closed when the result is `done`; otherwise on_close says when, because a
  /// call may still use it. If it is closed before its removal and has a duplicate, epoll cannot
  /// forget it: each wait ends at once as long as the duplicate is ready.
  Removal remove(RegistrationKey key) noexcept;
  /// As remove; when it returns, on_close has returned. REQUIRES: not called by a handler of this
  /// registration.
  Removal remove_and_wait(RegistrationKey key) noexcept;

  /// Registrations now.
  [[nodiscard]] std::size_t size() const noexcept;

  // -- notifications ------------------------------------------------------------------------------

  /// Calls the handler of the registration as if the system had found it ready. Several
  /// notifications before that call count as one. The call overlaps no other call of the
  /// registration. ENOENT.
  std::error_code notify(RegistrationKey key, Interest as) noexcept;
  /// Calls on_output, on_exception and on_input of `handler`, as `as` says, once for each
  /// notification, in their order. `handler` lives until then or until it is purged.
  /// errc::limit_reached: notifications_max are waiting; ENOMEM.
  std::error_code notify(EventHandler& handler, Interest as) noexcept;
  std::error_code notify(std::shared_ptr<EventHandler> handler, Interest as) noexcept;
  /// Runs `work` in a thread of the reactor.
  std::error_code notify(std::function<void()> work) noexcept;
  /// Drops the waiting notifications of `handler` (null: of all handlers) that `which` names;
  /// returns the number of notifications that are gone altogether. A call that has begun is not
  /// among them. Takes time in proportion to all that wait.
  std::size_t purge(const EventHandler* handler, Interest which = Interest::all) noexcept;
  [[nodiscard]] std::size_t notifications() const noexcept;  ///< that wait
  /// Makes one thread return from handle_events or handle_one: one that waits there, or else the
  /// next that returns or would wait. run() goes on.
  void wake() noexcept;

  // -- timers -------------------------------------------------------------------------------------

  /// Calls on_timeout at `first`, and every `interval` after that unless it is zero (counted from
  /// when it was due; missed periods are not made up for). errc::limit_reached, ENOMEM.
  Result<TimerKey> schedule(EventHandler& handler, Deadline first, Duration interval = {}) noexcept;
  Result<TimerKey> schedule(std::shared_ptr<EventHandler> handler, Deadline first,
                            Duration interval = {}) noexcept;
  Result<TimerKey> schedule(TimerCallback callback, Deadline first, Duration interval = {});
  /// True: no further call will begin. False: there is no such timer, or its call has begun and it
  /// is not periodic.
  bool cancel(TimerKey timer) noexcept;
  /// Cancels all timers of a handler; returns the number of those whose call will not begin. Takes
  /// time in proportion to its timers.
  std::size_t cancel_timers(const EventHandler& handler) noexcept;
  [[nodiscard]] std::size_t timers() const noexcept;  ///< timers that are scheduled now

  // -- signals ------------------------------------------------------------------------------------

  /// Calls on_signal for each arrival of signal `number`, one handler for each signal. Its calls do
  /// not overlap; those for different signals may, and so may a call of a handler that was removed
  /// meanwhile and one of the next handler of the signal. The signal is blocked in the calling
  /// thread; it must be in all others, too (SignalSet::block). After an error it is as before.
  /// One that is sent to a single thread (raise, pthread_kill) may never arrive: use kill.
  /// EINVAL: no such signal, or SIGKILL or SIGSTOP; EEXIST; errc::no_free_handles; ENOMEM; the
  /// system's errors.
  std::error_code add_signal(int number, EventHandler& handler) noexcept;
  std::error_code add_signal(int number, std::shared_ptr<EventHandler> handler) noexcept;
  std::error_code add_signal(int number, SignalCallback callback);
  /// From now on no call begins. The signal stays blocked. A call that runs is not waited for.
  /// ENOENT.
  std::error_code remove_signal(int number) noexcept;
  /// As remove_signal; when it returns, no call of that handler runs any more. REQUIRES: not called
  /// by that handler.
  std::error_code remove_signal_and_wait(int number) noexcept;

  // -- running it ---------------------------------------------------------------------------------

  /// Calls handlers until at least one was called and none is ready any more, or until `until`, or
  /// until the end; returns the number of calls. `until` is checked between two calls. An exception
  /// of a handler comes through, after the reactor has been left in order; the registration stands.
  /// errc::wrong_thread: the strategy is bound to another thread (WaitStrategyInfo::hands_over);
  /// errc::after_fork: in a child, and at once in one that was made by a handler and has not
  /// reopened the reactor. EBADF, EINVAL: the program has closed the descriptor of the wait
  /// strategy, so that no wait can succeed any more. Waits that fail otherwise are tried again.
  Result<std::size_t> handle_events(Deadline until = Deadline::never());
  /// At most one handler.
  Result<std::size_t> handle_one(Deadline until = Deadline::never());
  /// Until end(). The same errors.
  Result<std::size_t> run();
  /// Every thread that is inside returns after the handler it is in, even if restart() follows at
  /// once; sticky until restart().
  void end() noexcept;
  /// After end(): run() works again.
  void restart() noexcept;
  [[nodiscard]] bool ended() const noexcept;  ///< whether end() was called

  /// In the child of a fork, where the reactor may otherwise only be destroyed: watches everything
  /// anew, with kernel objects of its own. Notifications are dropped. Timers stay, except those
  /// whose call was running. A handler that has made the child may reopen it there, and return: its
  /// thread goes on. Failure with errc::after_fork: a thread of the parent was changing something
  /// at that moment; the system's errors. After a failure it may be destroyed, or reopened again.
  Result<void, Failure> reopen();

 private:
  class Impl;
  explicit Reactor(std::unique_ptr<Impl> impl) noexcept;
  Impl* impl_;  // owned; left alone when one of its handlers calls exit()
};

}  // namespace baton
