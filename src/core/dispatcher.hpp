// Dispatcher: decides which thread leads, follows or runs handlers, for shared and dedicated
// processors (paper 000 section 6, with the repairs that model checking found; the words and steps
// are those of tests/model/seat.pml).
//
// A processor with work has a seat. The thread that takes the seat waits in the engine and puts the
// results into the one queue. It keeps the seat and runs short handlers itself, because waking a
// thread costs more than most handlers. One sleeping follower is the standby. It looks about
// once a millisecond while a leader is in a handler (LookPace: less often in calm times). It takes
// the seat of a leader that is in the same handler as at the last look, and helps with results that
// have waited that long. After a look without traffic it sleeps until it is woken: an idle process
// makes no system call.
//
// No wake-up may be lost. A thread that is about to stop being available - before it runs a
// handler, waits as leader or returns - looks round once, in the same critical section
// (look_round). After that another thread is awake, on its way or due to look, or there is nothing
// to do.
//
// Every critical section holds Ledger::mutex once. A dedicated processor has a thread of its own,
// its only leader. That thread hands results over, looks round (level STRONG) and runs no handler.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "baton/deadline.hpp"
#include "baton/proactor.hpp"
#include "core/followers.hpp"
#include "core/handler_clock.hpp"
#include "core/handler_length.hpp"
#include "core/ledger.hpp"
#include "core/look_pace.hpp"
#include "os/thread_locals.hpp"

namespace baton {

class HandlerRunner;

class Dispatcher {
 public:
  Dispatcher(Ledger& ledger, Lane& lane, HandlerRunner& runner, Duration look);
  ~Dispatcher();
  Dispatcher(const Dispatcher&) = delete;
  Dispatcher& operator=(const Dispatcher&) = delete;

  /// Adds a processor of the team. Before anything starts.
  void add(Processor& processor);
  /// Starts the threads of dedicated processors. `deliver` takes what they finish where the lane is
  /// not this dispatcher's (per_thread teams); null: into this lane. 0 or an errno.
  using Deliver = void (*)(void* context, OperationQueue& finished);
  int start_threads(Deliver deliver, void* context);
  /// Ends and joins them; their processors have been cancelled before.
  void stop_threads();
  /// Waits until the engines hold nothing, without a call of a handler. REQUIRES: everything is
  /// cancelled, and stop() was called.
  void end_engines(Deadline until);

  /// One turn of a thread: at most `handlers_max` handlers (0: no bound), until `deadline`, or
  /// until stopped. With `return_after_handlers` it returns when at least one has run and nothing
  /// is queued.
  std::size_t turn(Deadline deadline, std::size_t handlers_max, bool return_after_handlers);

  void stop_locked() noexcept BATON_REQUIRES(shared_lane);
  void restart() noexcept;
  [[nodiscard]] bool stopped() const noexcept { return stopped_.load(std::memory_order_acquire); }

  // -- called with the mutex held, by starters ----------------------------------------------------

  /// After anything was queued, deferred or started: wakes or interrupts at most one thread.
  void look_round() BATON_REQUIRES(shared_lane) {
    // With one thread, the usual case, no other thread sleeps or waits.
    if (any_resting()) wake_as_needed(urgent());
  }
  /// The same after a start. An operation that completed at once is the next step of the thread
  /// whose handler started it. It waits for that thread, however long handlers take.
  void look_round_after_start() BATON_REQUIRES(shared_lane) {
    if (any_resting()) wake_as_needed(overlooked());
  }
  /// A timer was added: a thread must wake up for it.
  void timer_added(Deadline deadline) BATON_REQUIRES(shared_lane);
  /// After a post of level FOLLOWER: only a sleeper is woken, never a leader interrupted.
  void look_round_for_followers() BATON_REQUIRES(shared_lane);
  /// Makes one thread go round its loop once, even if there is nothing to do.
  void wake_one() BATON_REQUIRES(shared_lane);
  /// Makes the leader start what is deferred, or see a wait set that has changed.
  void interrupt_leader(Processor& processor) BATON_REQUIRES(shared_lane);
  /// Returns when no leader is in an engine that has yet to hear of a cancel; releases the mutex
  /// meanwhile. No code of the program runs in between.
  void wait_for_cancels() BATON_REQUIRES(shared_lane);
  /// Closes the handles that can be closed now. True: it unlocked the mutex to close one, or a
  /// processor has no leader now and needs one to detach a handle.
  bool run_closures() BATON_REQUIRES(shared_lane) {
    return BATON_UNLIKELY(lane_.closable != nullptr) && close_handles();
  }

  /// True if the calling thread holds the seat of `processor` and therefore waits next. Needs no
  /// mutex.
  [[nodiscard]] static bool leads(const Processor& processor) noexcept {
    const std::uint32_t holder = processor.seat.holder.load(std::memory_order_seq_cst);
    const Inside* const link = inside_chain();
    if (holder == 0 || link == nullptr) return false;
    return (holder == link->number && link->dispatcher->only_ == &processor) ||
           holds(processor, holder);
  }
  /// The same, and no other thread is inside turn(), so no thread could be woken or could help.
  [[nodiscard]] bool leads_alone(const Processor& processor) const noexcept
      BATON_REQUIRES(shared_lane) {
    const Inside* const link = inside_chain();
    return link != nullptr && link->dispatcher == this && is_alone() &&
           processor.seat.holder.load(std::memory_order_relaxed) == link->number;
  }
  /// A thread is inside turn().
  [[nodiscard]] bool is_driven() const noexcept {
    const os::LockGuard lock{ledger_.mutex(), system_};
    return members_ != 0;
  }
  [[nodiscard]] bool inside() const noexcept {
    const Inside* link = inside_chain();
    while (link != nullptr && link->dispatcher != this) link = link->outer;
    return link != nullptr;
  }

 private:
  /// The member number under which a thread holds seats. A thread may be inside several proactors
  /// at once (a handler that drives another one), so the numbers stand in a chain.
  struct Inside {
    const Dispatcher* dispatcher;
    std::uint32_t number;
    const Inside* outer;
  };
  static const Inside* inside_chain() noexcept {
    return static_cast<const Inside*>(os::thread_locals.dispatchers);
  }
  static void set_inside_chain(const Inside* link) noexcept {
    os::thread_locals.dispatchers = link;
  }
  [[nodiscard]] static bool holds(const Processor& processor, std::uint32_t number) noexcept;

  /// Notes of the last look; the next one compares with them.
  struct Notes {
    Deadline looked;
    std::uint32_t mark[limits::processors_max] = {};  // Seat::count at the last look
    std::uint64_t queue_mark = 0;  // taken_ when all that was queued at the last look is taken
  };

  /// A thread inside turn(); lives on its stack.
  struct Member : Follower<Member> {
    Member(std::uint32_t id, std::uint32_t stops_before) : number(id), stops(stops_before) {}
    const std::uint32_t number;  // never 0
    const std::uint32_t stops;   // Dispatcher::stops_ when it came; one less while stopped
    bool timekeeper = false;
    // The standby's notes, and those of a standby that helps:
    bool helps = false;
    bool keeps_notes = false;  // only timers have come between: the next look is when it was
    bool watches = false;      // a leader that waits, and looks as the standby would
    bool keeps_watch = false;  // it does so since its notes
    Notes notes;
    std::uint32_t seats = 0;  // bit per processor: seats that this thread believes it holds
  };

  struct DedicatedThread {
    Dispatcher* dispatcher = nullptr;
    Processor* processor = nullptr;
    std::uint64_t thread = 0;
    bool running = false;
  };

  [[nodiscard]] static std::uint32_t bit(const Processor& processor) noexcept {
    return 1U << processor.index;
  }
  template <class Visit>
  [[gnu::always_inline]] void for_seats_of(const Member& me, Visit visit) const {
    if (BATON_LIKELY(only_ != nullptr)) {
      if (me.seats != 0) visit(*only_);
      return;
    }
    for (Processor* processor : processors_) {
      if ((me.seats & bit(*processor)) != 0) visit(*processor);
    }
  }

  // The steps of a turn; all with the mutex held, those that wait or run handlers release it.
  void lead(Member& me, Deadline deadline) BATON_REQUIRES(shared_lane);
  [[nodiscard, gnu::always_inline]] std::size_t wait_in(Processor& led, Deadline until)
      BATON_REQUIRES(shared_lane);
  [[nodiscard]] std::size_t wait_in_seats(const Member& me, Deadline until)
      BATON_REQUIRES(shared_lane);
  void rest(Member& me, Deadline deadline, bool& late) BATON_REQUIRES(shared_lane);
  bool look(Member& me) BATON_REQUIRES(shared_lane);
  void look_in_passing(Member& me) BATON_REQUIRES(shared_lane);
  void count_at_all_seats() noexcept BATON_REQUIRES(shared_lane);
  [[nodiscard]] Deadline next_look(const Member& me) const noexcept BATON_REQUIRES(shared_lane);
  void note(Member& me) BATON_REQUIRES(shared_lane);
  template <class Wanted>
  unsigned take_seats_from_handlers(Member& me, Wanted wanted) noexcept BATON_REQUIRES(shared_lane);
  void take_seats_with_work(Member& me) noexcept BATON_REQUIRES(shared_lane);
  bool take_stuck_seats(Member& me) BATON_REQUIRES(shared_lane);
  bool helped_enough(Member& me) BATON_REQUIRES(shared_lane);
  [[nodiscard]] Deadline begin_watch(Member& me) BATON_REQUIRES(shared_lane);
  void end_watch(Member& me) BATON_REQUIRES(shared_lane);
  [[nodiscard]] bool moved(const Member& me) const noexcept;
  std::size_t run(Member& me, std::size_t handlers_max) BATON_REQUIRES(shared_lane);
  [[gnu::always_inline]] std::size_t take_in(Processor& led, OperationQueue& batch) noexcept
      BATON_REQUIRES(shared_lane);
  [[nodiscard, gnu::always_inline]] bool goes_on(const Member& me) const noexcept
      BATON_REQUIRES(shared_lane);
  void leave(Member& me) BATON_REQUIRES(shared_lane);

  /// True if the proactor is draining and nothing is pending, queued or in a handler.
  [[nodiscard]] bool drained() const noexcept {
    return BATON_UNLIKELY(ledger_.draining.load(std::memory_order_relaxed)) && nothing_left();
  }
  [[nodiscard]] bool nothing_left() const noexcept;

  // Seats.
  [[nodiscard]] bool can_lead(const Processor& processor) const noexcept;
  void check_seats(Member& me) noexcept {
    if (me.seats != 0) check_held_seats(me);
  }
  [[gnu::always_inline]] void check_held_seats(Member& me) noexcept;
  bool close_handles() BATON_REQUIRES(shared_lane);
  void take_seats(Member& me) noexcept;
  void take_seat(Member& me, Processor& processor) noexcept;
  void take_over_own_seats(Member& me) noexcept;
  void give_up_seat(Member& me, Processor& processor) noexcept;
  void give_up_idle_seats(Member& me) noexcept;
  [[gnu::always_inline]] void set_seats(const Member& me, SeatState state) noexcept;

  [[nodiscard]] bool any_resting() const noexcept { return resting_ != 0; }
  /// True if no other thread that could be woken is inside.
  [[nodiscard]] bool is_alone() const noexcept { return members_ == 1; }
  void wake_as_needed(bool needed) BATON_REQUIRES(shared_lane);

  void note_length(std::int64_t ns) noexcept BATON_REQUIRES(shared_lane);

  // The conditions that look_round checks.
  [[nodiscard]] bool unled() const noexcept;
  template <class Test>
  [[nodiscard]] Processor* find_seat(Test test) const noexcept;
  [[nodiscard]] bool leader_busy() const noexcept;
  [[nodiscard]] bool leader_in_handler() const noexcept;
  [[nodiscard]] bool leader_asked() const noexcept;
  [[nodiscard]] bool overlooked() const noexcept;
  [[nodiscard]] bool urgent() const noexcept;
  [[nodiscard]] bool unwatched() const noexcept;
  [[nodiscard]] bool help_pays() const noexcept;
  [[nodiscard]] bool timers_uncovered() const noexcept;

  bool wake_follower() noexcept BATON_REQUIRES(shared_lane);
  void signal(Member& member) noexcept BATON_REQUIRES(shared_lane);
  void wake_timekeeper() noexcept BATON_REQUIRES(shared_lane);
  void ask_a_leader() noexcept BATON_REQUIRES(shared_lane);
  void take_timekeeping(Member& me) noexcept;
  void drop_timekeeping(Member& me) noexcept;

  void dedicated_loop(Processor& processor);
  void hand_over(OperationQueue& finished) BATON_REQUIRES(shared_lane);
  static void dedicated_entry(void* argument);

  Ledger& ledger_;
  Lane& lane_;
  HandlerRunner& runner_;
  const os::System& system_;
  std::vector<Processor*> processors_;
  Processor* only_ = nullptr;  // of a team of one
  std::vector<std::unique_ptr<DedicatedThread>> threads_;
  Deliver deliver_ = nullptr;
  void* deliver_context_ = nullptr;

  /// It is stopped, or was stopped since this thread came. A restart only counts for threads that
  /// come afterwards.
  [[nodiscard]] bool ended(const Member& me) const noexcept BATON_REQUIRES(shared_lane) {
    return me.stops != stops_;
  }

  std::atomic<bool> stopped_{false};
  std::uint32_t stops_ BATON_GUARDED_BY(shared_lane) = 0;
  std::atomic<bool> threads_ending_{false};

  // Guarded by ledger_.mutex():
  std::uint32_t next_member_ = 0;
  std::uint32_t members_ = 0;  // threads inside turn(), once for each call
  Followers<Member> followers_;
  Member* timekeeper_ = nullptr;  // its wait ends at the nearest timer
  std::uint32_t resting_ = 0;     // threads in rest(), and leaders that wait
  std::uint32_t watchers_ = 0;    // leaders that wait and look at others
  std::uint32_t in_handlers_ = 0;
  std::uint64_t taken_ = 0;     // results taken from the queue, ever
  std::uint64_t alone_at_ = 0;  // Counters::completed when the last but one thread left
  Notes passing_;               // of threads that have left
  HandlerClock clock_;
  HandlerLength length_;
  LookPace pace_;
};

}  // namespace baton
