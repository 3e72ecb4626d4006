// Stop, drain and restart; the end of a proactor; and what a forked child leaves of its parent's.
#include "core/core.hpp"

#include <fcntl.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <new>
#include <string>

#include "baton/log.hpp"
#include "baton/misuse.hpp"

namespace baton {

using Access = OperationAccess;

// -- stop and drain -------------------------------------------------------------------------------

void Proactor::Core::refuse(Refusing what) noexcept {
  // seq_cst: a drain then looks for a leader, and a thread that comes to lead looks here.
  ledger_.refusing.store(what, std::memory_order_seq_cst);
  // A lane's thread clears `attention` when nothing is refused. A shared lane has no such thread.
  const bool attention = per_thread_ || what != Refusing::nothing;
  for (const auto& lane : lanes_) lane->attention.store(attention, std::memory_order_release);
}

void Proactor::Core::stop() noexcept {
  if (forked()) return;
  // A concurrent restart must not interleave with this, or only some lanes would be stopped.
  const os::LockGuard lock{ledger_.mutex(), system_, !per_thread_};
  const os::LockGuard alone{stop_mutex_, system_, per_thread_};
  // It ends a drain as well, so what is still in the mail is not cancelled.
  ledger_.draining.store(false);
  stopped_.store(true, std::memory_order_seq_cst);
  refuse(Refusing::everything);
  if (per_thread_) {
    crew_.stop();
  } else {
    dispatcher_->stop_locked();
  }
}

void Proactor::Core::restart() noexcept {
  if (forked() || finishing_.load(std::memory_order_acquire)) return;
  // A dedicated thread that has just seen the drain complete holds this mutex. It must not stop
  // what begins now.
  const os::LockGuard lock{ledger_.mutex(), system_};
  const os::LockGuard alone{stop_mutex_, system_, per_thread_};
  ledger_.draining.store(false);
  refuse(Refusing::nothing);
  stopped_.store(false, std::memory_order_release);
  dispatcher_->restart();
}

void Proactor::Core::drain(Deadline deadline) noexcept {
  if (forked() || finishing_.load(std::memory_order_acquire)) return;
  // If two drains are concurrent, the second one finds the deadline of the first.
  const os::LockGuard one_by_one{drain_mutex_, system_};
  bool goes_on = false;
  {
    // The locks of stop(): a drain that has not seen a stop must not undo it, nor cancel what is
    // started after a restart.
    const os::LockGuard lock{ledger_.mutex(), system_, !per_thread_};
    const os::LockGuard alone{stop_mutex_, system_, per_thread_};
    if (stopped()) return;
    goes_on = ledger_.draining.exchange(true);
    if (!goes_on) {
      refuse(Refusing::accepts);
      cancel_when_draining(LaneRequests::cancel_accepts);
    }
  }
  if (goes_on && deadline >= drain_deadline_) return;
  drain_deadline_ = deadline;
  if (deadline.is_never()) return;
  if (drain_timer_runs_) {
    // It belongs to an earlier drain, or is later than this deadline. Its end starts it anew.
    cancel(drain_timer_, drain_timer_.activation());
  } else {
    start_drain_timer();
  }
}

void Proactor::Core::cancel_when_draining(LaneRequests::Wish wish) noexcept {
  for (const auto& loop : loops_) {
    if (loop->may_have_something()) loop->ask(wish);
  }
  if (per_thread_) return;
  if (wish == LaneRequests::cancel_all) {
    ledger_.cancel_all(*first_lane_);
  } else {
    ledger_.cancel_accepts(*first_lane_);
  }
  // Wake a waiting thread so that it notices that the drain is complete.
  dispatcher_->wake_one();
}

void Proactor::Core::start_drain_timer() noexcept {
  drain_timer_runs_ = true;
  drain_timer_.prepare(OperationKind::timer, nullptr, Operation::internal);
  drain_timer_.set_deadline(drain_deadline_);
  drain_timer_.set_handler([this](Operation&) { drain_timer_ended(); });
  // In a lane that a thread is driving.
  std::uint32_t lane = current_lane();
  for (std::uint32_t i = 0; per_thread_ && lane >= lanes(); ++i) {
    if (i == lanes() || (loops_[i]->driven() && !loops_[i]->is_away())) lane = i % lanes();
  }
  static_cast<void>(start_timer(drain_timer_, per_thread_ ? lane : 0));
}

void Proactor::Core::drain_timer_ended() noexcept {
  const os::LockGuard one_by_one{drain_mutex_, system_};
  drain_timer_runs_ = false;
  if (!ledger_.draining.load() || drain_deadline_.is_never()) return;
  if (ledger_.now() < drain_deadline_) {
    if (!ledger_.drain_is_over()) start_drain_timer();
    return;
  }
  const os::LockGuard lock{ledger_.mutex(), system_, !per_thread_};
  const os::LockGuard alone{stop_mutex_, system_, per_thread_};
  if (!ledger_.draining.load()) return;  // a restart came first
  // A session that never pauses would go on without end.
  refuse(Refusing::everything);
  cancel_when_draining(LaneRequests::cancel_all);
}

// While draining: the last lane that has nothing left to do ends the run. It looks at all lanes
// twice. Work reaches a lane only by mail of a lane that is at work, and a lane is marked as at
// work before it takes mail or completions. So if no lane's activity has changed between the two
// looks, there was a moment between them when nothing was left. Otherwise the lane that has changed
// looks when it is done.
void Proactor::Core::lane_is_quiet(Lane&) noexcept {
  if (!per_thread_) {
    ledger_.mutex().assume_held();  // by its Dispatcher
    stopped_.store(true, std::memory_order_release);
    refuse(Refusing::everything);
    dispatcher_->stop_locked();
    return;
  }
  // A restart comes before all of this or after it. If it came before, the drain is over.
  const os::LockGuard alone{stop_mutex_, system_};
  if (!ledger_.draining.load() || ledger_.held_by_strands.load() > 0) return;
  std::uint64_t seen[2] = {0, 0};
  for (std::uint64_t& sum : seen) {
    for (const auto& lane : lanes_) {
      const std::uint32_t activity = lane->activity.load(std::memory_order_seq_cst);
      if (activity % 2 != 0 || lane->has_mail() || lane->counters.pending_now() > 0) return;
      sum += activity;
    }
  }
  if (seen[0] != seen[1]) return;
  stopped_.store(true, std::memory_order_seq_cst);
  refuse(Refusing::everything);
  crew_.stop();
}

// -- the end --------------------------------------------------------------------------------------

Proactor::Core::~Core() {
  if (crew_.has_attached()) {  // they would come back to what is gone
    detail::misused("a proactor was destroyed with a thread attached: end the Attachment first");
  }
  refuse_to_end_driven(
      "a proactor was destroyed while a thread is in run(): stop() it, and join the thread");
  static_cast<void>(ancestor.release());  // as in ~Proactor: its memory is left alone
  finishing_.store(true, std::memory_order_seq_cst);
  run_what_is_left();
  wait_for_visitors();
  dispatcher_->stop_threads();
}

bool Proactor::Core::everything_finished() noexcept {
  // acquire: before the queues are read, so that they hold what threads of other proactors queued.
  if (ledger_.in_strands.load(std::memory_order_acquire) > 0) return false;
  std::uint64_t pending = 0;
  for (const auto& lane : lanes_) pending += lane->counters.pending_now();
  if (ledger_.handles.count() != 0 || pending != 0) return false;
  // A dedicated thread hands over what it has taken while that is pending, so not before.
  return std::none_of(lanes_.begin(), lanes_.end(), [](const auto& lane) {
    return !lane->completed.empty() || lane->has_mail() || !lane->timers.empty();
  });
}

// What other threads mail from now on is refused.
bool Proactor::Core::close_mailboxes() noexcept {
  return !per_thread_ || std::all_of(lanes_.begin(), lanes_.end(),
                                     [](const auto& lane) { return lane->mailbox.close(); });
}

void Proactor::Core::refuse_to_end_driven(const char* sentence) const noexcept {
  // An attached thread leads its lane between its calls, too.
  if (finishing_.load() || crew_.has_attached()) return;
  if (is_driven()) detail::misused(sentence);
  const bool kept = std::any_of(loops_.begin(), loops_.end(), [](const auto& loop) {
    return loop->kept() && !loop->was_left_by_this_thread();
  });
  if (kept) {
    detail::misused(
        "a proactor was ended while another thread keeps a lane of it, whose engine is bound to "
        "that thread (profile=pinned): call run() there once more, after stop(), or let that "
        "thread end before");
  }
}

void Proactor::Core::finish() noexcept {
  if (inside()) return end_in_handler();
  refuse_to_end_driven(
      "finish() was called while another thread is in run(): stop() it, and join the thread");
  // seq_cst: a post that comes meanwhile is queued before its thread reads this. Either the thread
  // sees it, or the run that follows finds the post.
  finishing_.store(true, std::memory_order_seq_cst);
  run_what_is_left();
  wait_for_visitors();
}

// See visit.hpp. acquire: what those threads did here comes before what this one does next.
void Proactor::Core::wait_for_visitors() const noexcept {
  while (ledger_.visitors.load(std::memory_order_acquire) > 0) system_.yield();
}

// One thread at a time; it goes on for those that come meanwhile.
void Proactor::Core::run_what_is_left() noexcept {
  if (left_.fetch_add(1, std::memory_order_acq_rel) != 0) return;
  std::uint32_t seen = 0;
  do {
    seen = left_.load(std::memory_order_acquire);
    finish_everything();
  } while (left_.fetch_sub(seen, std::memory_order_acq_rel) != seen);
  stop();
}

void Proactor::Core::end_in_handler() noexcept {
  // exit() may destroy operations, which stay pending.
  os::left_behind.store(true, std::memory_order_relaxed);
  ended_in_handler.set();
  stop();  // the turn ends when the handler returns, and other threads do not come out
  end_engines();
  stop();  // of the lanes that this thread has entered
}

// exit() goes on to free memory of the program, which kernel and engines must not write into any
// more. A lane of a thread that is in a handler, perhaps waiting for this one, is left after a
// while.
void Proactor::Core::end_engines() noexcept {
  const Deadline until = Deadline::after(std::chrono::seconds{1}, ledger_.now());
  for (const auto& loop : loops_) {
    bool here = loop->mine();
    while (!here && !(here = loop->enter(nullptr, LaneLoop::Led::at_home)) && loop->driven() &&
           ledger_.now() < until) {
      system_.yield();
    }
    if (here) loop->end_engines(until);
  }
  if (!per_thread_) {
    const os::LockGuard lock{ledger_.mutex(), system_};
    ledger_.cancel_all(*first_lane_);
    dispatcher_->look_round();
  }
  dispatcher_->end_engines(until);
}

// In a catch block.
void Proactor::Core::log_dropped_exception() const noexcept {
  if (config.log == nullptr) return;
  try {
    std::string line = "the end of a proactor drops an exception of a handler";
    try {
      throw;
    } catch (const std::exception& exception) {
      line += ": ";
      line += exception.what();
    } catch (...) {
      line += " that is no std::exception";
    }
    config.log->write(LogLevel::error, iso_8601(system_.realtime_us()), line);
  } catch (const std::bad_alloc&) {
    // No memory for the line: the exception is counted all the same.
  }
}

// Also for the destructor: cancels and closes everything, and runs the handlers in this thread.
// Starts fail as stopped.
void Proactor::Core::finish_everything() noexcept {
  {
    const os::LockGuard lock{ledger_.mutex(), system_, !per_thread_};  // see Starter::is_too_late
    refuse(Refusing::everything);
  }
  ledger_.draining.store(false);
  ledger_.handles.end();
  const auto step = [&](auto&& turn_once) {
    try {
      turn_once();
    } catch (...) {
      // No caller can take a handler's exception here, and the other handlers must still run.
      log_dropped_exception();
    }
  };
  for (const auto& loop : loops_) loop->take_over();
  while (!everything_finished() || !close_mailboxes()) {
    overtake_in_a_strand();
    for (const auto& loop : loops_) loop->restart();  // a handler may call stop() again
    dispatcher_->restart();
    const Deadline soon = Deadline::after(std::chrono::milliseconds{1}, ledger_.now());
    if (!per_thread_) {
      {
        const os::LockGuard lock{ledger_.mutex(), system_};
        ledger_.close_everything(*first_lane_);
        ledger_.cancel_everything(*first_lane_);
      }
      step([&] { dispatcher_->turn(soon, 0, true); });
      continue;
    }
    for (const auto& loop : loops_) {
      step([&] {
        loop->cancel_and_close_everything();
        loop->turn(soon, 0, true);
      });
    }
  }
  for (const auto& loop : loops_) loop->leave(false);
}

namespace {

// A fork copies the descriptors before the memory, and a close is accounted after it was made. So
// the child may lack the number, or have opened a file of its own under it. The proactor's
// descriptors are close-on-exec, so a file that is not is the child's.
void close_inherited(const os::System& system, NativeHandle native) noexcept {
  const int flags = system.fcntl(native, F_GETFD, 0);  // EBADF: it is not here
  if (flags >= 0 && (flags & FD_CLOEXEC) != 0) system.close(native);
}

// Connections that the parent delivers. Their peers would never see the end of one that is open in
// the child, too.
void close_accepted(const os::System& system, const OperationQueue& completed) noexcept {
  for (const Operation* operation = completed.front(); operation != nullptr;
       operation = OperationQueue::next(*operation)) {
    if (operation->kind() != OperationKind::accept || operation->failed()) continue;
    if (operation->state() != OperationState::result_ready) continue;
    close_inherited(system, operation->accepted());
  }
}

}  // namespace

void Proactor::Core::abandon_after_fork() noexcept {
  // No lock is taken: a thread that held one at the fork does not exist here, and may have been in
  // the middle of a change. An operation between two lists cannot be found and stays pending.
  os::left_behind.store(true, std::memory_order_relaxed);
  const auto abandon = [](Operation& operation) { Access::abandon(operation); };
  // First, because a timer is known by being pending, and so is a result.
  for (const auto& lane : lanes_) close_accepted(system_, lane->completed);
  for (const auto& lane : lanes_) lane->timers.take_apart(abandon);
  ledger_.handles.for_each([&](Handle& handle) {
    ledger_.for_each(handle, abandon);
    if (Operation* closing = Access::closing(handle)) abandon(*closing);
    if (handle.owned()) close_inherited(system_, handle.native());
    Access::set_phase(handle, Access::Phase::closed);
  });
  for (const auto& lane : lanes_) {
    while (!lane->completed.empty()) abandon(lane->completed.pop_front());
    for (Operation* mailed = lane->mailbox.take_all(); mailed != nullptr;) {
      Operation* next = Access::next(*mailed);
      abandon(*mailed);
      mailed = next;
    }
  }
  for (const auto& processor : processors_) processor->engine->after_fork_in_child();
}

}  // namespace baton
