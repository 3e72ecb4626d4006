// Who leads a lane: a thread enters, leaves, lets go, takes over.
#include "core/lane_loop.hpp"

#include "core/merged_wait.hpp"
#include "core/runner.hpp"

namespace baton {

namespace {

using namespace std::chrono_literals;

// How long a lane waits for its own thread: one that has left a call like handle_events() and is
// about to come back, or one that has yet to come, before its engine is unbound for good.
constexpr Duration patience = 5ms;
constexpr Duration pinned_patience = 20ms;

}  // namespace

// Clears the mark of a stop before the caller looks whether the proactor is stopped. A stop writes
// the two in the other order, so the caller sees one of them.
bool LaneLoop::enter(CrewMember* member, Led how) noexcept {
  const std::uint64_t self = system_.thread_self();
  std::uint64_t seen = owner_.load(std::memory_order_seq_cst);
  do {
    if (seen != 0 && seen != self && (seen & loaned) == 0) return false;
    // acquire: what the last leader left behind is visible.
  } while (!owner_.compare_exchange_weak(seen, self, std::memory_order_seq_cst,
                                         std::memory_order_relaxed));
  ending_.store(0, std::memory_order_seq_cst);
  sleep_.wake_up();
  touched_.store(true, std::memory_order_relaxed);
  member_.store(member, std::memory_order_relaxed);
  led_.store(how, std::memory_order_seq_cst);
  return true;
}

// A pinned engine is unbound from its thread if it can be, else drained. It is not drained for a
// thread that is about to come back: that thread keeps the lane, if its end can be noticed.
void LaneLoop::leave(bool for_good) noexcept {
  if (runner_.forked()) return;
  BATON_ASSERT(driven());
  {
    // The engine submits what the handlers have started at its next wait, which may never come.
    const InEngines in{*this};
    for (Processor* processor : own_) processor->engine->flush();
  }
  member_.store(nullptr, std::memory_order_relaxed);
  left_by_.store(for_good ? 0 : system_.thread_self(), std::memory_order_relaxed);
  if (BATON_UNLIKELY(pinned()) && started() > 0 && !unpin()) {
    const auto at_end = [](void* self) { static_cast<LaneLoop*>(self)->its_thread_ends(); };
    if (!for_good && kept_lane_.keep(at_end, this)) {
      left_something_.store(true, std::memory_order_relaxed);
      led_.store(Led::kept, std::memory_order_seq_cst);
      return;
    }
    drain_pinned();
  }
  if (BATON_UNLIKELY(pinned())) kept_lane_.forget();
  let_go();
}

// The next leader may come at once, so only atomics are touched after this.
void LaneLoop::let_go() noexcept {
  if (quiet()) be_quiet();  // it may have been at work in a wait outside of turn()
  const bool rests = at_rest();
  left_something_.store(!rests, std::memory_order_relaxed);
  const bool comes_back = left_by_.load(std::memory_order_relaxed) != 0;
  unled_since_ns_.store(comes_back && !rests ? system_.monotonic_coarse_ns() : 0,
                        std::memory_order_relaxed);
  sleep_.go();
  led_.store(Led::no, std::memory_order_seq_cst);
  owner_.store(0, std::memory_order_seq_cst);
}

void LaneLoop::its_thread_ends() noexcept {
  drain_pinned();
  left_by_.store(0, std::memory_order_relaxed);
  let_go();
  if (has_something()) runner_.lane_needs_leader();
}

void LaneLoop::take_over() noexcept {
  kept_lane_.forget();
  owner_.store(system_.thread_self(), std::memory_order_relaxed);
  led_.store(Led::at_home, std::memory_order_relaxed);
  sleep_.wake_up();
}

Deadline LaneLoop::free_from(Deadline now) noexcept {
  if (was_left_by_this_thread()) return Deadline::immediately();
  if (!pinned() && unled_since_ns_.load(std::memory_order_relaxed) == 0) {
    return Deadline::immediately();
  }
  return Deadline::after(pinned() ? pinned_patience : patience, unled_since(now));
}

bool LaneLoop::unpin() noexcept {
  if (!pinned()) return true;
  const InEngines in{*this};
  for (Processor* processor : own_) {
    if (processor->info.leader_rule != LeaderRule::pinned) continue;
    OperationQueue finished;
    const bool done = processor->engine->unpin(finished);
    if (!finished.empty()) lane_.be_at_work();
    ledger_.account(*processor, finished);
    ledger_.take_back_all(lane_, finished);
    if (!done) return false;
  }
  pinned_.store(false, std::memory_order_relaxed);
  return true;
}

bool LaneLoop::has_something() const noexcept {
  return left_something_.load(std::memory_order_relaxed) || lane_.has_mail() ||
         lane_.requests.any();
}

bool LaneLoop::at_rest() const noexcept {
  return quiet() && lane_.timers.empty() && !lane_.requests.any();
}

void LaneLoop::cancel_and_close_everything() noexcept {
  const Inside link{this, inside_chain()};
  set_inside_chain(&link);
  take_mail();
  ledger_.close_everything(lane_);
  ledger_.cancel_everything(lane_);
  // Before a descriptor is closed. If an engine got the cancellation and the close together, the
  // close would complete the peer's operations before they are cancelled.
  for (Processor* processor : own_) processor->engine->flush();
  set_inside_chain(link.outer);
}

// No other thread can reap a pinned engine's operations, so they end before this thread leaves.
void LaneLoop::drain_pinned() noexcept { end_engines(Deadline::never()); }

void LaneLoop::end_engines(Deadline until) noexcept {
  const Inside link{this, inside_chain()};
  set_inside_chain(&link);
  take_mail();
  ledger_.cancel_all(lane_);  // the deadline of a drain stays: it is for the next leader
  while (started() > 0 && ledger_.now() < until) reap(until);
  run_closures();
  set_inside_chain(link.outer);
}

std::uint32_t LaneLoop::started() const noexcept {
  std::uint32_t sum = 0;
  for (const Processor* processor : own_) sum += processor->started;
  return sum;
}

LaneLoop::Stay::Stay(LaneLoop& loop) noexcept : link_{&loop, inside_chain(), true} {
  set_inside_chain(&link_);
  loop.set_away(true);
  loop.set_clock();
}

LaneLoop::Stay::~Stay() {
  link_.loop->set_away(false);
  take_out(link_);
}

// Links that were added later stay.
void LaneLoop::take_out_of_chain(const Inside& link) noexcept {
  const Inside* inner = inside_chain();
  while (inner->outer != &link) inner = inner->outer;
  inner->outer = link.outer;
}

bool LaneLoop::Stay::may_end() const noexcept {
  const Inside* link = inside_chain();
  while (link != nullptr && link->loop != link_.loop) link = link->outer;
  return link == &link_;
}

}  // namespace baton
