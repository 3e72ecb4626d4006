// What a thread does in its turn: it leads, runs handlers, rests. tests/model/seat.pml is the model
// of the protocol of seats, followers and the standby.
#include "core/dispatcher.hpp"

#include <algorithm>
#include <utility>

#include "core/merged_wait.hpp"
#include "core/runner.hpp"

namespace baton {

using Access = OperationAccess;

Dispatcher::Dispatcher(Ledger& ledger, Lane& lane, HandlerRunner& runner, Duration look)
    : ledger_(ledger),
      lane_(lane),
      runner_(runner),
      system_(ledger.system()),
      clock_(system_, lane.clock, lane.counters.handler_ns_max, nullptr),
      pace_(look) {}

Dispatcher::~Dispatcher() { BATON_ASSERT(!followers_.some_rest()); }

void Dispatcher::add(Processor& processor) {
  processors_.push_back(&processor);
  only_ = processors_.size() == 1 ? &processor : nullptr;
  if (!processor.info.works_in_submit) length_.leader_works_for_all();
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
    const bool to_the_role = me.seats == 0 && !me.helps && !late &&
                             followers_.standby() == nullptr && !length_.lasts() &&
                             leader_in_handler() && !urgent();
    if (!to_the_role) {
      if (!lane_.completed.empty()) {
        // A helper watches the leader between its handlers while there is no standby.
        if (me.seats == 0 && !me.helps && followers_.standby() == nullptr && leader_in_handler()) {
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
        take_seats_with_work(me);
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
  if (followers_.standby() == nullptr) {
    followers_.stand_by(me);
    if (!me.keeps_notes) note(me);
  } else {
    followers_.fall_asleep(me);
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
    if (me.rest == Rest::woken) {
      lane_.clock.set(system_.monotonic_coarse_ns());
      followers_.arrived(me);
      break;
    }
    const Deadline now = ledger_.now();
    late = !deadline.is_never() && now >= deadline;
    const bool timers_due = timekeeper_ == &me && lane_.timers.nearest() <= now;
    const bool look_due = me.rest == Rest::standby && now >= next_look(me);
    if (late || ended(me) || (timers_due && !look_due)) {
      // Timers that are due more often than it looks must not put its look off for ever.
      me.keeps_notes = me.rest == Rest::standby;
      followers_.get_up(me);
      break;
    }
    if (look_due && look(me)) break;
  }
  --resting_;
  drop_timekeeping(me);
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

}  // namespace baton
