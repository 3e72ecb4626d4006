// What follows readiness: the queue of a direction runs until it has to wait again.
#include "engines/emulated/emulated_engine.hpp"

#include <sys/socket.h>

#include <exception>
#include <string>

#include "base/assert.hpp"
#include "baton/log.hpp"
#include "engines/common/pauses.hpp"
#include "engines/common/transfer.hpp"

namespace baton::engines::emulated {
namespace {

/// Retries of blocking connects that workers make at once.
constexpr std::uint32_t retries_max = 2;
constexpr std::int64_t log_every_ns = 10'000'000'000;

// A stream that gave less than there was room for has no more data for now.
bool was_short(const Operation& operation) noexcept {
  return operation.kind() == OperationKind::read_stream && remaining_bytes(operation) > 0;
}

// A stream's read that found nothing more.
bool has_ended(const Operation& operation) noexcept {
  if (!was_short(operation)) return false;
  return operation.failed() ? operation.error() == errc::end_of_stream : operation.bytes() == 0;
}

void finish(Operation& operation, std::error_code error) noexcept {
  if (error.category() == error_category()) {
    operation.finish(static_cast<errc>(error.value()));
  } else {
    operation.finish(error.value());
  }
}

}  // namespace

// -- by readiness ---------------------------------------------------------------------------------

void EmulatedEngine::handle_generally(std::uint32_t index, Interest ready,
                                      OperationQueue& completed) noexcept {
  Record* const record = records_.find(index);
  BATON_ASSERT(record != nullptr);
  if (any(ready & Interest::in)) handle(*record, record->in, false, completed);
  if (!any(ready & Interest::out)) return;
  handle(*record, record->out, false, completed);
  if (record->both_waiting.load(std::memory_order_relaxed) == 0) return;
  os::LockGuard guard{record->in.mutex, system_, concurrent_};
  settle_both(*record, record->in, nullptr, completed);
}

void EmulatedEngine::handle(Record& record, Direction& direction, bool woken,
                            OperationQueue& completed) noexcept {
  os::LockGuard guard{direction.mutex, system_, concurrent_};
  // The report was taken before the handle was detached. For a new handle with this index it is a
  // spurious hint.
  if (!record.watchable || record.by_workers.load(std::memory_order_relaxed)) return;
  if (direction.asleep && (!woken || !direction.order.idle())) return;
  const Cause cause = woken && !direction.asleep ? Cause::look : Cause::report;
  direction.asleep = false;
  if (direction.queue.empty()) {
    if (cause == Cause::report) drop(record, direction);
    return;
  }
  const bool accepts = direction.queue.front()->kind() == OperationKind::accept;
  settle(record, direction, cause, true, completed);
  if (!accepts || !direction.queue.empty()) return;
  if (record.accepts_ahead < 0) {
    ++record.accepts_ahead;
  } else {
    record.accepts_ahead = calls_max;
  }
}

// Tries as long as it makes sense, and leaves the direction in one of the states of the invariant.
void EmulatedEngine::settle(Record& record, Direction& direction, Cause cause, bool try_first,
                            OperationQueue& completed) noexcept {
  const bool by_leader = cause != Cause::start;
  bool said_to_be_ready = cause == Cause::report;
  // One turn with a level-triggered strategy. With an edge-triggered one, as many turns as the
  // descriptor is found ready again: the queue bounds them, and the back-off if they are fruitless.
  for (;;) {
    Ran ran = Ran::blocked;
    if (try_first) {
      ran = run(record, direction, completed);
      if (ran == Ran::blocked && said_to_be_ready) end_hopeless(record, direction, completed);
      if (direction.queue.empty()) ran = Ran::empty;
      if (settled(record, direction, ran, said_to_be_ready, by_leader)) return;
    }
    std::error_code error;
    switch (demux_->watch(record.index, interest_of(record, direction), error)) {
      case demux::Watch::armed:
        if (&direction == &record.in && demux_->keeps_watching()) {
          record.fast_in = record.fast && record.owned;
        }
        if (&direction == &record.in) return;
        if (ran != Ran::more || !tells_room_after_try_) {
          // Some have found room, so that others behind them may: they are tried at once.
          const bool goes_on = ran == Ran::more && waits_for_its_peer(*direction.queue.front());
          look_later(record, direction, by_leader, goes_on ? 0 : span_of_look(direction));
          return;
        }
        // There was room for a part. The strategy reports more room only after a call that answered
        // EAGAIN.
        try_first = true;
        said_to_be_ready = false;
        break;
      case demux::Watch::try_now:
        try_first = said_to_be_ready = true;
        break;
      case demux::Watch::failed:
        fail_all(record, direction, error, completed);
        return;
    }
  }
}

// True: there is nothing to watch for.
bool EmulatedEngine::settled(Record& record, Direction& direction, Ran ran, bool said_to_be_ready,
                             bool by_leader) noexcept {
  const unsigned failures = direction.failures;
  switch (ran) {
    case Ran::empty:
      let_go(record, direction);
      return true;
    case Ran::more:
      return false;
    case Ran::by_worker:
      return true;
    case Ran::blocked: {
      if (!said_to_be_ready) return false;
      if (failures < failures_max) ++direction.failures;
      const std::uint32_t pause_ms = fruitless_pause_ms(failures);
      if (pause_ms == 0) return false;
      rest(record, direction, pause_ms, by_leader);
      return true;
    }
    case Ran::back_off: {
      if (direction.queue.front()->kind() == OperationKind::accept) {
        count_shortage(*direction.queue.front());
      }
      if (failures < failures_max) ++direction.failures;
      rest(record, direction, shortage_pause_ms(failures), by_leader);
      return true;
    }
  }
  BATON_UNREACHABLE("a result of run");
}

EmulatedEngine::Ran EmulatedEngine::run(Record& record, Direction& direction,
                                        OperationQueue& completed) noexcept {
  OperationList waits;
  OperationList refused;
  const Ran ran = run_queue(record, direction, waits, refused, completed);
  if (waits.empty() && refused.empty()) return ran;
  waits.splice_back(direction.queue);
  waits.splice_back(refused);
  direction.queue.splice_back(waits);
  return ran == Ran::empty ? Ran::blocked : ran;
}

// `waits` gets waits for room, which do not delay the operations behind them; `refused` gets
// datagrams whose peer has no room.
EmulatedEngine::Ran EmulatedEngine::run_queue(Record& record, Direction& direction,
                                              OperationList& waits, OperationList& refused,
                                              OperationQueue& completed) noexcept {
  Ran out_of_calls = Ran::blocked;
  for (int calls = 0; !direction.queue.empty(); ++calls) {
    if (calls == calls_max) return out_of_calls;
    Operation& front = *direction.queue.front();
    if (may_block(front) && !progress(front).attempt.begun) {
      // Each retry keeps a worker for a moment, and the others are for files.
      if (progress(front).goes_on && retries_.load(std::memory_order_relaxed) >= retries_max) {
        rest(record, direction, shortage_pause_ms(direction.failures), true);
        return Ran::by_worker;
      }
      if (hand_over(direction, completed)) return Ran::by_worker;
      continue;
    }
    switch (run_front(record, direction, completed)) {
      case Outcome::done:
        direction.failures = 0;
        out_of_calls = Ran::more;
        if (was_short(front)) return direction.queue.empty() ? Ran::empty : Ran::more;
        break;
      case Outcome::partial:
        direction.failures = 0;
        // A part of merged writes may have been enough for all of them.
        return direction.queue.empty() ? Ran::empty : Ran::more;
      case Outcome::again:
        if (waits_for_its_peer(front)) {
          set_aside(direction.queue, refused);
        } else if (front.kind() == OperationKind::wait_ready && &direction == &record.out) {
          // The answer holds for all adjacent waits. The remaining calls are for the operations
          // behind them.
          do {
            waits.push_back(direction.queue.pop_front());
          } while (!direction.queue.empty() &&
                   direction.queue.front()->kind() == OperationKind::wait_ready);
        } else {
          return Ran::blocked;
        }
        break;
      case Outcome::back_off:
        return Ran::back_off;
    }
  }
  return Ran::empty;
}

Outcome EmulatedEngine::run_front(Record& record, Direction& direction,
                                  OperationQueue& completed) noexcept {
  Operation& front = *direction.queue.front();
  OperationQueue finished;
  Outcome outcome;
  if (front.kind() == OperationKind::write_stream && direction.queue.has_several()) {
    outcome = performer_.perform_merged(direction.queue, finished);
  } else {
    outcome = performer_.perform(front);
    if (outcome == Outcome::done && has_ended(front)) {
      hear_writers(record);
      static_cast<void>(advance(front, 0));
    }
    if (outcome == Outcome::done) finished.push_back(direction.queue.pop_front());
  }
  for (Operation* each = finished.front(); each != nullptr; each = OperationList::next(*each)) {
    leave(*each, &record);
  }
  completed.splice_back(finished);
  return outcome;
}

void EmulatedEngine::end_hopeless(Record& record, Direction& direction,
                                  OperationQueue& completed) noexcept {
  Operation& front = *direction.queue.front();
  const bool unheard = writes_to_closed_terminal(system_, front);
  if (!unheard && !reads_what_is_shut(system_, front)) return;
  front.finish(unheard ? EIO : 0);
  direction.queue.pop_front();
  leave(front, &record);
  completed.push_back(front);
}

void EmulatedEngine::rest(Record& record, Direction& direction, std::uint32_t span_ms,
                          bool by_leader) noexcept {
  drop(record, direction);
  direction.asleep = true;
  back_offs_.add(record, direction, span_ms);
  // A waiting leader does not know the time to wake up yet.
  if (!by_leader && concurrent_) demux_->interrupt();
}

// A full UNIX stream reports nothing when its peer shuts its reading side, or the program the
// writing side (shutdown(2)). From then on a write fails (EPIPE), and a blocking write would end.
// A UNIX datagram socket reports nothing while peers that do not read hold a quarter of its memory,
// although another peer has room. Such writes are therefore tried again now and then.
void EmulatedEngine::look_later(Record& record, Direction& direction, bool by_leader,
                                std::uint32_t span_ms) noexcept {
  if (!may_end_unheard(record, direction)) return;
  const bool is_new = back_offs_.add(record, direction, span_ms);
  if (!by_leader && is_new && concurrent_) demux_->interrupt();  // as in rest()
}

bool EmulatedEngine::may_end_unheard(const Record& record, Direction& direction) noexcept {
  const Operation* const first = behind_waits(direction.queue);
  if (first == nullptr) return false;
  const bool is_stream = first->kind() == OperationKind::write_stream &&
                         first->handle()->kind() == HandleKind::stream_socket;
  if (!is_stream && !waits_for_its_peer(*first)) return false;
  if (!direction.asked) {
    int domain = 0;
    socklen_t size = sizeof(domain);
    direction.asked = system_.getsockopt(record.fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0;
    direction.is_unix = domain == AF_UNIX;
  }
  return direction.is_unix;
}

// EPERM: files without readiness (devices such as /dev/null, other files that epoll refuses).
// Workers do their streams, and they are always "ready". Every other error - ENOMEM, ENOSPC
// (fs.epoll.max_user_watches), EBADF, errc::descriptor_out_of_range - is the operations' outcome.
void EmulatedEngine::fail_all(Record& record, Direction& direction, std::error_code error,
                              OperationQueue& completed) noexcept {
  // For a socket EPERM comes from a filter.
  const bool no_readiness =
      error == std::errc::operation_not_permitted && !is_socket(*direction.queue.front()->handle());
  if (no_readiness) record.by_workers.store(true, std::memory_order_relaxed);
  OperationList all;
  all.splice_back(direction.queue);
  while (!all.empty()) {
    Operation& operation = all.pop_front();
    const OperationKind kind = operation.kind();
    if (no_readiness &&
        (kind == OperationKind::read_stream || kind == OperationKind::write_stream)) {
      direction.queue.push_back(operation);
      continue;
    }
    finish(operation,
           no_readiness && kind == OperationKind::wait_ready ? std::error_code{} : error);
    leave(operation, &record);
    completed.push_back(operation);
  }
  dispatch(direction, completed);
}

// No operation of either direction waits for this direction's readiness.
bool EmulatedEngine::droppable(const Record& record, const Direction& direction) noexcept {
  const bool for_both =
      &direction == &record.out && record.both_waiting.load(std::memory_order_relaxed) > 0;
  return record.watchable && !for_both;
}

void EmulatedEngine::drop(Record& record, const Direction& direction) noexcept {
  if (&direction == &record.in) record.fast_in = false;
  if (droppable(record, direction)) demux_->drop(record.index, interest_of(record, direction));
}

// The queue is empty. An owned descriptor stays watched for the next operation. The owner of a
// borrowed one may close it from now on.
void EmulatedEngine::let_go(Record& record, Direction& direction) noexcept {
  if (record.owned) return;
  if (droppable(record, direction)) demux_->let_go(record.index, interest_of(record, direction));
  if (&direction == &record.out) return;
  // A wait_ready for both directions may have had output watched.
  os::LockGuard guard{record.out.mutex, system_, concurrent_};
  if (!record.out.queue.empty() || !droppable(record, record.out)) return;
  demux_->let_go(record.index, Interest::out);
}

// -- waiting for both -----------------------------------------------------------------------------

// Completes the wait_ready operations for both directions, wherever they are in the queue, and has
// output watched for the others. A start passes `only` its own operation, since it cannot deliver
// others; the leader completes those by the next report.
void EmulatedEngine::settle_both(Record& record, Direction& in, Operation* only,
                                 OperationQueue& completed) noexcept {
  if (!record.watchable) return;
  for (;;) {
    answer_both(record, in, only, {}, completed);
    const bool all_answered = only != nullptr
                                  ? !completed.empty()
                                  : record.both_waiting.load(std::memory_order_relaxed) == 0;
    if (all_answered) break;
    std::error_code error;
    {
      os::LockGuard guard{record.out.mutex, system_, concurrent_};
      if (demux_->watch(record.index, Interest::out, error) == demux::Watch::armed) return;
    }
    if (error) answer_both(record, in, only, error, completed);
  }
  if (in.queue.empty()) let_go(record, in);
}

// With an error: ends `only`, or all that wait for both. Without: ends those that are ready.
void EmulatedEngine::answer_both(Record& record, Direction& in, Operation* only,
                                 std::error_code error, OperationQueue& completed) noexcept {
  Operation* next = nullptr;
  for (Operation* each = only != nullptr ? only : in.queue.front(); each != nullptr; each = next) {
    next = only != nullptr ? nullptr : OperationList::next(*each);
    if (!waits_for_both(*each)) continue;
    if (error) {
      finish(*each, error);
    } else if (performer_.perform(*each) != Outcome::done) {
      continue;
    }
    in.queue.erase(*each);
    leave(*each, &record);
    completed.push_back(*each);
  }
}

void EmulatedEngine::wake_due(OperationQueue& completed) noexcept {
  Record* record = nullptr;
  Direction* direction = nullptr;
  // Thousands of connects to one full backlog are due together, and again before all were tried.
  for (std::size_t i = 0; i < limits::reports_max && back_offs_.take_due(record, direction); ++i) {
    handle(*record, *direction, true, completed);
  }
}

void EmulatedEngine::count_shortage(const Operation& accept) noexcept {
  accept_backoffs_.fetch_add(1, std::memory_order_relaxed);
  if (log_ == nullptr) return;
  const std::int64_t now = system_.monotonic_ns();
  std::int64_t again = log_again_ns_.load(std::memory_order_relaxed);
  if (now < again) return;
  // One of several threads writes the line. relaxed: only the number matters.
  if (!log_again_ns_.compare_exchange_strong(again, now + log_every_ns,
                                             std::memory_order_relaxed)) {
    return;
  }
  try {
    log_->write(LogLevel::warning, iso_8601(system_.realtime_us()),
                "accept on descriptor " + std::to_string(accept.handle()->native()) +
                    " rests: " + accept.error().message());
  } catch (const std::exception&) {
    // No memory for a line of the log: drop it.
  }
}

}  // namespace baton::engines::emulated
