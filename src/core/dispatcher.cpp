// The protocol of seats, followers and the standby. tests/model/seat.pml is its model.
#include "core/dispatcher.hpp"

#include <errno.h>

#include <algorithm>
#include <utility>

#include "base/probes.hpp"
#include "core/merged_wait.hpp"
#include "core/runner.hpp"

namespace baton {

using Access = OperationAccess;

namespace {

std::uint32_t bit(const Processor& processor) { return 1U << processor.index; }

}  // namespace

Dispatcher::Dispatcher(Ledger& ledger, Lane& lane, HandlerRunner& runner, Duration look)
    : ledger_(ledger),
      lane_(lane),
      runner_(runner),
      system_(ledger.system()),
      clock_(system_, lane.clock, lane.counters.handler_ns_max, nullptr),
      pace_(look) {}

Dispatcher::~Dispatcher() { BATON_ASSERT(sleepers_ == nullptr && standby_ == nullptr); }

void Dispatcher::add(Processor& processor) {
  processors_.push_back(&processor);
  only_ = processors_.size() == 1 ? &processor : nullptr;
  if (!processor.info.works_in_submit) length_.leader_works_for_all();
}

bool Dispatcher::holds(const Processor& processor, std::uint32_t number) noexcept {
  for (const Inside* inside = inside_chain(); inside != nullptr; inside = inside->outer) {
    if (inside->number != number) continue;
    const auto& all = inside->dispatcher->processors_;
    if (std::find(all.begin(), all.end(), &processor) != all.end()) return true;
  }
  return false;
}

// Back from a handler: is the seat still mine (rule 3)?
inline void Dispatcher::check_held_seats(Member& me) noexcept {
  for_seats_of(me, [&me](Processor& processor) {
    if (processor.seat.holder.load(std::memory_order_relaxed) != me.number) {
      me.seats &= ~bit(processor);
    } else {
      processor.seat.set(SeatState::awake);
    }
  });
}

inline void Dispatcher::set_seats(const Member& me, SeatState state) noexcept {
  for_seats_of(me, [state](Processor& processor) { processor.seat.set(state); });
}

// -- a turn ---------------------------------------------------------------------------------------

std::size_t Dispatcher::turn(Deadline deadline, std::size_t handlers_max,
                             bool return_after_handlers) {
  ledger_.mutex().lock(system_);
  if (++next_member_ == 0) ++next_member_;
  // While a thread is alone it does not count its handlers at its seats.
  if (++members_ == 2 && alone_at_ != lane_.counters.completed.get()) count_at_all_seats();
  Member me{next_member_, stopped() ? stops_ - 1 : stops_};
  const Inside link{this, me.number, inside_chain()};
  take_over_own_seats(me);
  set_inside_chain(&link);
  struct Unlink {
    const Inside* outer;
    ~Unlink() { set_inside_chain(outer); }
  } const unlink{inside_chain()->outer};

  static_cast<void>(clock_.begin());
  std::size_t handlers = 0;
  bool late = false;
  // A turn that ends after its handlers runs those that are queued now, not those they queue.
  if (return_after_handlers && handlers_max == 0) {
    handlers_max = std::max(lane_.completed.size(), limits::handlers_per_look);
  }
  while (!ended(me)) {
    check_seats(me);
    run_closures();
    if (BATON_UNLIKELY(!lane_.timers.empty())) ledger_.expire(lane_, ledger_.now());
    if (drained()) runner_.lane_is_quiet(lane_);
    if (ended(me) || (handlers_max != 0 && handlers >= handlers_max)) break;
    // Work that posts itself, or a row of short turns, must not starve I/O.
    if (lane_.look_is_due()) {
      lane_.unlooked = 0;
      take_seats(me);
      if (me.seats != 0) {
        lead(me, Deadline::immediately());
        continue;  // what it has brought may end a drain, or leave handles to close
      }
      lane_.last_batch = 0;  // it says nothing about what starts from here on
    }
    if (me.helps && helped_enough(me)) me.helps = false;
    // If a leader is in a handler and no thread watches it, watching comes before helping (rule 4).
    // The exception is the standby itself, whose look has found old results.
    const bool to_the_role = me.seats == 0 && !me.helps && !late && standby_ == nullptr &&
                             !length_.lasts() && leader_in_handler() && !urgent();
    if (!to_the_role) {
      if (!lane_.completed.empty()) {
        // A helper watches the leader between its handlers while there is no standby.
        if (me.seats == 0 && !me.helps && standby_ == nullptr && leader_in_handler()) {
          me.helps = true;
          note(me);
        }
        const std::size_t room = handlers_max != 0 ? handlers_max - handlers : ~std::size_t{0};
        // An exception leaves from here, after everything was handed over.
        const std::size_t ran = run(me, std::min(room, lane_.handlers_to_look()));
        handlers += ran;
        // In the child of a fork in a handler nothing is handed over, and the mutex is not held.
        if (runner_.forked()) {
          ledger_.mutex().left_to_parent();
          return handlers;
        }
        lane_.unlooked += ran;
        continue;
      }
      me.helps = false;
      if (late || (return_after_handlers && handlers > 0)) break;
      if (me.seats == 0 || only_ == nullptr || !only_->has_work()) take_seats(me);
      if (me.seats == 0 && length_.lasts()) {
        take_seats_from_handlers(me, [](const Processor& led) { return led.has_work(); });
      }
      if (me.seats != 0) {
        lane_.unlooked = 0;
        lead(me, deadline);
        late = !deadline.is_never() && ledger_.now() >= deadline;
        continue;
      }
    }
    rest(me, deadline, late);
  }
  leave(me);
  ledger_.mutex().unlock(system_);
  return handlers;
}

// Runs one handler, and the next ones while there is nothing else to look at. Keeps the seat.
// Entering, marking the seat and looking round are one critical section.
std::size_t Dispatcher::run(Member& me, std::size_t handlers_max) {
  me.keeps_notes = false;
  set_seats(me, SeatState::in_handler);
  ++in_handlers_;
  const bool may_go_on = me.seats != 0 && !me.helps;
  std::size_t count = 0;
  std::size_t untimed = 0;  // handlers since `mark`
  std::uint64_t mark = 0;
  try {
    do {
      Operation& operation = lane_.completed.pop_front();
      const bool watched = !is_alone();
      if (watched) {  // or no other thread has taken notes
        ++taken_;
        for_seats_of(me, [](Processor& led) { ++led.seat.count; });
      }
      const bool direct = Access::has(operation, Access::direct);
      if (direct || !operation.has(Operation::internal)) lane_.counters.completed.add();
      if (BATON_UNLIKELY(!direct) && !runner_.arrives(lane_, operation)) continue;
      ++count;
      bool timed = false;
      if (watched) {
        look_round();
        timed = length_.is_due() || lane_.completed.empty();
      }
      // The others are timed together, with the waits for the mutex between them.
      if (timed && untimed > 0) clock_.end(mark, std::exchange(untimed, 0));
      if (timed || count == 1) mark = clock_.begin();
      ledger_.mutex().unlock(system_);
      Handle* const handle = runner_.run(lane_, operation, true);
      // In the child of a fork in a handler the mutex is another thread's, which turn() minds.
      if (runner_.forked()) {
        ledger_.mutex().assume_held();
        return count;
      }
      const std::uint64_t end = timed ? clock_.now() : 0;
      ledger_.mutex().lock(system_);
      if (timed) {
        note_length(clock_.ns_between(mark, end));
        mark = clock_.end(mark, end, 1);
      } else if (++untimed == HandlerClock::handlers_max) {
        mark = clock_.end(mark, std::exchange(untimed, 0));
      }
      ledger_.handler_returned(lane_, handle);
    } while (count < handlers_max && may_go_on && goes_on(me));
    if (untimed > 0) clock_.end(mark, untimed);
  } catch (...) {
    if (runner_.forked()) throw;
    ledger_.mutex().lock(system_);
    --in_handlers_;
    lane_.counters.exceptions.add();
    check_seats(me);
    // This thread will not come round again, so it finishes what the handler has left to be done.
    run_closures();
    if (drained()) runner_.lane_is_quiet(lane_);
    leave(me);  // the baton is handed over before the exception leaves run()
    ledger_.mutex().unlock(system_);
    throw;
  }
  --in_handlers_;
  return count;
}

// A thread that is alone, or a leader of short handlers, runs the next one in a row. Timers and a
// seat that was taken wait for the end of the row, which is bounded (Lane::handlers_to_look). A
// handle to close does not, because the next handler may be long. REQUIRES: it held seats when the
// row began, and does not help.
inline bool Dispatcher::goes_on(const Member& me) const noexcept {
  return !lane_.completed.empty() && lane_.closable == nullptr && !ended(me) &&
         (is_alone() || length_.is_short());
}

void Dispatcher::note_length(std::int64_t ns) noexcept {
  length_.note(ns);
  if (ns >= 2 * pace_.shortest().count()) pace_.was_stuck();
}

bool Dispatcher::nothing_left() const noexcept {
  return lane_.counters.pending_now() == 0 && in_handlers_ == 0 && lane_.completed.empty() &&
         lane_.closable == nullptr && ledger_.held_by_strands.load() == 0 &&
         std::none_of(processors_.begin(), processors_.end(),
                      [](const Processor* each) { return each->detaching != nullptr; });
}

void Dispatcher::leave(Member& me) {
  if (--members_ != 0) look_in_passing(me);
  if (members_ == 1) alone_at_ = lane_.counters.completed.get();
  const std::uint32_t held = me.seats;
  for_seats_of(me, [&](Processor& processor) { give_up_seat(me, processor); });
  drop_timekeeping(me);
  look_round();
  if (held == 0) return;
  // The engine submits what the handlers have started at its next wait, which may never come.
  ledger_.mutex().unlock(system_);
  for (Processor* processor : processors_) {
    if ((held & bit(*processor)) != 0 && processor->info.start_from_any_thread) {
      processor->engine->flush();
    }
  }
  ledger_.mutex().lock(system_);
}

// Waits in the engine (or engines) whose seats this thread holds, and queues the results.
void Dispatcher::lead(Member& me, Deadline deadline) {
  me.keeps_notes = false;
  OperationQueue finished;
  for_seats_of(me, [&](Processor& processor) {
    if (processor.needs_leader()) ledger_.serve_as_leader(lane_, processor, finished);
  });
  const bool more_may_wait = run_closures();
  if (BATON_UNLIKELY(!finished.empty())) ledger_.take_back_all(lane_, finished);
  // Three things come first: handlers that are due, an empty seat, and anything that came while the
  // mutex was free. That may be a stop, or a start for this leader, which was not interrupted
  // because it was awake. In these cases it only polls the engine and stays awake.
  if (!lane_.completed.empty() || more_may_wait || drained()) deadline = Deadline::immediately();
  Deadline until = deadline;
  const bool waits = deadline != Deadline::immediately();
  if (waits) {
    take_timekeeping(me);
    if (!lane_.timers.empty() && timekeeper_ == &me) {
      until = std::min(until, lane_.timers.nearest());
    }
    if (only_ == nullptr) until = std::min(until, begin_watch(me));
    set_seats(me, SeatState::waiting);
    ++resting_;
    if (!is_alone()) look_round();
  }
  const std::size_t brought =
      BATON_LIKELY(only_ != nullptr) ? wait_in(*only_, until) : wait_in_seats(me, until);
  if (waits) --resting_;
  if (BATON_UNLIKELY(me.watches)) end_watch(me);
  drop_timekeeping(me);
  // No thread takes the seat of a leader that waits, so it is still ours.
  set_seats(me, SeatState::awake);
  lane_.note_wait(brought);
}

// With as many threads as processors each thread leads one, and none is left to be standby. Then
// a leader that waits looks at the others, as long as something moves there. Returns when its wait
// ends for a look.
Deadline Dispatcher::begin_watch(Member& me) {
  me.watches = standby_ == nullptr && sleepers_ == nullptr && !is_alone() &&
               (leader_in_handler() || (me.keeps_watch && moved(me)));
  if (!me.watches) {
    me.keeps_watch = false;
    return Deadline::never();
  }
  // Events in between must not put the look off for ever.
  if (!me.keeps_watch) note(me);
  me.keeps_watch = true;
  ++watchers_;
  return next_look(me);
}

void Dispatcher::end_watch(Member& me) {
  me.watches = false;
  --watchers_;
  if (ledger_.now() < next_look(me)) return;
  me.keeps_watch = !take_stuck_seats(me) && moved(me);
  if (!me.keeps_watch) return;
  note(me);
  pace_.all_moved();
}

// True if a leader has moved since the member's notes.
bool Dispatcher::moved(const Member& me) const noexcept {
  return std::any_of(processors_.begin(), processors_.end(), [&me](const Processor* processor) {
    return processor->seat.count != me.notes.mark[processor->index];
  });
}

// Returns the number of operations it has brought.
inline std::size_t Dispatcher::wait_in(Processor& led, Deadline until) {
  OperationQueue batch;
  ledger_.mutex().unlock(system_);
  led.engine->wait(batch, until);
  ledger_.mutex().lock(system_);
  return take_in(led, batch);
}

std::size_t Dispatcher::wait_in_seats(const Member& me, Deadline until) {
  Processor* held[limits::processors_max];
  std::size_t count = 0;
  for_seats_of(me, [&](Processor& processor) { held[count++] = &processor; });
  if (count == 1) return wait_in(*held[0], until);
  const std::span<Processor* const> led{held, count};
  OperationQueue batches[limits::processors_max];
  // interrupt_leader marks the seat before it interrupts.
  const auto asked = [&] {
    return std::any_of(led.begin(), led.end(), [](const Processor* processor) {
      return processor->seat.interrupted.load(std::memory_order_seq_cst);
    });
  };
  ledger_.mutex().unlock(system_);
  merged_wait(led, std::span{batches, led.size()}, until, asked, system_);
  ledger_.mutex().lock(system_);
  std::size_t brought = 0;
  for (std::size_t i = 0; i < led.size(); ++i) brought += take_in(*led[i], batches[i]);
  return brought;
}

inline std::size_t Dispatcher::take_in(Processor& led, OperationQueue& batch) noexcept {
  // relaxed: written under the mutex, and read without it only while this leader waits.
  led.seat.interrupted.store(false, std::memory_order_relaxed);
  const std::size_t brought = batch.size();
  ledger_.account(led, brought);
  if (BATON_LIKELY(lane_.completed.empty())) {
    lane_.completed.splice_back(batch);
    ledger_.take_back_queued(lane_);
    ledger_.take_back_behind(lane_);
  } else {
    ledger_.take_back_all(lane_, batch);
  }
  return brought;
}

// Sleeps until woken: as the standby with a timeout if the role is free, else without one.
void Dispatcher::rest(Member& me, Deadline deadline, bool& late) {
  check_seats(me);
  if (ended(me)) return;  // it came while the mutex was free
  if (standby_ == nullptr) {
    standby_ = &me;
    me.rest = Rest::standby;
    if (!me.keeps_notes) note(me);
  } else {
    push_sleeper(me);
  }
  me.keeps_notes = false;
  take_timekeeping(me);
  ++resting_;
  look_round();
  for (;;) {
    // Again in each round: the timekeeper of the round before may be in a handler now.
    take_timekeeping(me);
    Deadline until = deadline;
    if (timekeeper_ == &me) until = std::min(until, lane_.timers.nearest());
    if (me.rest == Rest::standby) {
      until = std::min(until, next_look(me));
    }
    ledger_.mutex().unlock(system_);
    me.slot.park(system_, until);
    ledger_.mutex().lock(system_);
    if (me.rest == Rest::signalled) {
      lane_.clock.set(system_.monotonic_coarse_ns());
      --coming_;
      me.rest = Rest::awake;
      break;
    }
    const Deadline now = ledger_.now();
    late = !deadline.is_never() && now >= deadline;
    const bool timers_due = timekeeper_ == &me && lane_.timers.nearest() <= now;
    const bool look_due = me.rest == Rest::standby && now >= next_look(me);
    if (late || ended(me) || (timers_due && !look_due)) {
      // Timers that are due more often than it looks must not put its look off for ever.
      me.keeps_notes = me.rest == Rest::standby;
      if (me.rest == Rest::standby) standby_ = nullptr;
      if (me.rest == Rest::asleep) remove_sleeper(me);
      me.rest = Rest::awake;
      break;
    }
    if (look_due && look(me)) break;
  }
  --resting_;
  drop_timekeeping(me);
}

Deadline Dispatcher::next_look(const Member& me) const noexcept {
  return Deadline::after(pace_.now(), me.notes.looked);
}

// Writes down the counts that the next look compares with.
void Dispatcher::note(Member& me) {
  for (Processor* processor : processors_) me.notes.mark[processor->index] = processor->seat.count;
  me.notes.queue_mark = taken_ + lane_.completed.size();
  me.notes.looked = ledger_.now();
}

// Takes the wanted seats of leaders that are in a handler. Takes all of them, because this thread
// will wait in one engine and would leave the others without a leader. Returns their number.
template <class Wanted>
unsigned Dispatcher::take_seats_from_handlers(Member& me, Wanted wanted) noexcept {
  unsigned taken = 0;
  for (Processor* processor : processors_) {
    const Seat& seat = processor->seat;
    if (processor->mode == Mode::dedicated || !seat.is(SeatState::in_handler) ||
        seat.holder.load(std::memory_order_relaxed) == me.number || !wanted(*processor)) {
      continue;
    }
    take_seat(me, *processor);
    ++taken;
  }
  return taken;
}

// Takes the seats of leaders that are in the same handler as at the last look.
bool Dispatcher::take_stuck_seats(Member& me) {
  const unsigned taken = take_seats_from_handlers(me, [&me](const Processor& processor) {
    return processor.seat.count == me.notes.mark[processor.index];
  });
  if (taken == 0) return false;
  lane_.counters.seats_taken.add(taken);
  lane_.counters.slow_handlers.add();  // here, because the handler may never return
  pace_.was_stuck();
  return true;
}

// Threads that are here for a moment - poll(), or a deadline that is near - leave before a look of
// theirs is due. So one that leaves looks, too, with notes that outlast its stay. A seat that it
// takes is vacant then, for a thread that is woken or the next that comes.
void Dispatcher::look_in_passing(Member& me) {
  if (standby_ != nullptr || !leader_in_handler()) return;
  me.notes = passing_;
  const bool same =
      std::any_of(processors_.begin(), processors_.end(), [&me](const Processor* led) {
        return led->seat.is(SeatState::in_handler) && led->seat.count == me.notes.mark[led->index];
      });
  if (same && (ledger_.now() < next_look(me) || !take_stuck_seats(me))) return;
  note(me);
  passing_ = me.notes;
}

void Dispatcher::count_at_all_seats() noexcept {
  for (Processor* processor : processors_) ++processor->seat.count;
}

// The standby's look, one critical section. True: there is something to do.
bool Dispatcher::look(Member& me) {
  if (take_stuck_seats(me)) {
    standby_ = nullptr;
    me.rest = Rest::awake;
    return true;
  }
  // Help if some results that were queued at the last look are still queued.
  const bool old = taken_ < me.notes.queue_mark;
  if (!lane_.completed.empty() && (old || urgent())) {
    if (old) pace_.was_stuck();
    standby_ = nullptr;
    me.rest = Rest::awake;
    me.helps = true;
    note(me);
    return true;
  }
  const bool traffic = leader_busy() || moved(me);
  note(me);
  if (traffic) {
    pace_.all_moved();
    return false;
  }
  // Nothing moves: give up the role and sleep without a timeout, in the same step.
  standby_ = nullptr;
  push_sleeper(me);
  return false;
}

// Between handlers a helper looks as the standby would, because it may be the only thread that
// can. A stuck leader loses its seat. Helping ends when the old results are gone.
bool Dispatcher::helped_enough(Member& me) {
  if (ledger_.now() < Deadline::after(pace_.shortest(), me.notes.looked)) return false;
  if (take_stuck_seats(me)) return true;
  const bool all_taken = taken_ >= me.notes.queue_mark;
  note(me);
  return all_taken && !help_pays();
}

// -- seats ----------------------------------------------------------------------------------------

bool Dispatcher::can_lead(const Processor& processor) const noexcept {
  return processor.mode != Mode::dedicated &&
         processor.seat.holder.load(std::memory_order_relaxed) == 0 && processor.has_work();
}

// Takes the first free seat, or all free seats if no other thread is there to lead.
void Dispatcher::take_seats(Member& me) noexcept {
  give_up_idle_seats(me);
  for (Processor* processor : processors_) {
    if (!can_lead(*processor)) continue;
    if (me.seats != 0 && (sleepers_ != nullptr || standby_ != nullptr || coming_ > 0)) break;
    take_seat(me, *processor);
  }
}

void Dispatcher::take_seat(Member& me, Processor& processor) noexcept {
  me.seats |= bit(processor);
  Seat& seat = processor.seat;
  // seq_cst: ordered before the engine's own lock in the wait that follows (see leads()).
  seat.holder.store(me.number, std::memory_order_seq_cst);
  seat.state.store(SeatState::awake);
  ++seat.count;
  lane_.counters.leader_changes.add();
  BATON_PROBE2(leader_change, processor.index, me.number);
}

// A handler of this thread has called turn(). The outer turn needs its seats only after this one,
// so this one takes them.
void Dispatcher::take_over_own_seats(Member& me) noexcept {
  for (const Inside* inside = inside_chain(); inside != nullptr; inside = inside->outer) {
    if (inside->dispatcher != this) continue;
    for (Processor* processor : processors_) {
      const Seat& seat = processor->seat;
      if (seat.holder.load(std::memory_order_relaxed) == inside->number) take_seat(me, *processor);
    }
  }
}

void Dispatcher::give_up_seat(Member& me, Processor& processor) noexcept {
  me.seats &= ~bit(processor);
  Seat& seat = processor.seat;
  if (seat.holder.load(std::memory_order_relaxed) != me.number) return;  // taken meanwhile
  seat.holder.store(0, std::memory_order_seq_cst);
  seat.state.store(SeatState::vacant);
  ++seat.count;
}

void Dispatcher::give_up_idle_seats(Member& me) noexcept {
  for_seats_of(me, [&](Processor& processor) {
    if (!processor.has_work()) give_up_seat(me, processor);
  });
}

// -- the look round -------------------------------------------------------------------------------

bool Dispatcher::unled() const noexcept {
  return std::any_of(processors_.begin(), processors_.end(),
                     [this](const Processor* processor) { return can_lead(*processor); });
}

// The first shared processor whose seat the test wants, or null.
template <class Test>
Processor* Dispatcher::find_seat(Test test) const noexcept {
  for (Processor* processor : processors_) {
    if (processor->mode != Mode::dedicated && test(processor->seat)) return processor;
  }
  return nullptr;
}

// A shared leader is in the dispatcher or in a handler, and comes back to the queue by itself.
bool Dispatcher::leader_busy() const noexcept {
  return find_seat(
      [](const Seat& seat) { return seat.is(SeatState::awake) || seat.is(SeatState::in_handler); });
}

bool Dispatcher::leader_in_handler() const noexcept {
  return find_seat([](const Seat& seat) { return seat.is(SeatState::in_handler); });
}

bool Dispatcher::leader_asked() const noexcept {
  return find_seat(
      [](const Seat& seat) { return seat.interrupted.load() && seat.is(SeatState::waiting); });
}

// There is work that no thread will notice without being woken.
bool Dispatcher::overlooked() const noexcept {
  return unled() || (!lane_.completed.empty() && !leader_busy()) || timers_uncovered();
}

bool Dispatcher::urgent() const noexcept { return overlooked() || help_pays(); }

// A leader of a team is in a handler, and no waiting leader watches it.
bool Dispatcher::unwatched() const noexcept {
  return only_ == nullptr && watchers_ == 0 && leader_in_handler();
}

// A busy leader would come to the queue by itself, but late.
bool Dispatcher::help_pays() const noexcept {
  return length_.worth_a_thread(lane_.completed.size());
}

// There are timers, and no thread that sleeps, waits or looks will wake up for them.
bool Dispatcher::timers_uncovered() const noexcept {
  return !lane_.timers.empty() && timekeeper_ == nullptr && standby_ == nullptr && !leader_busy();
}

void Dispatcher::wake_as_needed(bool needed) {
  if (needed || (leader_in_handler() && standby_ == nullptr)) {
    if (coming_ > 0) {
      lane_.counters.wakes_suppressed.add();
      return;
    }
    if (sleepers_ != nullptr) {
      wake_follower();
      return;
    }
    if (needed && standby_ != nullptr) {
      wake_standby();
      return;
    }
  }
  // A leader that waits also takes seats that no other thread can take, and watches.
  if (coming_ == 0 && sleepers_ == nullptr && standby_ == nullptr &&
      (needed || !lane_.completed.empty() || unwatched())) {
    ask_a_leader();
  }
}

void Dispatcher::look_round_for_followers() {
  if (!urgent() || coming_ > 0) return;
  if (sleepers_ != nullptr) {
    wake_follower();
  } else if (standby_ != nullptr) {
    wake_standby();
  }
}

void Dispatcher::wake_one() {
  if (sleepers_ != nullptr) {
    wake_follower();
  } else if (standby_ != nullptr) {
    wake_standby();
  } else {
    ask_a_leader();
  }
}

void Dispatcher::wake_follower() noexcept {
  Member& member = *sleepers_;  // last in, first out: its cache is the warmest
  remove_sleeper(member);
  lane_.counters.followers_woken.add();
  signal(member);
}

void Dispatcher::wake_standby() noexcept {
  Member& member = *standby_;
  standby_ = nullptr;
  lane_.counters.followers_woken.add();
  signal(member);
}

void Dispatcher::ask_a_leader() noexcept {
  if (leader_asked()) {
    lane_.counters.interrupts_suppressed.add();
    return;
  }
  Processor* const led = find_seat([](const Seat& seat) { return seat.is(SeatState::waiting); });
  if (led != nullptr) interrupt_leader(*led);
}

void Dispatcher::interrupt_leader(Processor& processor) {
  if (processor.mode != Mode::dedicated) {
    if (!processor.seat.is(SeatState::waiting)) return;
    if (processor.seat.interrupted.exchange(true, std::memory_order_seq_cst)) {
      lane_.counters.interrupts_suppressed.add();
      return;
    }
  }
  lane_.counters.interrupts_sent.add();
  BATON_PROBE2(interrupt_sent, processor.index, lane_.index);
  processor.engine->interrupt();
}

// -- timers ---------------------------------------------------------------------------------------

void Dispatcher::take_timekeeping(Member& me) noexcept {
  if (timekeeper_ == nullptr) {
    timekeeper_ = &me;
    me.timekeeper = true;
  }
}

void Dispatcher::drop_timekeeping(Member& me) noexcept {
  if (timekeeper_ == &me) timekeeper_ = nullptr;
  me.timekeeper = false;
}

void Dispatcher::timer_added(Deadline deadline) {
  // Another timer is nearer, so the timekeeper wakes up early enough.
  if (lane_.timers.nearest() < deadline) return;
  if (timekeeper_ != nullptr) wake_timekeeper();
  look_round();
}

// Makes the timekeeper compute its wait again, because it is too long now.
void Dispatcher::wake_timekeeper() noexcept {
  Member& member = *timekeeper_;
  if (member.seats != 0) {
    for (Processor* processor : processors_) {
      if ((member.seats & bit(*processor)) == 0) continue;
      interrupt_leader(*processor);
      return;
    }
  }
  if (member.rest == Rest::signalled || member.rest == Rest::awake) return;  // on its way
  member.keeps_notes = member.rest == Rest::standby;
  if (member.rest == Rest::standby) standby_ = nullptr;
  if (member.rest == Rest::asleep) remove_sleeper(member);
  signal(member);
}

void Dispatcher::signal(Member& member) noexcept {
  member.rest = Rest::signalled;
  ++coming_;
  ledger_.mutex().wake_when_free(member.slot.signal(), system_);
}

// -- sleepers -------------------------------------------------------------------------------------

void Dispatcher::push_sleeper(Member& me) noexcept {
  me.rest = Rest::asleep;
  me.previous = nullptr;
  me.next = sleepers_;
  if (sleepers_ != nullptr) sleepers_->previous = &me;
  sleepers_ = &me;
}

void Dispatcher::remove_sleeper(Member& me) noexcept {
  (me.previous != nullptr ? me.previous->next : sleepers_) = me.next;
  if (me.next != nullptr) me.next->previous = me.previous;
  me.next = me.previous = nullptr;
}

// -- closing, stopping ----------------------------------------------------------------------------

bool Dispatcher::close_handles() {
  bool was_free = false;
  while (Handle* handle = ledger_.next_closable(lane_)) {
    if (ledger_.submit_close(lane_, *handle)) continue;
    int error = 0;
    if (handle->owned()) {
      // Not under the mutex: close(2) wakes the peer and may take a while. No other thread has the
      // handle.
      const NativeHandle native = handle->native();
      was_free = true;
      ledger_.mutex().unlock(system_);
      if (system_.close(native) != 0 && errno != EINTR) error = errno;
      ledger_.mutex().lock(system_);
    }
    ledger_.closed(lane_, *handle, error);
  }
  return was_free || unled();
}

// A leader that is awake may be in the engine, too: it polls, or closes handles before its wait.
// One in a handler serves the cancels before it enters the engine again.
void Dispatcher::wait_for_cancels() {
  for (const Processor* processor : processors_) {
    const Seat& seat = processor->seat;
    const std::uint32_t served = processor->cancels_served;
    while (BATON_UNLIKELY(processor->cancelling) && processor->cancels_served == served &&
           (seat.is(SeatState::awake) || seat.is(SeatState::waiting))) {
      ledger_.mutex().unlock(system_);
      system_.yield();
      ledger_.mutex().lock(system_);
    }
  }
}

void Dispatcher::stop_locked() noexcept {
  stopped_.store(true, std::memory_order_release);
  ++stops_;
  while (sleepers_ != nullptr) wake_follower();
  if (standby_ != nullptr) wake_standby();
  for (Processor* processor : processors_) {
    if (processor->mode != Mode::dedicated) interrupt_leader(*processor);
  }
}

void Dispatcher::restart() noexcept { stopped_.store(false, std::memory_order_release); }

// -- dedicated processors -------------------------------------------------------------------------

int Dispatcher::start_threads(Deliver deliver, void* context) {
  deliver_ = deliver;
  deliver_context_ = context;
  for (Processor* processor : processors_) {
    if (processor->mode != Mode::dedicated) continue;
    // Listed before it is started, because a thread that is not listed would never be joined.
    DedicatedThread& thread = *threads_.emplace_back(std::make_unique<DedicatedThread>());
    thread.dispatcher = this;
    thread.processor = processor;
    const int error = system_.thread_start(&thread.thread, dedicated_entry, &thread);
    if (error != 0) return error;
    thread.running = true;
  }
  return 0;
}

void Dispatcher::stop_threads() {
  threads_ending_.store(true, std::memory_order_release);
  for (const auto& thread : threads_) thread->processor->engine->interrupt();
  for (const auto& thread : threads_) {
    if (thread->running) system_.thread_join(thread->thread);
    thread->running = false;
  }
  threads_.clear();
}

// Also inside a handler. Another thread may never come back from one, and holds no seat then.
void Dispatcher::end_engines(Deadline until) {
  constexpr Duration pause = std::chrono::milliseconds{1};
  ledger_.mutex().lock(system_);
  if (++next_member_ == 0) ++next_member_;
  ++members_;
  Member me{next_member_, stops_};
  const Inside link{this, me.number, inside_chain()};
  take_over_own_seats(me);
  set_inside_chain(&link);
  const auto holds_something = [](const Processor* each) { return each->started > 0; };
  while (std::any_of(processors_.begin(), processors_.end(), holds_something)) {
    const Deadline now = ledger_.now();
    if (now >= until) break;
    take_seats(me);
    take_seats_from_handlers(me, [](const Processor& led) { return led.has_work(); });
    if (me.seats != 0) {
      lead(me, Deadline::after(pause, now));
    } else {  // it is with a thread of its own, or one that comes out of its engine
      ledger_.mutex().unlock(system_);
      system_.yield();
      ledger_.mutex().lock(system_);
    }
  }
  set_inside_chain(link.outer);
  leave(me);
  ledger_.mutex().unlock(system_);
}

void Dispatcher::dedicated_entry(void* argument) {
  auto& thread = *static_cast<DedicatedThread*>(argument);
  thread.dispatcher->dedicated_loop(*thread.processor);
}

// Hands what a dedicated processor has finished to the threads in run().
void Dispatcher::hand_over(OperationQueue& finished) {
  if (deliver_ != nullptr) {
    if (!finished.empty()) deliver_(deliver_context_, finished);
    return;
  }
  ledger_.take_back_all(lane_, finished);
  run_closures();
  if (drained()) runner_.lane_is_quiet(lane_);
  look_round();  // level STRONG: also a waiting shared leader is asked
}

// The permanent leader (paper 000 section 7.2): starts deferred operations, waits, hands over.
void Dispatcher::dedicated_loop(Processor& processor) {
  ledger_.mutex().lock(system_);
  if (++next_member_ == 0) ++next_member_;
  const Inside link{this, next_member_, nullptr};
  set_inside_chain(&link);
  processor.seat.holder.store(link.number, std::memory_order_seq_cst);
  processor.seat.state.store(SeatState::awake);
  while (!threads_ending_.load(std::memory_order_acquire) || processor.started > 0) {
    OperationQueue finished;
    ledger_.serve_as_leader(lane_, processor, finished);
    hand_over(finished);
    OperationQueue batch;
    processor.seat.state.store(SeatState::waiting);
    ledger_.mutex().unlock(system_);
    processor.engine->wait(batch, Deadline::never());
    const std::int64_t now = system_.monotonic_coarse_ns();
    ledger_.mutex().lock(system_);
    lane_.clock.set(now);
    processor.seat.state.store(SeatState::awake);
    lane_.counters.note_wait(batch.size());
    ledger_.account(processor, batch);
    hand_over(batch);
  }
  processor.seat.holder.store(0, std::memory_order_seq_cst);
  processor.seat.state.store(SeatState::vacant);
  ledger_.mutex().unlock(system_);
  set_inside_chain(nullptr);
}

}  // namespace baton
