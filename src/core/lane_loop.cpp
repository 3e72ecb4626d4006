// A lane and its leader.
#include "core/lane_loop.hpp"

#include <errno.h>

#include <algorithm>
#include <new>

#include "base/probes.hpp"
#include "core/merged_wait.hpp"
#include "core/pending.hpp"
#include "core/runner.hpp"
#include "core/starter.hpp"
#include "os/thread_locals.hpp"

namespace baton {

using Access = OperationAccess;

namespace {

// Of a mailed operation: the newest request when it was started (LaneRequests), and the generation
// of its handle, whose record may serve another handle before the mail is read. The engine's
// private state is free until submit.
struct MailedState {
  LaneRequests::Number newest;
  std::uint32_t generation;
};

constexpr unsigned brief_turns_max = 8;

using namespace std::chrono_literals;

// How long a lane waits for its own thread: one that has left a call like handle_events() and is
// about to come back, or one that has yet to come, before its engine is unbound for good.
constexpr Duration patience = 5ms;
constexpr Duration pinned_patience = 20ms;

}  // namespace

LaneLoop::LaneLoop(Ledger& ledger, Lane& lane, HandlerRunner& runner) noexcept
    : ledger_(ledger),
      lane_(lane),
      runner_(runner),
      system_(ledger.system()),
      clock_(ledger.system(), lane.clock, lane.counters.handler_ns_max,
             &lane.counters.slow_handlers) {}

// -- leading --------------------------------------------------------------------------------------

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
// thread that is about to come back: that thread keeps the lane.
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
    if (!for_good) {
      left_something_.store(true, std::memory_order_relaxed);
      led_.store(Led::kept, std::memory_order_seq_cst);
      kept_lane_.keep([](void* self) { static_cast<LaneLoop*>(self)->its_thread_ends(); }, this);
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
void LaneLoop::take_out(const Inside& link) noexcept {
  if (BATON_LIKELY(inside_chain() == &link)) {
    set_inside_chain(link.outer);
    return;
  }
  const Inside* inner = inside_chain();
  while (inner->outer != &link) inner = inner->outer;
  inner->outer = link.outer;
}

bool LaneLoop::Stay::may_end() const noexcept {
  const Inside* link = inside_chain();
  while (link != nullptr && link->loop != link_.loop) link = link->outer;
  return link == &link_;
}

// -- a turn ---------------------------------------------------------------------------------------

// Runs handlers until it is time to poll the engine again. A poll may cost as much as twenty
// handlers that do next to nothing, so brief handlers get several batches. REQUIRES: one is queued,
// and `handlers_max` is not 0.
inline std::size_t LaneLoop::run_batch(std::size_t handlers_max) {
  const std::uint64_t begin = clock_.begin();
  std::uint64_t mark = begin;
  std::size_t most = std::min(handlers_max, lane_.handlers_before_look());
  std::size_t ran = 0;
  for (unsigned turns = 1;; ++turns) {
    do {
      const std::size_t more = run_some(std::min(most - ran, HandlerClock::handlers_max));
      if (BATON_LIKELY(more != 0)) mark = clock_.end(mark, more);  // they may all wait in strands
      ran += more;
    } while (!lane_.completed.empty() && ran < most && !ending());
    if (BATON_LIKELY(ran < most) || ran == handlers_max || turns == brief_turns_max ||
        lane_.completed.empty() || ending() || !clock_.were_brief(begin, mark)) {
      return ran;
    }
    most = std::min(handlers_max, most + limits::handlers_per_look);
  }
}

// Does not check whether there is a first one. REQUIRES: as above.
inline std::size_t LaneLoop::run_some(std::size_t handlers_max) {
  Lane& lane = lane_;
  HandlerRunner& runner = runner_;
  std::size_t left = handlers_max;
  try {
    do {
      Operation& operation = lane.completed.pop_front();
      if (BATON_LIKELY(Access::has(operation, Access::direct))) {
        lane.counters.completed.add();
        Ledger::handler_returned(lane, runner.run_direct(lane, operation, false));
      } else if (Access::has(operation, Access::handler_only)) {
        lane.counters.completed.add();
        runner.run_handler_only(lane, operation);
      } else {
        if (!operation.has(Operation::internal)) lane.counters.completed.add();
        if (BATON_UNLIKELY(!runner.arrives(lane, operation))) {
          ++left;  // it has not run
          continue;
        }
        ledger_.handler_returned(lane, runner.run(lane, operation, false));
      }
    } while (--left > 0 && !lane.completed.empty() && !ending());
  } catch (...) {
    lane.counters.exceptions.add();
    throw;
  }
  return handlers_max - left;
}

// Nothing is queued, so the engine puts its results into the lane's queue itself.
inline std::size_t LaneLoop::reap_from(Processor& processor, Deadline deadline) noexcept {
  Lane& lane = lane_;
  processor.engine->wait(lane.completed, deadline);
  lane_.be_at_work();
  const std::size_t brought = lane.completed.size();
  ledger_.account(processor, brought);
  ledger_.take_back_queued(lane);
  return brought;
}

void LaneLoop::reap(Deadline deadline) noexcept {
  std::size_t brought = 0;
  if (BATON_LIKELY(only_ != nullptr && lane_.completed.empty())) {
    brought = reap_from(*only_, deadline);
  } else {
    brought = reap_all(deadline);
  }
  lane_.note_wait(brought);
}

inline void LaneLoop::wait(Deadline deadline) noexcept {
  lane_.unlooked = 0;
  const InEngines in{*this};
  Processor* const only = only_;
  if (BATON_UNLIKELY(only == nullptr || !only->deferred.empty())) start_what_is_deferred();
  Lane& lane = lane_;
  if (BATON_UNLIKELY(!lane.completed.empty() || lane.closable != nullptr || in.served())) {
    reap(Deadline::immediately());
    return;
  }
  sleep_.fall_asleep();
  // seq_cst, all of them: see sleep_word.hpp.
  const bool mail =
      lane.has_mail() || lane.requests.any() || ending_.load(std::memory_order_seq_cst) != 0;
  if (BATON_UNLIKELY(mail)) call_attention();  // its sender may be about to do that
  Deadline until = mail ? Deadline::immediately() : deadline;
  if (BATON_UNLIKELY(!lane.timers.empty())) until = std::min(until, lane.timers.nearest());
  if (BATON_LIKELY(only != nullptr)) {
    lane.note_wait(reap_from(*only, until));
  } else {
    reap(until);
  }
  sleep_.wake_up();
}

void LaneLoop::wait_alone(Deadline deadline) noexcept { wait(deadline); }

// Like wait(), without the call that sleeps.
Deadline LaneLoop::prepare_wait(Deadline deadline) noexcept {
  const InEngines in{*this};
  start_what_is_deferred();
  for (Processor* processor : own_) processor->engine->flush();
  if (!lane_.completed.empty() || lane_.closable != nullptr || in.served()) {
    deadline = Deadline::immediately();
  }
  sleep_.fall_asleep();
  if (lane_.has_mail() || lane_.requests.any() || ending_.load(std::memory_order_seq_cst) != 0) {
    call_attention();  // its sender may be about to do that
    deadline = Deadline::immediately();
  }
  return lane_.timers.empty() ? deadline : std::min(deadline, lane_.timers.nearest());
}

void LaneLoop::wait_in_engines(Deadline deadline) noexcept {
  const InEngines in{*this};
  reap(in.served() ? Deadline::immediately() : deadline);
}

std::size_t LaneLoop::turn(Deadline deadline, std::size_t handlers_max,
                           bool return_after_handlers) {
  BATON_DASSERT(return_after_handlers || deadline.is_never());
  // A handler of this lane calls this turn and may go on to start something.
  const bool nested = in_turn();
  const Inside link{this, inside_chain()};
  set_inside_chain(&link);
  lane_.be_at_work();
  struct Leave {
    LaneLoop& loop;
    const Inside& link;
    const bool nested;
    ~Leave() {
      take_out(link);
      if (!nested && loop.quiet()) loop.be_quiet();
      if (loop.runner_.forked()) os::thread_locals.lane = &os::nowhere;
    }
  } const leave{*this, link, nested};

  bool late = false;
  // A turn that ends after its handlers runs those that are queued now, not those they queue.
  if (return_after_handlers && handlers_max == 0) {
    take_mail();
    handlers_max = std::max(lane_.completed.size(), limits::handlers_per_look);
  }
  if (handlers_max == 0) handlers_max = ~std::size_t{0};
  std::size_t left = handlers_max;
  while (!ending()) {
    // A row of short turns, or operations that complete in their start, must not starve I/O.
    if (BATON_UNLIKELY(lane_.look_is_due())) wait(Deadline::immediately());
    take_mail();
    run_closures();
    if (BATON_UNLIKELY(!lane_.timers.empty())) {
      // No more than will run next, so that they are still in the cache then. The last turn takes
      // all that are due.
      ledger_.expire(lane_, ledger_.now(), late ? ~std::size_t{0} : lane_.handlers_before_look());
    }
    if (BATON_LIKELY(!lane_.completed.empty())) {
      const std::size_t ran = run_batch(left);
      left -= ran;
      lane_.unlooked += ran;
      if (left == 0 || ending()) break;
    }
    // Before a call returns, too: poll() may be the last one until the engine's descriptor tells.
    run_closures();
    if (BATON_UNLIKELY(return_after_handlers) && lane_.completed.empty() &&
        (late || left < handlers_max)) {
      break;
    }
    if (ledger_.draining.load(std::memory_order_relaxed)) {
      if (!nested && quiet()) be_quiet();
      if (ending()) break;
    }
    wait(deadline);
    if (BATON_UNLIKELY(return_after_handlers)) {
      late = !deadline.is_never() && ledger_.now() >= deadline;
    }
  }
  return handlers_max - left;
}

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

void LaneLoop::serve_before_engine_calls() noexcept {
  const Inside link{this, inside_chain()};
  set_inside_chain(&link);
  lane_.be_at_work();
  open_mailbox();
  set_inside_chain(link.outer);
}

// The owner is not long in its engines, because the request ends a sleep there. It does not tell
// when it leaves, so after some tries this looks once in a while. The owner itself does not wait: a
// signal handler has interrupted it.
void LaneLoop::wait_for_engines(Handle& handle, std::uint32_t generation) noexcept {
  constexpr unsigned tries_max = 100;
  constexpr std::int64_t pause_ns = 100'000;
  const auto is_served = [&] {
    const std::uint64_t asked = Access::asked(handle).load(std::memory_order_acquire);
    return AskedWord::generation(asked) != generation || (asked & AskedWord::linked) == 0;
  };
  const std::uint32_t seen = engine_calls_.load(std::memory_order_seq_cst);
  if (seen % 2 == 0 || is_held()) return;
  for (unsigned tries = 0; !is_served(); ++tries) {
    if (engine_calls_.load(std::memory_order_acquire) != seen) return;
    if (tries < tries_max) {
      system_.yield();
    } else {
      system_.futex_wait(&engine_calls_, seen, system_.monotonic_ns() + pause_ns);
    }
  }
}

bool LaneLoop::quiet() const noexcept {
  return lane_.counters.pending_now() == 0 && lane_.completed.empty() &&
         lane_.closable == nullptr && !lane_.has_mail();
}

void LaneLoop::be_quiet() noexcept {
  const std::uint32_t activity = lane_.activity.load(std::memory_order_relaxed);
  if (activity % 2 != 0) lane_.activity.store(activity + 1, std::memory_order_seq_cst);
  if (ledger_.draining.load(std::memory_order_seq_cst) && !stopped()) runner_.lane_is_quiet(lane_);
}

void LaneLoop::start_what_is_deferred() noexcept {
  for (Processor* processor : own_) {
    if (processor->deferred.empty()) continue;
    OperationQueue finished;
    ledger_.start_deferred(*processor, finished);
    ledger_.take_back_all(lane_, finished);
  }
}

std::size_t LaneLoop::reap_all(Deadline deadline) noexcept {
  OperationQueue batches[limits::processors_max];
  const auto asked = [this] { return sleep_.is_notified(); };
  merged_wait(own_, std::span{batches, own_.size()}, deadline, asked, system_);
  lane_.be_at_work();
  std::size_t brought = 0;
  for (std::size_t i = 0; i < own_.size(); ++i) {
    brought += batches[i].size();
    ledger_.account(*own_[i], batches[i]);
    ledger_.take_back_all(lane_, batches[i]);
  }
  return brought;
}

// -- mail -----------------------------------------------------------------------------------------

bool LaneLoop::mail(Operation& operation) noexcept {
  const Handle* const handle = operation.handle();
  operation.engine_state<MailedState>() = {lane_.requests.newest(),
                                           handle != nullptr ? handle->generation() : 0};
  lane_.mailed.fetch_add(1, std::memory_order_relaxed);
  Mailbox::Pushed pushed = lane_.mailbox.push(operation, false);
  if (BATON_UNLIKELY(pushed == Mailbox::Pushed::refused)) {
    if (!operation.has(Operation::internal)) {
      lane_.mailed.fetch_sub(1, std::memory_order_relaxed);
      return false;
    }
    pushed = lane_.mailbox.push(operation, true);
  }
  call_attention();
  if (pushed == Mailbox::Pushed::first) wake_or_find_leader();
  return true;
}

void LaneLoop::mail_back(Operation& operation) noexcept {
  const bool first = lane_.returned.push(operation);
  call_attention();
  if (first) wake_or_find_leader();
}

void LaneLoop::ask(LaneRequests::Wish wish) noexcept {
  lane_.requests.ask(wish, system_);
  call_attention();
  wake_or_find_leader();
}

void LaneLoop::ask(Handle& handle, LaneRequests::Asked asked) noexcept {
  lane_.requests.ask(handle, asked, system_);
  call_attention();
  wake_or_find_leader();
}

bool LaneLoop::ask(std::shared_ptr<PendingInquiry> inquiry) noexcept {
  if (!lane_.requests.ask(std::move(inquiry), system_)) return false;
  call_attention();
  wake_or_find_leader();
  return true;
}

void LaneLoop::wake_or_find_leader() noexcept {
  if (wake() == SleepWord::Needs::owner) runner_.lane_needs_leader();
}

SleepWord::Needs LaneLoop::wake() noexcept {
  const SleepWord::Needs needs = sleep_.notify();
  if (needs == SleepWord::Needs::interrupt) {
    BATON_PROBE2(interrupt_sent, own_.front()->index, lane_.index);
    own_.front()->engine->interrupt();
    wakes_sent_.fetch_add(1, std::memory_order_relaxed);
  } else {
    wakes_suppressed_.fetch_add(1, std::memory_order_relaxed);
  }
  return needs;
}

void LaneLoop::stop() noexcept {
  ending_.fetch_or(stop_asked, std::memory_order_seq_cst);
  wake();
}

void LaneLoop::ask_to_regroup() noexcept {
  ending_.fetch_or(regroup_asked, std::memory_order_seq_cst);
  wake();
}

// Its handlers have returned before it is asked whether to go on.
void LaneLoop::stop_in_forked_child() noexcept {
  for (const Inside* inside = inside_chain(); inside != nullptr; inside = inside->outer) {
    inside->loop->ending_.store(stop_asked, std::memory_order_relaxed);
  }
}

void LaneLoop::look_at_mail() noexcept {
  // An exchange, so that either what was left is seen below, or the mark comes again after it.
  lane_.attention.exchange(false, std::memory_order_seq_cst);
  if (ledger_.refusing.load(std::memory_order_seq_cst) != Refusing::nothing) call_attention();
  if (!lane_.returned.empty()) take_returned();
  if (!lane_.mailbox.empty() || lane_.requests.any()) open_mailbox();
}

// Serves requests and mail in order. A request made before an operation was started is served
// before that operation, other requests after it. The number is read first, so all mail that the
// asker sent before its request is in this batch or an earlier one. Later requests wait for the
// next look.
void LaneLoop::open_mailbox() noexcept {
  const InEngines in{*this};
  const LaneRequests::Number newest = lane_.requests.newest();
  Operation* operation = lane_.mailbox.empty() ? nullptr : lane_.mailbox.take_all();
  bool clock_is_set = false;  // this lane may have slept for hours
  while (operation != nullptr) {
    Operation* next = Access::next(*operation);
    Access::next(*operation) = nullptr;
    if (!clock_is_set && Access::state(*operation) != OperationState::posted) {
      lane_.clock.set(system_.monotonic_coarse_ns());
      clock_is_set = true;
    }
    serve_requests(operation->engine_state<MailedState>().newest);
    // Before it counts as outstanding: see Core::start_on_handle.
    lane_.mailed.fetch_sub(1, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);
    start_mailed(*operation);
    operation = next;
  }
  serve_requests(newest);
}

void LaneLoop::take_returned() noexcept {
  Operation* operation = lane_.returned.take_all();
  while (operation != nullptr) {
    Operation* next = Access::next(*operation);
    Access::next(*operation) = nullptr;
    const OperationState state = Access::state(*operation);
    if (state == OperationState::result_ready || state == OperationState::posted) {
      // A thread of another proactor has taken it out of a strand.
      if (!operation->has(Operation::internal)) lane_.counters.completed.sub();  // counted again
      lane_.completed.push_back(*operation);
    } else {
      ledger_.take_back(lane_, *operation);
    }
    operation = next;
  }
}

void LaneLoop::start_mailed(Operation& operation) noexcept {
  if (Access::state(operation) == OperationState::posted) {
    lane_.starter->post(lane_, operation, Notify::strong);
    return;
  }
  if (operation.kind() == OperationKind::timer) {
    lane_.starter->start_timer(lane_, operation);
    return;
  }
  Handle& handle = *operation.handle();
  const bool same = handle.generation() == operation.engine_state<MailedState>().generation &&
                    Access::lane(handle) == lane_.index;
  if (operation.kind() == OperationKind::close) {
    if (!same || !ledger_.begin_close(lane_, handle, &operation)) {
      ledger_.refuse_mailed(lane_, operation, errc::handle_closed);
    }
    return;
  }
  if (!same) {
    ledger_.refuse_mailed(lane_, operation, errc::handle_closed);
    return;
  }
  // A request that is left is later than this start, and cancels it. It is never begun then: the
  // number of a borrowed descriptor may name another file by now.
  const std::uint64_t asked = Access::asked(handle).load(std::memory_order_acquire);
  if ((AskedWord::what(asked) & (LaneRequests::cancel | LaneRequests::close_detached)) != 0) {
    Access::want_cancel(operation, operation.activation());
  }
  Processor* processor = ledger_.route(lane_, operation.kind(), handle);
  if (const auto error = lane_.starter->start(lane_, *processor, operation, true)) {
    ledger_.refuse_mailed(lane_, operation, error);
  }
}

void LaneLoop::serve_requests(LaneRequests::Number until) noexcept {
  while (lane_.requests.oldest() <= until) serve(lane_.requests.take(until, system_));
}

void LaneLoop::serve(const LaneRequests::Due& due) noexcept {
  if (due.wishes[LaneRequests::cancel_all]) ledger_.cancel_all(lane_);
  if (due.wishes[LaneRequests::cancel_accepts]) ledger_.cancel_accepts(lane_);
  if (due.wishes[LaneRequests::cancel_timers]) cancel_marked_timers();
  if (due.handle != nullptr) serve(*due.handle, due.what);
  for (const auto& inquiry : due.inquiries) inquiry->answer(ledger_, lane_);
}

void LaneLoop::serve(Handle& handle, std::uint32_t what) noexcept {
  if ((what & LaneRequests::let_go) != 0) {
    ledger_.handles.release(handle);
    return;
  }
  BATON_ASSERT(Access::lane(handle) == lane_.index);
  if ((what & LaneRequests::handler_returned) != 0) {
    std::uint32_t count = Access::returned(handle).exchange(0, std::memory_order_acquire);
    for (; count > 0; --count) ledger_.handler_returned(lane_, &handle);
  }
  if ((what & LaneRequests::cancel_marked) != 0) cancel_marked(handle);
  if ((what & LaneRequests::cancel) != 0) ledger_.cancel(lane_, handle);
  if ((what & LaneRequests::close_detached) != 0) ledger_.begin_close(lane_, handle, nullptr);
}

// One search for all: each of its own would pass the same timers again.
void LaneLoop::cancel_marked_timers() noexcept {
  OperationQueue marked;
  lane_.timers.find_all(marked, [](const Operation& timer) {
    return timer.kind() == OperationKind::timer && Access::cancel_wanted(timer);
  });
  while (!marked.empty()) ledger_.cancel(lane_, marked.pop_front());
}

void LaneLoop::cancel_marked(Handle& handle) noexcept {
  ledger_.for_each(handle, [&](Operation& operation) {
    if (Access::cancel_wanted(operation)) ledger_.cancel(lane_, operation);
  });
}

// -- closing --------------------------------------------------------------------------------------

void LaneLoop::close_handles() noexcept {
  while (Handle* handle = ledger_.next_closable(lane_)) {
    if (ledger_.submit_close(lane_, *handle)) continue;
    int error = 0;
    if (handle->owned() && system_.close(handle->native()) != 0 && errno != EINTR) error = errno;
    ledger_.closed(lane_, *handle, error);
  }
}

}  // namespace baton
