// From the ring to the completed queue, and the wait of the leader.
#include "engines/io_uring/io_uring_engine.hpp"

#include <errno.h>
#include <poll.h>

#include <algorithm>

#include "base/assert.hpp"
#include "base/tsan.hpp"
#include "baton/limits.hpp"
#include "engines/common/attempt.hpp"
#include "engines/common/transfer.hpp"

namespace baton::engines::uring {
namespace {

constexpr Duration congestion_pause{10'000'000};

// All reads of interrupt descriptors write their counts here; nothing uses the counts. A closed
// ring releases a read in flight only later, so this memory must never be freed.
std::uint64_t wake_counts;

bool is_transient(int error) noexcept {
  return error == EAGAIN || error == EINTR || error == ECANCELED;
}

}  // namespace

// The bytes moved complete the operation.
inline bool IoUringEngine::is_complete(Operation& operation) noexcept {
  const unsigned flags = operation.flags();
  if ((flags & (Operation::exactly | Operation::until | Operation::pooled)) == 0) return true;
  constexpr unsigned special = Operation::vectored | Operation::until | Operation::pooled;
  if (BATON_LIKELY((flags & special) == 0)) return operation.bytes() == operation.buffer().size;
  if ((flags & Operation::pooled) != 0) return has_block(operation);
  return complete_without_transfer(operation);
}

// A pooled read has received; or there is something to receive, and a plain call does it now,
// unless other completions are at hand: the kernel receives for several in one entry.
bool IoUringEngine::has_block(Operation& operation) noexcept {
  Progress& state = progress(operation);
  if (state.step == Step::poll) {
    return !ring_->has_completions() && receive_into_block(system_, operation);
  }
  operation.set_taken_buffer(state.block, state.pool->block_size());
  state.block = nullptr;
  return true;
}

// Takes a block and lets the kernel receive into it. False: the slow path continues.
bool IoUringEngine::fill_block(Operation& operation) noexcept {
  Progress& state = progress(operation);
  if (state.step != Step::poll) return false;
  void* const block = state.pool->take();
  if (BATON_UNLIKELY(block == nullptr)) return false;
  abi::Sqe* const request = ring_->claim();
  if (BATON_UNLIKELY(request == nullptr)) {
    state.pool->give(block);
    return false;
  }
  state.block = block;
  state.step = Step::perform;
  state.fast = true;
  prepare_block(*request, operation);
  request->user_data = tag_of(state.slot, requests_[state.slot].generation);
  BATON_TSAN_RELEASE(&operation);
  ring_->publish();
  return true;
}

inline bool IoUringEngine::settle_fast(abi::Cqe completion, OperationQueue& done) noexcept {
  const auto slot = static_cast<std::uint32_t>(completion.user_data >> 32);
  if (BATON_UNLIKELY(slot >= requests_.used())) return false;
  Request* const request = &requests_[slot];
  if (BATON_UNLIKELY(request->operation == nullptr ||
                     request->generation != static_cast<std::uint32_t>(completion.user_data))) {
    return false;
  }
  Operation& operation = *request->operation;
  Progress& state = progress(operation);
  if (BATON_UNLIKELY(!state.fast)) return false;
  state.fast = false;
  if (BATON_UNLIKELY(completion.result <= 0 || state.cancelled)) return false;
  if (BATON_UNLIKELY(state.fast_lane == nullptr)) {
    settle_datagram(*request, completion.result, done);
    return true;
  }
  Lane& lane = *state.fast_lane;
  BATON_TSAN_ACQUIRE(&operation);
  operation.set_bytes(static_cast<std::size_t>(completion.result));
  operation.finish(0);
  if (BATON_UNLIKELY(lane.queue.has_several() || !is_complete(operation))) {
    operation.set_bytes(0);
    return operation.has(Operation::pooled) && fill_block(operation);
  }
  lane.covered = 0;
  lane.queue.pop_last();
  if (BATON_UNLIKELY(operation.has(Operation::vectored))) {
    messages_.give(request->message);
    request->message = no_index;
  }
  request->operation = nullptr;
  ++request->generation;
  requests_.give(slot, *request);
  --in_flight_;
  --in_kernel_;
  done.push_back(operation);
  return true;
}

// REQUIRES: `result` is positive.
void IoUringEngine::settle_datagram(Request& request, int result, OperationQueue& done) noexcept {
  Operation& operation = *request.operation;
  BATON_TSAN_ACQUIRE(&operation);
  --in_kernel_;
  const Message* const message =
      request.message != no_index ? &messages_[request.message] : nullptr;
  const Verdict verdict = judge(operation, message, result, system_);
  BATON_ASSERT(verdict == Verdict::finished);
  retire(operation, done);
}

// Completions are passed by value, in two registers.
inline bool IoUringEngine::take_all(OperationQueue& completed) noexcept {
  bool interrupted = false;
  const auto take = [&](abi::Cqe completion) __attribute__((always_inline)) {
    mutex_.assume_held();
    if (BATON_LIKELY(settle_fast(completion, completed))) return;
    interrupted |= settle(completion, completed);
  };
  ring_->pop_each(limits::reports_max, take);
  return interrupted;
}

// Takes the last completions of a ring that is given up.
void IoUringEngine::take_the_last(OperationQueue& completed) noexcept {
  while (ring_->has_completions()) static_cast<void>(take_all(completed));
}

inline bool IoUringEngine::reap(OperationQueue& completed) noexcept {
  if (BATON_UNLIKELY(locked_)) return reap_locked(completed);
  mutex_.assume_held();
  return take_all(completed);
}

bool IoUringEngine::reap_locked(OperationQueue& completed) noexcept {
  if (!ring_->has_completions()) return false;
  os::LockGuard guard{mutex_, system_, true};
  return take_all(completed);
}

bool IoUringEngine::settle_any(abi::Cqe completion, OperationQueue& done) noexcept {
  return !settle_fast(completion, done) && settle(completion, done);
}

// True: the completion is an interrupt.
bool IoUringEngine::settle(abi::Cqe completion, OperationQueue& done) noexcept {
  if (is_cancel_tag(completion.user_data)) {
    settle_cancel(completion);
    return false;
  }
  if (completion.user_data == wake_tag) return settle_wake(completion);
  if (completion.user_data == message_tag) {
    wake_pending_.exchange(false, std::memory_order_seq_cst);  // as in settle_wake
    return true;
  }
  Request* const request = request_of(completion.user_data);
  BATON_DASSERT(request != nullptr);
  if (request == nullptr) {
    count(stale_events_);
    return false;
  }
  BATON_TSAN_ACQUIRE(request->operation);
  --in_kernel_;
  settle_request(*request->operation, completion.result, done);
  return false;
}

bool IoUringEngine::settle_wake(abi::Cqe completion) noexcept {
  if ((completion.flags & abi::cqe_more) == 0) wake_armed_ = false;
  if (completion.result == -EINVAL) wake_by_read_ = true;
  // ECANCELED: the thread that submitted the poll has ended. The next wait arms it again.
  if (completion.result < 0) return false;
  // acquire and release: the interrupter's earlier writes are visible here, and a later interrupter
  // writes again. seq_cst: one order with interrupt() and stop_messages().
  wake_pending_.exchange(false, std::memory_order_seq_cst);
  return true;
}

void IoUringEngine::settle_request(Operation& operation, int result,
                                   OperationQueue& done) noexcept {
  if (Lane* const lane = lane_of(operation); lane != nullptr) {
    BATON_ASSERT(lane->covered > 0 && lane->queue.front() == &operation);
    if (lane->covered > 1) {
      settle_merged(*lane, result, done);
      return;
    }
  }
  const Progress& state = progress(operation);
  if (BATON_UNLIKELY(state.looks)) stop_resting(operation);
  // EBADF: see withdraw().
  if (BATON_UNLIKELY(state.cancelled) && (state.step == Step::withdrawn || result == -EBADF)) {
    result = -ECANCELED;
  }
  if (operation.kind() == OperationKind::accept && result >= 0) {
    result = settle_accepted(operation, result);
  }
  if (BATON_UNLIKELY(result > 0 && needs_position(operation))) {
    system_.lseek(operation.handle()->native(), result, SEEK_CUR);
  }
  const Request& request = requests_[state.slot];
  const Message* const message =
      request.message != no_index ? &messages_[request.message] : nullptr;
  go_on(operation, judge(operation, message, result, system_), done);
}

int IoUringEngine::settle_accepted(Operation& operation, int accepted) noexcept {
  if (!room_.none_for_accepted()) {
    ++accepted_;
    return accepted;
  }
  // There is no handle for it. The close tells its peer.
  system_.close(accepted);
  return progress(operation).cancelled ? -ECANCELED : -ENOBUFS;
}

void IoUringEngine::go_on(Operation& operation, Verdict verdict, OperationQueue& done) noexcept {
  if (verdict == Verdict::again && goes_by_call(operation)) verdict = move_by_call(operation);
  if (verdict == Verdict::turn_away || verdict == Verdict::back_off) {
    if (rest_with_another(operation)) return;
    if (verdict == Verdict::turn_away) spare_.turn_one_away(*operation.handle());
    if (!queues_behind_another(operation)) back_off(operation);
    return;
  }
  if (verdict == Verdict::poll && queues_behind_another(operation)) return;
  Lane* const lane = lane_of(operation);
  if (verdict == Verdict::finished) {
    leave_lane(operation);
    retire(operation, done);
  } else {
    issue(operation);
  }
  if (lane != nullptr) pump(*lane, done);
}

void IoUringEngine::leave_lane(Operation& operation) noexcept {
  Lane* const lane = lane_of(operation);
  if (lane == nullptr) return;
  lane->queue.erase(operation);
  lane->covered = 0;
}

// One send has moved bytes of several operations: each gets its part, in order.
void IoUringEngine::settle_merged(Lane& lane, int result, OperationQueue& done) noexcept {
  std::uint32_t covered = lane.covered;
  lane.covered = 0;
  Operation* each = lane.queue.front();
  bool cancelled = false;
  for (std::uint32_t i = 0; i < covered; ++i, each = OperationList::next(*each)) {
    BATON_TSAN_ACQUIRE(each);
    progress(*each).place = Place::lane;
    cancelled = cancelled || progress(*each).cancelled;
  }
  if (cancelled && result == -EBADF) result = 0;  // withdrawn, and perhaps one of them only
  const auto retire_front = [&]() BATON_REQUIRES(mutex_) {
    --covered;
    retire(lane.queue.pop_front(), done);
  };
  auto left = static_cast<std::size_t>(std::max(result, 0));
  while (covered > 0 && left > 0) {
    Operation& front = *lane.queue.front();
    const std::size_t part = std::min(left, remaining_bytes(front));
    left -= part;
    if (!advance(front, part)) break;
    retire_front();
  }
  if (result == -EAGAIN) progress(*lane.queue.front()).step = Step::poll;
  if (result < 0 && !is_transient(-result)) {
    // The first operation gets the stream's error; the others get it from their own requests.
    fail(*lane.queue.front(), -result);
    retire_front();
  }
  Operation* next = lane.queue.front();
  for (; covered > 0; --covered) {
    Operation& rest = *next;
    next = OperationList::next(rest);
    if (!progress(rest).cancelled) continue;
    lane.queue.erase(rest);
    finish_cancelled(rest);
    retire(rest, done);
  }
  pump(lane, done);
}

// The operation leaves the engine: its slot is free, and a later completion for it is stale.
void IoUringEngine::retire(Operation& operation, OperationQueue& done) noexcept {
  const Progress& state = progress(operation);
  if (state.cancel_postponed) --postponed_;
  Request& request = requests_[state.slot];
  BATON_ASSERT(request.operation == &operation);
  if (request.message != no_index) messages_.give(request.message);
  request.message = no_index;
  request.operation = nullptr;
  ++request.generation;
  requests_.give(state.slot);
  --in_flight_;
  done.push_back(operation);
  if (state.holds_syncs) count_write_out(file_of(operation), state.epoch);
}

// -- the leader -----------------------------------------------------------------------------------

Deadline IoUringEngine::due() noexcept {
  os::LockGuard guard{mutex_, system_, locked_};
  // An interrupt would not make the ring readable: its poll ended with the thread that submitted
  // it, or the ring is new. The next wait arms it.
  if (!wake_armed_) return Deadline::immediately();
  const Deadline retry = next_retry();
  if (ring_->unsubmitted() == 0) return retry;
  // The kernel had no room for these, perhaps not for the interrupt's poll either.
  return std::min(retry, next_try());
}

Deadline IoUringEngine::next_try() const noexcept {
  return Deadline::after(congestion_pause, Deadline::at_ns(system_.monotonic_ns()));
}

// Or earlier: the one that was due first may have been cancelled.
Deadline IoUringEngine::next_retry() const noexcept {
  return resting_ == no_index ? Deadline::never() : Deadline::at_ns(look_ns_);
}

// Makes one entry, or none if there is nothing to submit and no need to wait. Completions that the
// kernel holds back for an entry are fetched even when others are at hand: one connection with some
// each time would starve the others.
inline Entered IoUringEngine::enter(Deadline until, OperationQueue& completed) noexcept {
  const std::uint32_t count = ring_->unsubmitted();
  if (count == 0 && !ring_->needs_kernel()) {
    if (ring_->has_completions()) return Entered::done;
    if (until == Deadline::immediately()) return Entered::timed_out;
  }
  const Entered entered = ring_->submit_and_wait(count, until);
  return BATON_LIKELY(entered == Entered::done) ? entered
                                                : enter_otherwise(entered, until, completed);
}

void IoUringEngine::wait(OperationQueue& completed, Deadline deadline) noexcept {
  for (;;) {
    Deadline until = deadline;
    if (BATON_LIKELY(nothing_to_prepare())) {
      if (!completed.empty()) until = Deadline::immediately();
    } else if (BATON_UNLIKELY(is_lost())) {
      return wait_lost(completed, deadline);
    } else {
      until = prepare_wait(completed, deadline);
    }
    const Entered entered = enter(until, completed);
    const bool interrupted = reap(completed);
    if (!completed.empty() || interrupted || entered == Entered::interrupted) return;
    if (deadline.is_never()) continue;
    if (deadline == Deadline::immediately()) return;
    if (entered == Entered::timed_out) return;  // maybe early, which the contract of wait() allows
    if (deadline.ns() <= system_.monotonic_ns()) return;
  }
}

Deadline IoUringEngine::prepare_wait(OperationQueue& completed, Deadline deadline) noexcept {
  os::LockGuard guard{mutex_, system_, locked_};
  waits_ = true;
  arm_wake();
  submit_postponed(completed);
  Deadline until = retry_backed_off(deadline, completed);
  if (!wake_armed_ || postponed_ > 0) until = std::min(until, next_try());
  leave_limited_writes_to_workers();
  waits_ = false;
  return completed.empty() ? until : Deadline::immediately();
}

// A poll of the interrupt descriptor is always in the ring. A multishot poll is edge-triggered and
// reports each write, so the count is not read and simply grows. The poll ends with the thread that
// submitted it, and when the completion ring overflows; a new one reports earlier writes. Before
// Linux 5.13 a read takes its place.
void IoUringEngine::arm_wake() noexcept {
  if (wake_armed_) return;
  abi::Sqe* const request = claim();
  if (request == nullptr) return;
  request->fd = event_;
  request->user_data = wake_tag;
  if (wake_by_read_) {
    request->opcode = abi::op_read;
    request->address = reinterpret_cast<std::uintptr_t>(&wake_counts);
    request->length = sizeof(wake_counts);
  } else {
    prepare_poll(*request, POLLIN);
    request->length = abi::poll_add_multi;
  }
  ring_->publish();
  wake_armed_ = true;
}

}  // namespace baton::engines::uring
