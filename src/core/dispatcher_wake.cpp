// The look round: which thread is woken, and for what.
#include "core/dispatcher.hpp"

#include <algorithm>

#include "base/probes.hpp"

namespace baton {

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
  return !lane_.timers.empty() && timekeeper_ == nullptr && followers_.standby() == nullptr &&
         !leader_busy();
}

void Dispatcher::wake_as_needed(bool needed) {
  if (needed || (leader_in_handler() && followers_.standby() == nullptr)) {
    if (followers_.one_comes()) {
      lane_.counters.wakes_suppressed.add();
      return;
    }
    if (wake_follower()) return;
  }
  // A leader that waits also takes seats that no other thread can take, and watches.
  if (!followers_.one_comes() && !followers_.some_rest() &&
      (needed || !lane_.completed.empty() || unwatched())) {
    ask_a_leader();
  }
}

void Dispatcher::look_round_for_followers() {
  if (urgent() && !followers_.one_comes()) wake_follower();
}

void Dispatcher::wake_one() {
  if (!wake_follower()) ask_a_leader();
}

// A sleeper, else the standby. False: none rests.
bool Dispatcher::wake_follower() noexcept {
  Member* const one = followers_.sleeper() != nullptr ? followers_.sleeper() : followers_.standby();
  if (one == nullptr) return false;
  lane_.counters.followers_woken.add();
  signal(*one);
  return true;
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
  if (member.rest == Rest::woken || member.rest == Rest::awake) return;  // on its way
  member.keeps_notes = member.rest == Rest::standby;
  signal(member);
}

void Dispatcher::signal(Member& member) noexcept {
  followers_.wake(member);
  ledger_.mutex().wake_when_free(member.slot.signal(), system_);
}

}  // namespace baton
