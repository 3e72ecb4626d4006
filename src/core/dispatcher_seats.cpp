// Seats: taken, given up, and taken from leaders that are in the same handler for too long.
#include "core/dispatcher.hpp"

#include <algorithm>

#include "base/probes.hpp"

namespace baton {

bool Dispatcher::holds(const Processor& processor, std::uint32_t number) noexcept {
  for (const Inside* inside = inside_chain(); inside != nullptr; inside = inside->outer) {
    if (inside->number != number) continue;
    const auto& all = inside->dispatcher->processors_;
    if (std::find(all.begin(), all.end(), &processor) != all.end()) return true;
  }
  return false;
}

bool Dispatcher::can_lead(const Processor& processor) const noexcept {
  return processor.mode != Mode::dedicated &&
         processor.seat.holder.load(std::memory_order_relaxed) == 0 && processor.has_work();
}

// Takes the first free seat, or all free seats if no other thread is there to lead.
void Dispatcher::take_seats(Member& me) noexcept {
  give_up_idle_seats(me);
  for (Processor* processor : processors_) {
    if (!can_lead(*processor)) continue;
    if (me.seats != 0 && (followers_.some_rest() || followers_.one_comes())) break;
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

// Takes the seats of leaders in handlers whose engines have something to wait for.
void Dispatcher::take_seats_with_work(Member& me) noexcept {
  take_seats_from_handlers(me, [](const Processor& led) { return led.has_work(); });
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

// -- the look -------------------------------------------------------------------------------------

// With as many threads as processors each thread leads one, and none is left to be standby. Then
// a leader that waits looks at the others, as long as something moves there. Returns when its wait
// ends for a look.
Deadline Dispatcher::begin_watch(Member& me) {
  me.watches = !followers_.some_rest() && !is_alone() &&
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

Deadline Dispatcher::next_look(const Member& me) const noexcept {
  return Deadline::after(pace_.now(), me.notes.looked);
}

// Writes down the counts that the next look compares with.
void Dispatcher::note(Member& me) {
  for (Processor* processor : processors_) me.notes.mark[processor->index] = processor->seat.count;
  me.notes.queue_mark = taken_ + lane_.completed.size();
  me.notes.looked = ledger_.now();
}

// Threads that are here for a moment - poll(), or a deadline that is near - leave before a look of
// theirs is due. So one that leaves looks, too, with notes that outlast its stay. A seat that it
// takes is vacant then, for a thread that is woken or the next that comes.
void Dispatcher::look_in_passing(Member& me) {
  if (followers_.standby() != nullptr || !leader_in_handler()) return;
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
    followers_.get_up(me);
    return true;
  }
  // Help if some results that were queued at the last look are still queued.
  const bool old = taken_ < me.notes.queue_mark;
  if (!lane_.completed.empty() && (old || urgent())) {
    if (old) pace_.was_stuck();
    followers_.get_up(me);
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
  followers_.fall_asleep(me);
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

}  // namespace baton
