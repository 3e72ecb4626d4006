// Reactor::Impl: registrations, timers, notifications and signals of one reactor, and the threads
// that run it, over one Demultiplexer.
//
// The idea. One thread leads: it waits, queues the ready registrations, and calls their handlers
// one after the other. It keeps the lead meanwhile, because waking a thread costs more than most
// handlers. It polls the system again only when the queue is empty, so every ready registration has
// had one turn, which is fair. One sleeping follower, the standby, looks at the leader about once a
// millisecond (LookPace: less often in calm times). It takes the lead from a leader that has been
// in the same handler since the last look, and helps with work that has waited that long. After a
// look without traffic it sleeps without a time limit (a small form of the protocol of
// docs/internals/leader_followers.md).
//
// Suspension. A registration whose handler runs is not called again before the handler has
// returned. While the leader runs handlers itself no thread polls the system, so there is nothing
// to suspend. A registration is taken out of the set only if another thread leads meanwhile and the
// registration is reported again. When its handler has returned it goes on a list, and the thread
// that is about to wait puts it back. If a thread waits already and its wait sees changes, the
// thread that ran the handler puts it back at once, because no other thread would.
//
// The one tricky piece: no wake-up may be lost. A thread becomes unavailable when it enters a
// handler, waits, or leaves. In the same critical section it calls look_round(), which makes sure
// that a thread looks after the queued work. A thread that queues work for others does the same.
//
// Everything is guarded by mutex_, unless it says otherwise. Calls of the Demultiplexer that change
// the watched set are made under mutex_, which serialises them; the wait is made without it. Lock
// order: mutex_, then the Demultiplexer's and the strategies'.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_set>

#include "base/chunked_table.hpp"
#include "baton/reactor.hpp"
#include "core/ended_in_handler.hpp"
#include "core/followers.hpp"
#include "core/handler_length.hpp"
#include "core/look_pace.hpp"
#include "demux/demultiplexer.hpp"
#include "os/fork.hpp"
#include "os/mutex.hpp"
#include "os/system.hpp"
#include "os/thread_locals.hpp"
#include "reactor/notification_queue.hpp"
#include "reactor/registration.hpp"
#include "reactor/signal_source.hpp"
#include "reactor/timer_table.hpp"
#include "reactor/token.hpp"

namespace baton {

class Reactor::Impl {
 public:
  static Result<std::unique_ptr<Impl>, Failure> open(const ReactorConfig& config);
  explicit Impl(const ReactorConfig& config);
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  using Registration = reactor::Registration;
  using Kept = std::shared_ptr<EventHandler>;

  /// The calling thread is in turn() or remove(), perhaps in a handler.
  [[nodiscard]] bool inside() const noexcept;
  /// For a destructor inside a handler, whose call is still on the stack, usually by exit(). Calls
  /// end(), and leaves everything else to the end of the process.
  void end_in_handler() noexcept;

  // -- registrations.cpp --------------------------------------------------------------------------
  Result<RegistrationKey> add(NativeHandle fd, Interest interest, EventHandler* handler,
                              Kept kept) noexcept;
  std::error_code change(RegistrationKey key, Interest interest) noexcept;
  std::error_code suspend(RegistrationKey key) noexcept;
  std::error_code resume(RegistrationKey key) noexcept;
  Removal remove(RegistrationKey key, bool wait) noexcept;
  [[nodiscard]] std::size_t size() noexcept;
  Result<void, Failure> reopen();

  // -- handlers.cpp: notifications, timers, signals -----------------------------------------------
  std::error_code notify(RegistrationKey key, Interest as) noexcept;
  std::error_code notify(EventHandler* handler, Kept kept, std::function<void()> work,
                         Interest as) noexcept;
  std::size_t purge(const EventHandler* handler, Interest which) noexcept;
  [[nodiscard]] std::size_t notifications() noexcept;
  Result<TimerKey> schedule(EventHandler* handler, Kept kept, Deadline first,
                            Duration interval) noexcept;
  bool cancel(TimerKey timer) noexcept;
  std::size_t cancel_timers(const EventHandler& handler) noexcept;
  [[nodiscard]] std::size_t timers() noexcept;
  std::error_code add_signal(int number, EventHandler* handler, Kept kept) noexcept;
  std::error_code remove_signal(int number, bool wait) noexcept;

  // -- threads.cpp --------------------------------------------------------------------------------
  Result<std::size_t> turn(Deadline until, std::size_t calls_max, bool return_after_calls);
  void end() noexcept;
  void restart() noexcept;
  [[nodiscard]] bool ended() const noexcept {
    return ends_.load(std::memory_order_acquire) % 2 != 0;
  }
  void wake() noexcept;
  ReactorStatistics statistics() noexcept;

  [[nodiscard]] const demux::Demultiplexer& demultiplexer() const noexcept { return *demux_; }
  [[nodiscard]] const std::string& explanation() const noexcept { return explanation_; }

 private:
  /// A call of this thread from which handlers run; it lives on its stack. Calls may be nested,
  /// also those of several reactors, so they form a chain.
  class Inside {
   public:
    explicit Inside(const Impl& impl) noexcept : impl_(impl), outer_(chain()) {
      os::thread_locals.reactors = this;
    }
    ~Inside() { os::thread_locals.reactors = outer_; }
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;

    static Inside* chain() noexcept { return static_cast<Inside*>(os::thread_locals.reactors); }
    [[nodiscard]] bool is_of(const Impl& impl) const noexcept { return &impl_ == &impl; }
    [[nodiscard]] Inside* outer() const noexcept { return outer_; }

   private:
    const Impl& impl_;
    Inside* const outer_;
  };

  /// A thread comes out of a call from which handlers run.
  void come_out() const noexcept;

  /// A thread inside turn(); lives on its stack.
  struct Member : Follower<Member> {
    bool in_turn = true;  // false: in another call, such as remove
    bool in_handler = false;
    bool helps = false;        // may take from the queue without the lead
    bool dozes = false;        // its last look saw no traffic: sleeps without a time limit
    bool looks_again = false;  // soon, because a handler ran at its last, late look
    bool returns = false;      // after calls, or when it is woken by Reactor::wake
    bool has_token = false;
    bool leaves = false;      // at once: after an exception, or by `error`
    std::uint32_t ends = 0;   // it stays as long as ends_ has this value
    std::uint32_t forks = 0;  // the process in which it has entered
    std::uint64_t calls = 0;
    std::uint64_t call = 0;     // the last of these, by its number in the reactor
    std::int64_t began_ns = 0;  // the beginning of a measured call, or 0
    std::uint64_t thread = 0;   // pinned only
    std::exception_ptr thrown;
    std::error_code error;  // set: it is no member any more, and mutex_ is not held
  };

  /// The next look of a standby compares with these. A standby that leaves hands them to the next
  /// one, so that threads which come for a moment notice a long call, too.
  struct Notes {
    std::uint64_t leader_call = 0;  // in which the leader is; 0: in none
    std::uint64_t calls = 0;
    std::uint64_t waits = 0;
    Deadline made;
  };

  /// The answers of a registration's calls, by event.
  struct Answers {
    Interest again = Interest::none;
    Interest drop = Interest::none;
    bool remove = false;
  };

  /// How a thread comes back from user code.
  enum class Back : std::uint8_t {
    here,
    reopened,  ///< in a forked child that has reopened the reactor: running calls were settled
    lost       ///< in a forked child that has not: without mutex_, and nothing may be touched
  };

  // They are called in different functions, which the analysis does not follow.
  void lock() noexcept BATON_NO_THREAD_SAFETY_ANALYSIS { mutex_.lock(system_); }
  void unlock() noexcept {
    mutex_.assume_held();
    mutex_.unlock(system_);
  }

  // -- registrations.cpp
  demux::Options demux_options();
  Result<void, Failure> open_demultiplexer();
  [[nodiscard]] bool in_wrong_process() const noexcept;
  Registration* find(RegistrationKey key) noexcept;
  Registration* take_free(std::error_code& error) noexcept;
  void put_free(Registration& registration) noexcept;
  /// Watches what is desired and is not armed, drops what is armed and not desired.
  Result<RegistrationKey> add_locked(NativeHandle fd, Interest interest,
                                     EventHandler* handler) noexcept;
  std::error_code settle(Registration& registration) noexcept;
  std::error_code watch(Registration& registration, Interest more) noexcept;
  void unwatch(Registration& registration, Interest less) noexcept;
  void put_ready(Registration& registration) noexcept {
    if (!registration.queue.linked() && !registration.running) ready_.push(registration);
  }
  void forget_ready(Registration& registration) noexcept;
  /// Marks it as ending, detaches it and takes it out of all lists. on_close is called later.
  void begin_end(Registration& registration, std::error_code why) noexcept;
  /// Calls on_close, without the lock, and frees the record. `me`: the calling thread if it is in
  /// turn(), or null. False: as Back::lost.
  bool close(Registration& registration, Member* me) noexcept;
  /// False: as Back::lost.
  bool close_all() noexcept;
  void forget_descriptors_of_parent() noexcept;
  void forget_thread_of_parent(Registration& registration) noexcept;
  Result<void, Failure> watch_anew(Registration& registration) noexcept;
  void close_later(Registration& registration, std::error_code why) noexcept;
  void after_call(Registration& registration) noexcept;
  void resume_after_call(Registration& registration) noexcept;
  void resume_now(Registration& registration) noexcept;
  void resume_late_ones() noexcept;

  // -- turn.cpp; functions that call handlers unlock meanwhile
  void lead(Member& me, Deadline until);
  void lead_fast(Member& me);
  [[nodiscard]] bool is_past(Deadline until) const noexcept {
    return until.ns() <= 0 || now() >= until;
  }
  /// Checked after each call, because handlers that always have more would keep a thread for ever.
  /// A leader without any time still calls everything that is queued; later reports wait for the
  /// next poll.
  [[nodiscard]] bool is_late(const Member& me, Deadline until) const noexcept {
    return (until.ns() > 0 || leader_ != &me) && is_past(until);
  }
  void begin_wait(Deadline until) noexcept;
  [[nodiscard]] Deadline until_when(Deadline until) noexcept;
  void end_wait() noexcept;
  void accept_all(Member& me, std::span<Report> raw) noexcept;
  bool accept_each(std::span<Report> raw) noexcept;
  bool accept_the_rest(std::span<Report> reports) noexcept;
  void after_reports(Member& me, bool interrupted) noexcept;
  void accept(Registration& registration, Interest ready) noexcept;
  bool run_next(Member& me);
  void run_ready(Member& me, Registration& registration);
  void run_input(Member& me, Registration& registration);
  void run_several(Member& me, Registration& registration, Interest what, Interest told);

  // -- running.cpp; the same
  bool run_from_program(Member& me);
  void before_call(Registration& registration) noexcept;
  void after_input(Member& me, Registration& registration, Next next) noexcept;
  void run_notification(Member& me);
  void run_timer(Member& me, reactor::ReactorTimer& timer);
  void run_close(Member& me);
  void timer_armed() noexcept;
  bool may_refill() noexcept;
  void refill() noexcept;
  void call(const Member& me, Registration& registration, Interest& what, Interest& told,
            Answers& answers);
  void after_answers(Member& me, Registration& registration, const Answers& answers) noexcept;
  void after_input_in_child(Member& me, Registration& registration, Back back, Next next) noexcept;
  void after_fork(Member& me, Registration& registration, Back back,
                  const Answers& answers) noexcept;
  static void tell(const reactor::Notification& notification);
  static void note_answer(Next next, Interest what, Answers& answers) noexcept;
  static void ask(Registration& registration, Interest what, Answers& answers);
  /// The only way into user code for a thread in turn(): a call, an on_close, the destructor of a
  /// callable. mutex_ is held before and afterwards, but not meanwhile.
  template <class Code>
  Back in_user_code(Member& me, Code&& code) noexcept {
    me.in_handler = true;
    if (BATON_UNLIKELY(members_ > 1 || !keep_lead_)) hand_over(me);
    unlock();
    try {
      code();
    } catch (...) {
      me.thrown = std::current_exception();
      me.leaves = true;
    }
    if (BATON_UNLIKELY(me.forks != os::fork_generation())) return back_in_child(me);
    lock();
    me.in_handler = false;
    if (BATON_UNLIKELY(me.began_ns != 0)) note_length(me);
    return Back::here;
  }
  Back back_in_child(Member& me) noexcept;
  void count_call(Member& me) noexcept {
    ++me.calls;
    me.call = ++statistics_.calls;
  }
  void begin_call(Member& me, Registration& registration) noexcept {
    if (BATON_UNLIKELY(!lazy_level_)) before_call(registration);
    registration.running = true;
    count_call(me);
  }
  [[nodiscard]] bool something_queued() const noexcept {
    return !ready_.empty() || !again_.empty() || !notifications_.empty() || timers_.has_due() ||
           !closing_.empty();
  }

  /// Whether there is work after the queue was emptied.
  [[nodiscard]] bool something_left() const noexcept {
    return !again_.empty() || !notifications_.empty() || !ready_.empty() || !closing_.empty();
  }
  /// Whether some registrations have their next turn without a report of the system. Edges come
  /// once, so a resumed descriptor is tried itself.
  [[nodiscard]] bool some_come_unasked() const noexcept { return edge_ || !again_.empty(); }
  /// Whether there is no work but ready_ and future reports of the system.
  [[nodiscard]] bool nothing_but_reports() const noexcept {
    return lazy_level_ && !pinned_ && !by_token_ && late_.empty() && again_.empty() &&
           notifications_.empty() && closing_.empty() && timers_.none_armed();
  }

  // -- threads.cpp
  /// Whether the leader leaves calls to others. Always, if one thread has to wait for good. If
  /// moving the lead is expensive, for a while after a long call: moving it each time costs too
  /// much, and if short calls are shared, a thread that loses its core in one falls behind.
  [[nodiscard]] bool shares() const noexcept { return looks_to_share_ > 0; }
  /// Whether a thread may take from the queue: the leader may, and any thread that is awake while
  /// the leader waits. A leader that shares its calls is needed for waiting, so it takes none while
  /// another thread sleeps.
  [[nodiscard]] bool may_take(const Member& me) const noexcept {
    if (BATON_UNLIKELY(shares())) {
      return leader_ != &me || (followers_.sleeper() == nullptr && !followers_.one_comes());
    }
    return leader_ == &me || leader_waits_ || me.helps || !keep_lead_;
  }
  bool can_lead(const Member& me) const noexcept;
  /// Whether end() was called since it entered.
  [[nodiscard]] bool is_over(const Member& me) const noexcept {
    return ends_.load(std::memory_order_acquire) != me.ends;
  }
  std::error_code enter(Member& me) noexcept;
  void leave(Member& me) noexcept;
  void take_lead(Member& me) noexcept;
  void after_interrupt(Member& me) noexcept;
  [[nodiscard]] bool work_for_leader() const noexcept;
  void share_out() noexcept;
  void accept_specially(Registration& registration, Interest ready) noexcept;
  void rest(Member& me, Deadline until) noexcept;
  void look(Member& me) noexcept;
  void note() noexcept;
  [[nodiscard]] bool same_call_as_noted() const noexcept;
  void hand_over(Member& me) noexcept;
  void find_helper(Member& me) noexcept;
  void note_length(Member& me) noexcept;
  void choose_lead() noexcept;
  void look_round() noexcept;
  void wake_sleeper() noexcept;
  void wake_member(Member* resting) noexcept;
  void interrupt_leader() noexcept;
  void tell_notifier(Member& me) noexcept;
  void take_token() noexcept;
  void stand_in_line(Member& me) noexcept;
  void give_token(Member& me) noexcept;
  void resume_by_token(Registration& registration) noexcept;
  [[nodiscard]] Deadline now() const noexcept { return Deadline::at_ns(system_.monotonic_ns()); }

  const ReactorConfig config_;
  const os::System& system_;
  const ReactorTuning tuning_;
  LookPace pace_;
  HandlerLength length_;
  std::string explanation_;
  std::unique_ptr<demux::Demultiplexer> demux_;
  bool level_ = true;  // a report leaves the registration armed, and is repeated
  bool edge_ = false;
  bool lazy_level_ = true;  // level_, and Suspension::lazy
  bool by_token_ = false;
  bool changes_seen_ = false;  // a running wait sees changes of the set
  bool pinned_ = false;        // only one thread may wait
  // The leader keeps the lead during calls: as tuned, while calls are short; always if pinned_.
  bool keep_lead_ = true;
  bool lead_moves_ = true;  // another thread may become the leader; if pinned_, at a price
  // See shares(), which is true unless this is 0. If the lead cannot move, it stays 1.
  std::uint32_t looks_to_share_ = 0;
  std::uint32_t forks_ = 0;
  Notes notes_;
  std::optional<reactor::FifoToken> token_;

  os::Mutex mutex_;
  ChunkedTable<Registration> table_;
  std::uint32_t made_ = 0;  // registrations that have an index
  Registration* free_ = nullptr;
  std::size_t used_ = 0;
  reactor::RegistrationList<&Registration::queue> ready_;
  reactor::RegistrationList<&Registration::queue> again_;  // ready when others have had their turn
  reactor::RegistrationList<&Registration::queue> closing_;
  reactor::RegistrationList<&Registration::late> late_;
  reactor::NotificationQueue notifications_;
  std::size_t notifications_now_ = 0;  // those that are delivered before the system is polled again
  reactor::TimerTable timers_;
  std::array<RegistrationKey, reactor::SignalSource::number_max + 1> signals_{};  // by number
  std::size_t signals_now_ = 0;
  std::unordered_set<NativeHandle> descriptors_;  // of the registrations that have not ended
  bool destroyed_ = false;                        // nothing is accepted any more
  EndedInHandler ended_in_handler_;

  std::array<Report, limits::reports_max> reports_;  // the leader's, while it waits without mutex_
  Member* leader_ = nullptr;
  bool leader_waits_ = false;
  bool leader_interrupted_ = false;
  std::uint32_t refills_ = 0;  // by other threads, in this wait of the leader
  Deadline leader_deadline_;
  Followers<Member> followers_;
  std::uint32_t members_ = 0;
  std::uint64_t owner_ = 0;  // pinned: the thread that waits or waited last; 0: none
  bool wake_asked_ = false;  // until a thread returns from handle_events
  // True implies nothing_but_reports(). Any other work makes it false. Only the leader makes it
  // true, after it has handled all other work.
  bool only_reports_ = false;
  std::uint32_t close_waiters_ = 0;
  ReactorStatistics statistics_;

  std::atomic<std::uint32_t> closes_{0};  // raised by a close if a thread waits for one
  std::atomic<std::uint32_t> ends_{0};    // raised by end and by restart; odd: ended
};

}  // namespace baton
