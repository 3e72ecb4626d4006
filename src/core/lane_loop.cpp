// A lane's leader in its turn: it runs handlers, reads the mail and waits in the engines.
#include "core/lane_loop.hpp"

#include <errno.h>

#include <algorithm>

#include "core/merged_wait.hpp"
#include "core/runner.hpp"

namespace baton {

using Access = OperationAccess;

namespace {

constexpr unsigned brief_turns_max = 8;

}  // namespace

LaneLoop::LaneLoop(Ledger& ledger, Lane& lane, HandlerRunner& runner) noexcept
    : ledger_(ledger),
      lane_(lane),
      runner_(runner),
      system_(ledger.system()),
      clock_(ledger.system(), lane.clock, lane.counters.handler_ns_max,
             &lane.counters.slow_handlers) {}

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
