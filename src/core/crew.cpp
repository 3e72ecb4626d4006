// Coming, leading and leaving; finding a leader for a lane without one.
#include "core/crew.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <span>
#include <string>
#include <utility>

#include "base/assert.hpp"
#include "baton/driving_refused.hpp"
#include "baton/misuse.hpp"
#include "core/merged_wait.hpp"
#include "core/runner.hpp"

namespace baton {
namespace {

using namespace std::chrono_literals;

// Threads that are started together come within this time; until then each lane may get one.
constexpr Duration arrival = 20ms;
// How long a lane waits for its own thread before the lack of one is an error. Threads that are
// started together come late on a busy machine.
constexpr Duration refusal = 10s;

[[noreturn]] void refuse(const Ledger& ledger, const LaneLoop& loop) {
  throw DrivingRefused(
      ledger, errc::wrong_thread,
      "lane " + std::to_string(loop.lane_index()) +
          " has work and no thread of its own, and this thread cannot lead it besides: with "
          "profile=pinned an engine is bound to its thread, and else another ring could not be "
          "opened (RLIMIT_NOFILE, a filter of system calls). Have as many threads in run() as "
          "`threads` says, or take profile=any");
}

}  // namespace

CrewMember::~CrewMember() {
  if (crew.runner_.forked() || leads.none()) return;
  crew.for_each(*this, [&](LaneLoop& loop) {
    if (loop.claim()) loop.leave(for_good);
  });
  crew.member_left(for_good);
}

std::size_t Crew::turn(Deadline deadline, std::size_t handlers_max, bool return_after_handlers,
                       bool for_good) {
  const LaneLoop::Inside* const here = LaneLoop::innermost(ledger_);
  if (here == nullptr) return visit(deadline, handlers_max, return_after_handlers, for_good);
  CrewMember* const member = here->loop->member();
  // In the proactor's destructor there is no crew.
  if (member == nullptr) return here->loop->turn(deadline, handlers_max, return_after_handlers);
  if (member->stay == nullptr || !member->stay->is(here)) {
    struct Nested {
      CrewMember& member;
      ~Nested() {
        --member.depth;
        member.crew.outer_turn_regroups(member);
      }
    } const nested{*member};
    ++member->depth;
    return drive(*member, deadline, handlers_max, return_after_handlers);
  }
  struct Call {
    CrewMember& member;
    ~Call() { member.crew.go_away(member); }
  } const call{*member};
  come_again(*member);
  const std::size_t ran = drive(*member, deadline, handlers_max, return_after_handlers);
  if (ran == 0) nothing_ran(*member);
  return ran;
}

// The handler's own turn may be one that waits in the home alone. It ends if this call has taken
// another lane, or has left one for later.
void Crew::outer_turn_regroups(CrewMember& member) noexcept {
  if (runner_.forked() || member.home == nullptr) return;
  if (member.leads_one() && member.look_again.is_never()) return;
  member.home->ask_to_regroup();
}

// A thread that is not attached comes and leaves with each call.
std::size_t Crew::visit(Deadline deadline, std::size_t handlers_max, bool return_after_handlers,
                        bool for_good) {
  CrewMember member{*this, stops_.load(std::memory_order_seq_cst)};
  const std::size_t ran = drive(member, deadline, handlers_max, return_after_handlers);
  member.for_good = for_good;  // not where a handler throws: that thread is expected to go on
  return ran;
}

// The count goes last: a thread that has read it beforehand leaves by it, and one that comes later
// takes the mark of its lane away.
void Crew::stop() noexcept {
  for (const auto& loop : loops_) loop->stop();
  stops_.fetch_add(1, std::memory_order_seq_cst);
  call_standby(~0U >> 1);
}

// -- coming ---------------------------------------------------------------------------------------

AttachedMember::AttachedMember(Crew& crew)
    : member_(crew, crew.stops_.load(std::memory_order_seq_cst)) {
  member_.for_good = true;
  if (!crew.take_home(Deadline::immediately(), member_)) return;
  stay_.emplace(*member_.home);
  member_.stay = &*stay_;
  crew.attached_.fetch_add(1, std::memory_order_relaxed);
}

AttachedMember::~AttachedMember() {
  if (!has_lane() || member_.crew.runner_.forked()) return;
  if (!stay_->may_end()) {
    detail::misused(
        "an Attachment was ended by another thread or inside a handler: end it in the thread that "
        "attached, between its calls");
  }
  member_.crew.attached_.fetch_sub(1, std::memory_order_relaxed);
}

// The member is like one that has just entered: see LaneLoop::enter and stop().
inline void Crew::come_again(CrewMember& member) noexcept {
  member.stops = stops_.load(std::memory_order_seq_cst);
  member.home->set_away(false);
  if (member.settled) return member.home->forget_stop();
  for_each(member, [](LaneLoop& loop) { loop.forget_stop(); });
}

// False: the deadline, or a stop.
bool Crew::take_home(Deadline deadline, CrewMember& member) {
  if (first_came_ns_.load(std::memory_order_relaxed) == 0) {
    first_came_ns_.store(ledger_.now().ns(), std::memory_order_relaxed);
  }
  LaneLoop* home = take_free(member);
  if (home == nullptr) {
    if (std::any_of(loops_.begin(), loops_.end(), [](const auto& loop) { return loop->kept(); })) {
      throw DrivingRefused(ledger_, errc::wrong_thread,
                           "the processor is pinned to the thread that has driven it before: "
                           "drive it there, or take profile=any");
    }
    if (deadline != Deadline::immediately()) home = stand_by(deadline, member);
  }
  member.home = home;
  if (home != nullptr) member.leads.set(home->lane_index());
  return home != nullptr;
}

LaneLoop* Crew::stand_by(Deadline deadline, CrewMember& member) noexcept {
  standby_.fetch_add(1, std::memory_order_seq_cst);
  LaneLoop* home = nullptr;
  for (;;) {
    const std::uint32_t seen = changes_.load(std::memory_order_seq_cst);
    home = take_free(member);
    if (home != nullptr || stopped(member)) break;
    ask_for_lane();
    if (ledger_.now() >= deadline) break;
    ledger_.system().futex_wait(&changes_, seen, deadline.ns());
  }
  // This thread may have been left a lane or taken a call that it does not use: others look.
  standby_.fetch_sub(1, std::memory_order_seq_cst);
  if (!call_standby(1) && home == nullptr) look_round();
  return home;
}

// Takes the lane that this thread has left, else one that needs a thread, else any free one, else a
// loaned one.
LaneLoop* Crew::take_free(CrewMember& member) noexcept {
  const auto enter_one = [&](auto&& wanted) -> LaneLoop* {
    for (const auto& loop : loops_) {
      if (wanted(*loop) && loop->enter(&member, LaneLoop::Led::at_home)) return loop.get();
    }
    return nullptr;
  };
  LaneLoop* home =
      enter_one([](const auto& loop) { return !loop.driven() && loop.was_left_by_this_thread(); });
  if (home == nullptr) home = enter_one([](const auto& loop) { return loop.needs_leader(); });
  if (home == nullptr) home = enter_one([](const auto& loop) { return !loop.driven(); });
  if (home == nullptr) home = enter_one([](const auto& loop) { return loop.driven(); });
  return home;
}

void Crew::ask_for_lane() noexcept {
  for (const auto& loop : loops_) {
    if (loop->led() == LaneLoop::Led::besides) {
      loop->ask_to_regroup();
      return;
    }
  }
}

// No handler has set the clock, and perhaps no turn has looked whether the lane is quiet.
void Crew::nothing_ran(CrewMember& member) noexcept {
  if (runner_.forked()) return;
  member.home->end_calls();
  member.home->set_clock();
}

inline void Crew::go_away(CrewMember& member) noexcept {
  if (runner_.forked()) return;
  member.home->set_away(true);
  if (BATON_UNLIKELY(!member.settled || member.home->is_asked())) keep_home_only(member);
}

// Between its calls an attached thread keeps no lane but its home. Lanes that it was asked for are
// left to other threads, as when a member leaves.
void Crew::keep_home_only(CrewMember& member) noexcept {
  member.settled = false;
  for_each(member, [&](LaneLoop& loop) {
    if (&loop == member.home) return;
    member.leads.reset(loop.lane_index());
    if (loop.claim()) loop.leave(false);
  });
  member.home->regroups();
  member_left(false);
}

// -- leading --------------------------------------------------------------------------------------

inline std::size_t Crew::drive(CrewMember& member, Deadline deadline, std::size_t handlers_max,
                               bool return_after_handlers) {
  std::size_t ran = 0;
  for (;;) {
    if (!member.settled || member.home->is_asked()) {
      claim_all(member);
      if (member.home == nullptr && !take_home(deadline, member)) break;
      regroup(member);
      member.settled = false;
    }
    if (stopped(member)) break;  // not before lanes were entered: see LaneLoop::enter
    const bool alone = member.settled || (member.leads_one() && member.look_again.is_never());
    member.settled = alone && member.stay != nullptr;
    const std::size_t more = alone
                                 ? member.home->turn(deadline, handlers_max, return_after_handlers)
                                 : turn_all(member, handlers_max);
    ran += more;
    if (runner_.forked()) break;
    if (return_after_handlers && (ran > 0 || ledger_.now() >= deadline)) break;
    if (!alone && more == 0) wait(member, deadline);
  }
  return ran;
}

// Claims the lanes that it has loaned; forgets those that were taken meanwhile.
void Crew::claim_all(CrewMember& member) noexcept {
  LaneLoop* first = nullptr;
  for_each(member, [&](LaneLoop& loop) {
    if (!loop.claim()) {
      member.leads.reset(loop.lane_index());
      if (&loop == member.home) member.home = nullptr;
    } else if (first == nullptr) {
      first = &loop;
    }
  });
  if (member.home != nullptr || first == nullptr) return;
  member.home = first;
  first->be_home();
}

// Lanes whose handlers have called this stay: they are inside.
std::size_t Crew::turn_all(CrewMember& member, std::size_t handlers_max) {
  std::array<LaneLoop*, limits::lanes_max> lanes;
  std::size_t count = 0;
  for_each(member, [&](LaneLoop& loop) {
    lanes[count++] = &loop;
    if (!loop.mine()) loop.loan();
  });
  call_standby(1);  // one that has found them held
  // relaxed: a number. It is no number of the member, which may be a new one with each handler.
  const std::size_t first = rounds_.fetch_add(1, std::memory_order_relaxed);
  std::size_t ran = 0;
  for (std::size_t i = 0; i < count; ++i) {
    LaneLoop& loop = *lanes[(first + i) % count];
    const bool inside = loop.mine();
    if (!inside && !loop.claim()) continue;
    const std::size_t left = handlers_max == 0 ? 0 : handlers_max - ran;
    ran += loop.turn(Deadline::immediately(), left, true);
    if (runner_.forked()) break;
    if (!inside) loop.loan();
    if (handlers_max != 0 && ran == handlers_max) break;
  }
  return ran;
}

void Crew::regroup(CrewMember& member) {
  member.look_again = Deadline::never();
  for_each(member, [](LaneLoop& loop) { loop.regroups(); });
  give(member);
  take(member);
}

// Gives up lanes that have nothing to do any more, and one more if a thread stands by. A handler
// that has called turn() must not call this: it may run in one of these lanes.
void Crew::give(CrewMember& member) noexcept {
  if (member.depth > 0) return;
  bool wanted = standby_.load(std::memory_order_seq_cst) > 0;
  for_each(member, [&](LaneLoop& loop) {
    if (&loop == member.home || (!loop.at_rest() && !std::exchange(wanted, false))) return;
    member.leads.reset(loop.lane_index());
    loop.leave(true);
    call_standby(1);
  });
}

// Takes lanes that need a thread, unless a thread is about to come for them.
void Crew::take(CrewMember& member) {
  if (stopped(member)) return;
  if (standby_.load(std::memory_order_seq_cst) > 0) return leave_what_it_left();
  for (const auto& loop : loops_) {
    if (!loop->needs_leader()) continue;
    const Deadline now = ledger_.now();
    const Deadline from = loop->free_from(now);
    if (now < from) {
      member.look_again = std::min(member.look_again, from);
      continue;
    }
    const Deadline since = loop->unled_since(now);
    if (!take_besides(member, *loop)) {
      const Deadline end = Deadline::after(refusal, since);
      loop->waits_still(since);
      if (now >= end) {
        loop->wait_anew();  // threads that come after this error have their time
        refuse(ledger_, *loop);
      }
      member.look_again = std::min(member.look_again, end);
    }
  }
}

// This thread is back, but does not take all lanes that it had left. They wait for it no more.
void Crew::leave_what_it_left() noexcept {
  bool some = false;
  for (const auto& loop : loops_) {
    if (!loop->needs_leader() || !loop->was_left_by_this_thread() || loop->pinned()) continue;
    loop->wait_anew();
    some = true;
  }
  if (some) look_round();
}

// False: this thread cannot wait for it together with its own lane.
bool Crew::take_besides(CrewMember& member, LaneLoop& loop) {
  if (!member.home->unpin()) return false;
  if (!loop.enter(&member, LaneLoop::Led::besides)) return true;  // another was faster
  if (!loop.unpin()) {
    loop.leave(true);
    return false;
  }
  member.leads.set(loop.lane_index());
  return true;
}

void Crew::wait(CrewMember& member, Deadline deadline) noexcept {
  claim_all(member);
  if (member.home == nullptr) return;
  Deadline until = std::min(deadline, member.look_again);
  const bool watches = !member.look_again.is_never();
  if (watches) watching_.fetch_add(1, std::memory_order_seq_cst);
  if (member.leads_one()) {
    member.home->wait_alone(until);
  } else {
    for_each(member, [&](LaneLoop& loop) { until = loop.prepare_wait(until); });
    if (until != Deadline::immediately()) sleep(member, until);
    for_each(member, [](LaneLoop& loop) { loop.end_wait(); });
  }
  if (watches) watching_.fetch_sub(1, std::memory_order_seq_cst);
}

// Sleeps by descriptors. If an engine of a lane has none, it sleeps in that lane for a slice at a
// time, and the other lanes are polled in between.
void Crew::sleep(CrewMember& member, Deadline until) noexcept {
  std::array<Engine*, limits::lanes_max> engines;
  std::array<LaneLoop*, limits::lanes_max> lanes;
  std::size_t count = 0;
  LaneLoop* sliced = nullptr;
  for_each(member, [&](LaneLoop& loop) {
    for (Processor* processor : loop.processors()) {
      if (count == engines.size()) {
        sliced = &loop;
      } else {
        lanes[count] = &loop;
        engines[count++] = processor->engine.get();
      }
    }
  });
  if (sliced == nullptr) {
    const std::size_t found =
        sleep_by_descriptors(std::span{engines}.first(count), until, ledger_.system());
    if (found == count) return;
    sliced = lanes[found];
  }
  sliced->wait_in_engines(std::min(until, Deadline::after(wait_slice, ledger_.now())));
}

// -- finding a leader -----------------------------------------------------------------------------

// Threads that watch wait for a leader that is about to come back. They do not take its lane while
// another thread stands by for one.
void Crew::member_left(bool for_good) noexcept {
  if (for_good || watching_.load(std::memory_order_seq_cst) == 0) {
    look_round();
  } else {
    call_standby(1);
  }
}

void Crew::look_round() noexcept {
  if (call_standby(1)) return;
  const bool needed = std::any_of(loops_.begin(), loops_.end(),
                                  [](const auto& loop) { return loop->needs_leader(); });
  if (needed) find_leader();
}

// Asks one thread that sleeps, else all: the first that comes round takes the lane.
void Crew::find_leader() noexcept {
  if (call_standby(1)) return;
  const auto at_home = [](const auto& loop) { return loop->led() == LaneLoop::Led::at_home; };
  for (const auto& loop : loops_) {
    if (!at_home(loop) || !loop->sleeps()) continue;
    loop->ask_to_regroup();
    return;
  }
  for (const auto& loop : loops_) {
    if (at_home(loop)) loop->ask_to_regroup();
  }
}

// False: no thread stands by.
bool Crew::call_standby(std::uint32_t threads) noexcept {
  changes_.fetch_add(1, std::memory_order_seq_cst);
  if (standby_.load(std::memory_order_seq_cst) == 0) return false;
  ledger_.system().futex_wake(&changes_, threads);
  return true;
}

// -- homes ----------------------------------------------------------------------------------------

bool Crew::has_thread(std::uint32_t lane) noexcept {
  const LaneLoop& loop = *loops_[lane];
  if (loop.led() == LaneLoop::Led::at_home) return true;
  if (!loop.untouched() || all_came_.load(std::memory_order_relaxed)) return false;
  const std::int64_t first = first_came_ns_.load(std::memory_order_relaxed);
  if (first == 0 || ledger_.now() < Deadline::after(arrival, Deadline::at_ns(first))) return true;
  all_came_.store(true, std::memory_order_relaxed);
  return false;
}

std::uint32_t Crew::home_beside(std::uint32_t lane) const noexcept {
  const LaneLoop& loop = *loops_[lane];
  const CrewMember* const member = loop.member();
  return member != nullptr ? member->home->lane_index() : lane;
}

}  // namespace baton
