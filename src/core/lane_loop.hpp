// LaneLoop: a lane of per_thread mode, its processors, and the loop of the thread that leads it.
// Only that thread touches them: an operation meets no lock and no atomic read-modify-write. Other
// threads, starters before run() and dedicated processors of the team leave operations in the
// mailbox and requests in a list. Crew decides which thread leads which lane.
//
// How a lane goes to sleep without losing a wake-up: see sleep_word.hpp.
#pragma once

#include <cerrno>
#include <cstdint>
#include <span>
#include <vector>

#include "base/probes.hpp"
#include "baton/deadline.hpp"
#include "core/handler_clock.hpp"
#include "core/kept_lane.hpp"
#include "core/ledger.hpp"
#include "core/sleep_word.hpp"
#include "os/thread_locals.hpp"

namespace baton {

class HandlerRunner;
struct CrewMember;

class LaneLoop {
 public:
  /// How a lane is led: by a thread that is at home in it, or by one that has another home. `kept`:
  /// not now, but by its last leader when that comes back.
  enum class Led : std::uint8_t { no, kept, at_home, besides };

  LaneLoop(Ledger& ledger, Lane& lane, HandlerRunner& runner) noexcept;
  LaneLoop(const LaneLoop&) = delete;
  LaneLoop& operator=(const LaneLoop&) = delete;

  void add(Processor& processor) {
    own_.push_back(&processor);
    if (processor.info.leader_rule == LeaderRule::pinned) pinned_.store(true);
    only_ = own_.size() == 1 ? &processor : nullptr;
  }

  /// The calling thread becomes the leader. False: another thread leads or keeps the lane. A loaned
  /// lane is taken from its leader.
  bool enter(CrewMember* member, Led how) noexcept;
  /// Gives the lane up; pending operations stay. If no other thread can lead the engine, it is
  /// drained first (`for_good`), or the lane is kept for this thread.
  void leave(bool for_good) noexcept;
  /// For the destructor: makes the calling thread the leader. REQUIRES: no thread is inside.
  void take_over() noexcept;
  /// No thread leads, but the last leader has kept the lane (a pinned engine).
  [[nodiscard]] bool kept() const noexcept { return led() == Led::kept; }
  /// Leader of several lanes: while it is in another lane, a thread without a lane may take this
  /// one. Then claim() answers false. A pinned engine stays with its thread, so its lane does, too.
  void loan() noexcept {
    if (!pinned()) owner_.store(system_.thread_self() | loaned, std::memory_order_seq_cst);
  }
  bool claim() noexcept { return is_held() || claim_loaned(); }
  bool claim_loaned() noexcept {
    std::uint64_t mine = system_.thread_self() | loaned;
    return owner_.compare_exchange_strong(mine, mine & ~loaned, std::memory_order_acquire,
                                          std::memory_order_relaxed);
  }
  [[nodiscard]] bool is_held() const noexcept {
    return owner_.load(std::memory_order_relaxed) == system_.thread_self();
  }
  /// Leader that has stayed, before it looks whether the proactor is stopped, as enter() does: a
  /// stop that ended its last turns is over.
  void forget_stop() noexcept {
    if (ending()) ending_.fetch_and(~stop_asked, std::memory_order_seq_cst);
  }
  /// Leader that has stayed: it is in one of its calls again, or between two of them.
  void set_away(bool away) noexcept { away_.store(away, std::memory_order_relaxed); }
  [[nodiscard]] bool is_away() const noexcept { return away_.load(std::memory_order_relaxed); }
  /// For the ages of operations that are started while no handler runs.
  void set_clock() noexcept { lane_.clock.set(system_.monotonic_coarse_ns()); }
  /// Leader: it was asked to regroup or to stop.
  [[nodiscard]] bool is_asked() const noexcept { return ending(); }
  /// Leader.
  void be_home() noexcept { led_.store(Led::at_home, std::memory_order_seq_cst); }
  /// seq_cst, both ways: a starter looks here for a leader after it has left something, and a
  /// leader looks for what was left after it has come (Crew).
  [[nodiscard]] Led led() const noexcept { return led_.load(std::memory_order_seq_cst); }
  [[nodiscard]] bool driven() const noexcept { return led() > Led::kept; }
  /// No thread leads or keeps it, and there is something to do.
  [[nodiscard]] bool needs_leader() const noexcept {
    return !driven() && !kept() && has_something();
  }
  /// When a thread may lead this lane besides its own: at once, or after some time if the lane's
  /// thread has left for a moment or has yet to come. REQUIRES: no thread leads.
  [[nodiscard]] Deadline free_from(Deadline now) noexcept;
  /// Restarts the time that a lane's thread has to come.
  void wait_anew() noexcept { unled_since_ns_.store(0, std::memory_order_relaxed); }
  /// Restores that time after an attempt to lead the lane failed.
  void waits_still(Deadline since) noexcept {
    unled_since_ns_.store(since.ns(), std::memory_order_relaxed);
  }
  /// Since when it is known to have no thread: at the latest since `now`.
  [[nodiscard]] Deadline unled_since(Deadline now) noexcept {
    std::int64_t since = 0;
    const bool first =
        unled_since_ns_.compare_exchange_strong(since, now.ns(), std::memory_order_relaxed);
    return first ? now : Deadline::at_ns(since);
  }
  [[nodiscard]] bool was_left_by_this_thread() const noexcept {
    return left_by_.load(std::memory_order_relaxed) == system_.thread_self();
  }
  /// No thread has led it yet.
  [[nodiscard]] bool untouched() const noexcept {
    return !touched_.load(std::memory_order_relaxed);
  }
  /// One of its engines stays with the thread that has waited in it.
  [[nodiscard]] bool pinned() const noexcept { return pinned_.load(std::memory_order_relaxed); }
  /// From now on any thread may wait in its engines. False: they do not support that. REQUIRES:
  /// this thread leads.
  bool unpin() noexcept;
  /// The innermost lane of this proactor that this thread is inside, or null.
  [[nodiscard]] static LaneLoop* here(const Ledger& ledger) noexcept {
    const Inside* const inside = innermost(ledger);
    return inside != nullptr ? inside->loop : nullptr;
  }
  /// This thread is inside this lane. It is not inside a lane that it leads besides its own, nor in
  /// a signal handler that has interrupted its wait: there it leaves mail.
  [[nodiscard]] bool mine() const noexcept {
    const Inside* inside = inside_chain();
    while (inside != nullptr && inside->loop != this) inside = inside->outer;
    return inside != nullptr && !sleep_.in_wait();
  }
  /// REQUIRES: this thread is inside.
  [[nodiscard]] CrewMember* member() const noexcept {
    return member_.load(std::memory_order_relaxed);
  }

  /// The lanes that a thread is inside; in os::thread_locals, on the stacks of turn().
  struct Inside {
    LaneLoop* loop;
    mutable const Inside* outer;
    bool stays = false;  // of a Stay, no turn
  };
  /// This thread's innermost of this proactor's, or null.
  [[nodiscard]] static const Inside* innermost(const Ledger& ledger) noexcept {
    const Inside* inside = inside_chain();
    while (inside != nullptr && &inside->loop->ledger_ != &ledger) inside = inside->outer;
    return inside;
  }
  /// The thread that leads is inside while this lives, also between its turns. Made and ended by
  /// that thread, in any order with other lanes' turns and stays.
  class Stay {
   public:
    explicit Stay(LaneLoop& loop) noexcept;
    ~Stay();
    Stay(const Stay&) = delete;
    Stay& operator=(const Stay&) = delete;
    [[nodiscard]] bool is(const Inside* link) const noexcept { return link == &link_; }
    /// True if this thread made it and is in no handler called in this lane since.
    [[nodiscard]] bool may_end() const noexcept;

   private:
    const Inside link_;
  };

  /// As Dispatcher::turn. REQUIRES: mine().
  std::size_t turn(Deadline deadline, std::size_t handlers_max, bool return_after_handlers);

  /// Ends the turns of the thread that leads now.
  void stop() noexcept;
  /// For os::in_forked_child: the loops on this thread's stack belong to the parent.
  static void stop_in_forked_child() noexcept;
  /// The same; it then looks which lanes it should lead.
  void ask_to_regroup() noexcept;
  [[nodiscard]] bool stopped() const noexcept {
    return (ending_.load(std::memory_order_acquire) & stop_asked) != 0;
  }
  /// For the destructor, where handlers may stop what has to go on.
  void restart() noexcept { ending_.store(0, std::memory_order_release); }
  /// Leader: it is about to look. seq_cst: a thread that has asked left its work before that.
  void regroups() noexcept {
    if (ending()) ending_.fetch_and(~regroup_asked, std::memory_order_seq_cst);
  }
  /// Only a hint.
  [[nodiscard]] bool sleeps() const noexcept { return sleep_.sleeps(); }
  /// Ends the wait of its leader; tells when there is none.
  SleepWord::Needs wake() noexcept;

  // -- from other threads -------------------------------------------------------------------------

  /// An activated operation: to start, or posted.
  /// False: the proactor has finished, and does not look again. Never for an internal operation.
  bool mail(Operation& operation) noexcept;
  /// One of this lane's operations, finished by a dedicated processor of the team; or complete, and
  /// out of a strand that has come back from another proactor.
  void mail_back(Operation& operation) noexcept;
  void ask(LaneRequests::Wish wish) noexcept;
  void ask(Handle& handle, LaneRequests::Asked asked) noexcept;
  /// False when there was no memory for it.
  bool ask(std::shared_ptr<PendingInquiry> inquiry) noexcept;

  /// Makes the next start and the next look notice what has changed.
  void call_attention() noexcept { lane_.attention.store(true, std::memory_order_release); }
  /// Returns when the request that was made for the handle is served, or will be before the owner
  /// is in its engines again. No code of the program runs meanwhile.
  void wait_for_engines(Handle& handle, std::uint32_t generation) noexcept;

  // -- for the owner, and for the destructor when no thread is inside -----------------------------

  void take_mail() noexcept {
    if (BATON_UNLIKELY(lane_.attention.load(std::memory_order_relaxed))) look_at_mail();
  }
  /// A call of the owner that may leave work in this lane begins. Operations that were started
  /// before it come first.
  ///
  /// In a turn of this lane it is at work already. It is not in a handler of another lane that the
  /// thread leads besides, nor between the calls of an attached thread.
  void begin_call() noexcept {
    lane_.be_at_work();
    take_mail();
  }
  /// The owner goes away. Its calls between two turns may have left the lane at work.
  void end_calls() noexcept {
    if (lane_.activity.load(std::memory_order_relaxed) % 2 != 0 && quiet()) be_quiet();
  }
  void run_closures() noexcept {
    if (BATON_UNLIKELY(lane_.closable != nullptr)) close_handles();
  }
  void cancel_and_close_everything() noexcept;
  /// Cancels everything and waits until the engines hold nothing, without a call of a handler.
  void end_engines(Deadline until) noexcept;

  // -- for a leader of several lanes --------------------------------------------------------------

  /// The leader goes to sleep, in all its lanes at once: how long it may. end_wait() follows.
  [[nodiscard]] Deadline prepare_wait(Deadline deadline) noexcept;
  void end_wait() noexcept { sleep_.wake_up(); }
  /// In between: sleeps in engines that have no descriptor to sleep by.
  void wait_in_engines(Deadline deadline) noexcept;
  /// The wait of a leader with one lane: in its engine.
  void wait_alone(Deadline deadline) noexcept;
  [[nodiscard]] std::span<Processor* const> processors() const noexcept { return own_; }
  /// Any thread. Exact for the leader between its turns, and for a lane without a leader.
  [[nodiscard]] bool has_something() const noexcept;
  /// Any thread. False: no thread leads, and every later leader sees what was written before. A
  /// thread that has just come has taken what was there, and one that leaves says what it leaves.
  [[nodiscard]] bool may_have_something() const noexcept {
    return has_something() || driven() || has_something();
  }
  /// Leader, between its turns: this lane has nothing to do.
  [[nodiscard]] bool at_rest() const noexcept;

  [[nodiscard]] std::uint32_t started() const noexcept;

  [[nodiscard]] Lane& lane() noexcept { return lane_; }
  [[nodiscard]] std::uint16_t lane_index() const noexcept { return lane_.index; }
  [[nodiscard]] std::uint64_t wakes_sent() const noexcept { return wakes_sent_.load(); }
  [[nodiscard]] std::uint64_t wakes_suppressed() const noexcept { return wakes_suppressed_.load(); }

 private:
  static const Inside* inside_chain() noexcept {
    return static_cast<const Inside*>(os::thread_locals.lane_loops);
  }
  static void take_out(const Inside& link) noexcept {
    if (BATON_UNLIKELY(inside_chain() != &link)) return take_out_of_chain(link);
    set_inside_chain(link.outer);
  }
  static void take_out_of_chain(const Inside& link) noexcept;
  /// True if this thread is in a turn of this lane.
  [[nodiscard]] bool in_turn() const noexcept {
    const Inside* inside = inside_chain();
    while (inside != nullptr && (inside->loop != this || inside->stays)) inside = inside->outer;
    return inside != nullptr;
  }
  static void set_inside_chain(const Inside* link) noexcept {
    os::thread_locals.lane_loops = link;
    os::thread_locals.lane =
        link != nullptr ? static_cast<const void*>(&link->loop->lane_) : &os::nowhere;
  }

  /// While one exists, the owner is in its engines. It serves the requests of other threads first.
  /// It does nothing while no descriptor is borrowed.
  ///
  /// A cancel of another thread therefore waits until the owner has left: the number of a borrowed
  /// descriptor may name another file when the cancel has returned. The owner raises the word and
  /// then looks for requests; the other thread leaves its request and then reads the word. All four
  /// steps are sequentially consistent, so either the request is served here, or the other thread
  /// waits (Dekker).
  class InEngines {
   public:
    explicit InEngines(LaneLoop& loop) noexcept;
    ~InEngines() {
      if (BATON_UNLIKELY(outermost_)) loop_.end_engine_calls();
    }
    InEngines(const InEngines&) = delete;
    InEngines& operator=(const InEngines&) = delete;
    /// It has served requests. The owner must not sleep before it has looked whether it is quiet.
    [[nodiscard]] bool served() const noexcept { return served_; }

   private:
    LaneLoop& loop_;
    const bool outermost_;
    bool served_ = false;
  };

  void begin_engine_calls() noexcept {
    const std::uint32_t calls = engine_calls_.load(std::memory_order_relaxed);
    engine_calls_.store(calls + 1, std::memory_order_seq_cst);
  }
  void serve_before_engine_calls() noexcept;
  void end_engine_calls() noexcept {
    const std::uint32_t calls = engine_calls_.load(std::memory_order_relaxed);
    engine_calls_.store(calls + 1, std::memory_order_release);
  }
  void look_at_mail() noexcept;
  void close_handles() noexcept;
  void start_what_is_deferred() noexcept;
  void open_mailbox() noexcept;
  void take_returned() noexcept;
  /// The requests up to this number.
  void serve_requests(LaneRequests::Number until) noexcept;
  void serve(const LaneRequests::Due& due) noexcept;
  void serve(Handle& handle, std::uint32_t what) noexcept;
  void cancel_marked_timers() noexcept;
  void cancel_marked(Handle& handle) noexcept;
  void start_mailed(Operation& operation) noexcept;
  [[nodiscard]] bool quiet() const noexcept;
  void be_quiet() noexcept;
  [[gnu::always_inline]] std::size_t run_batch(std::size_t handlers_max);
  [[gnu::always_inline]] std::size_t run_some(std::size_t handlers_max);
  [[gnu::always_inline]] void wait(Deadline deadline) noexcept;
  [[gnu::noinline]] std::size_t reap_all(Deadline deadline) noexcept;
  [[gnu::always_inline]] std::size_t reap_from(Processor& processor, Deadline deadline) noexcept;
  void wake_or_find_leader() noexcept;
  /// The leader's turns are to end.
  [[nodiscard]] bool ending() const noexcept {
    return ending_.load(std::memory_order_acquire) != 0;
  }
  void drain_pinned() noexcept;
  /// Waits once for engines that still hold operations.
  void reap(Deadline deadline) noexcept;
  void let_go() noexcept;
  void its_thread_ends() noexcept;

  Ledger& ledger_;
  Lane& lane_;
  HandlerRunner& runner_;
  const os::System& system_;
  HandlerClock clock_;
  std::vector<Processor*> own_;
  Processor* only_ = nullptr;  // of own_, if it is the only one
  // Marks that end the turns of the leader. The next leader begins without them.
  static constexpr std::uint32_t stop_asked = 1U << 0;
  static constexpr std::uint32_t regroup_asked = 1U << 1;
  std::atomic<std::uint32_t> ending_{0};
  SleepWord sleep_;
  std::atomic<std::uint32_t> engine_calls_{0};  // odd: the owner is in its engines
  static constexpr std::uint64_t loaned = std::uint64_t{1} << 63;
  std::atomic<std::uint64_t> owner_{0};  // System::thread_self, perhaps `loaned`; 0: free
  std::atomic<Led> led_{Led::no};
  std::atomic<CrewMember*> member_{nullptr};  // the leader
  std::atomic<bool> away_{false};
  std::atomic<bool> pinned_{false};
  // Of a lane without a leader:
  std::atomic<bool> left_something_{false};  // beside its mail
  std::atomic<bool> touched_{false};
  std::atomic<std::uint64_t> left_by_{0};        // its leader until now, which may come back
  std::atomic<std::int64_t> unled_since_ns_{0};  // 0: not seen without one, or at once
  KeptLane kept_lane_;
  std::atomic<std::uint64_t> wakes_sent_{0};
  std::atomic<std::uint64_t> wakes_suppressed_{0};
};

inline LaneLoop::InEngines::InEngines(LaneLoop& loop) noexcept
    : loop_(loop),
      outermost_(BATON_UNLIKELY(loop.ledger_.has_borrowed.load(std::memory_order_relaxed)) &&
                 loop.engine_calls_.load(std::memory_order_relaxed) % 2 == 0) {
  if (BATON_LIKELY(!outermost_)) return;
  loop.begin_engine_calls();
  if (BATON_LIKELY(!loop.lane_.requests.any())) return;
  loop.serve_before_engine_calls();
  served_ = true;
}

}  // namespace baton
