// Entries that the kernel refuses, and the move from one ring to the next.
#include "engines/io_uring/io_uring_engine.hpp"

#include <errno.h>

#include <algorithm>
#include <utility>

#include "base/assert.hpp"
#include "baton/limits.hpp"
#include "engines/common/look.hpp"
#include "engines/common/pauses.hpp"

namespace baton::engines::uring {
namespace {

// A retry would fail in the same way.
bool is_forbidden(int error) noexcept {
  return error == EPERM || error == EACCES || error == ENOSYS;
}

}  // namespace

Entered IoUringEngine::enter_otherwise(Entered entered, Deadline until,
                                       OperationQueue& completed) noexcept {
  if (BATON_UNLIKELY(entered == Entered::foreign)) {
    // Does not wait: the new ring has no poll of the interrupt descriptor yet.
    const int error = take_over();
    if (error == 0) return ring_->submit();
    if (is_forbidden(error)) {
      note_refusal(error);
    } else {
      mutex_.assume_held();
      // No descriptor or no memory. The old ring hears of no interrupt, and the caller's other work
      // may free some.
      warn_now_and_then("io_uring: no descriptor or no memory for the ring of another thread");
      end_withdrawn(completed);
      if (completed.empty() && until != Deadline::immediately()) {
        pause_for(system_, shortage_pause_ms(0));
      }
    }
    return Entered::interrupted;  // the next wait goes on from here
  }
  if (entered == Entered::congested && !ring_->has_completions()) {
    // Nothing to reap and no room to submit: wait for a completion, but try again soon.
    entered = ring_->wait_only(std::min(until, next_try()));
    if (entered == Entered::congested && until != Deadline::immediately()) {
      pause_for(system_, 1);  // not even a wait is possible
    }
    if (entered == Entered::timed_out) entered = Entered::congested;
  }
  if (BATON_UNLIKELY(entered == Entered::refused)) {
    note_refusal(errno);
    return Entered::interrupted;  // the next wait goes on from here
  }
  return entered;
}

// Operations that were cancelled before the kernel had them need no ring to end.
void IoUringEngine::end_withdrawn(OperationQueue& completed) noexcept {
  for (;;) {
    abi::Sqe* withdrawn = nullptr;
    ring_->for_each_unsubmitted([&](abi::Sqe& request) {
      mutex_.assume_held();
      const bool is_one = request.opcode == abi::op_nop && request_of(request.user_data) != nullptr;
      if (is_one && withdrawn == nullptr) withdrawn = &request;
    });
    if (withdrawn == nullptr) return;
    // As the kernel would answer it. The tag of an operation is used once.
    settle_any(
        {.user_data = std::exchange(withdrawn->user_data, wake_tag), .result = 0, .flags = 0},
        completed);
  }
}

Entered IoUringEngine::submit_ring() noexcept {
  const Entered entered = ring_->submit();
  if (BATON_LIKELY(entered != Entered::foreign)) return entered;
  return take_over() == 0 ? ring_->submit() : Entered::congested;  // the next wait finds out why
}

// The owner of a pinned ring has gone, with nothing left in the kernel, and another thread takes
// its place. It gets a ring of its own, with the requests that were prepared but not submitted.
// Returns 0 or an errno.
int IoUringEngine::take_over() noexcept {
  mutex_.assume_held();
  if (in_kernel_ != prepared()) {
    BATON_UNREACHABLE("a pinned ring with operations in flight was entered by another thread");
  }
  auto fresh = Ring::open(system_, ring_options_);
  if (!fresh) return fresh.error();
  ring_->for_each_unsubmitted([&](const abi::Sqe& request) {
    if (request.user_data == wake_tag) return;
    *(*fresh)->claim() = request;  // as many entries as the old one has
    (*fresh)->publish();
  });
  ring_.swap(*fresh);
  leave_ring(std::move(*fresh));
  return 0;
}

// Number of prepared requests of operations that are not submitted yet.
std::uint32_t IoUringEngine::prepared() const noexcept {
  std::uint32_t count = 0;
  ring_->for_each_unsubmitted([&](const abi::Sqe& request) {
    if (request.user_data != wake_tag && !is_cancel_tag(request.user_data)) ++count;
  });
  return count;
}

void IoUringEngine::leave_ring(std::unique_ptr<Ring> old) noexcept {
  if (message_target_.load(std::memory_order_relaxed) >= 0) {
    retired_ = std::move(old);
    stop_messages();
  }
  wake_armed_ = false;
}

bool IoUringEngine::unpin(OperationQueue& completed) noexcept {
  if (!ring_options_.pinned) return true;
  if (is_lost()) {
    ring_options_.pinned = false;
    info_.leader_rule = LeaderRule::any;
    return true;
  }
  if (!may_unpin_) return false;
  mutex_.assume_held();
  leave_limited_writes_to_workers();
  ring_options_.pinned = false;
  const bool done = in_kernel_ == prepared() ? take_over() == 0 : move_to_new_ring(completed);
  ring_options_.pinned = !done;
  if (done) info_.leader_rule = LeaderRule::any;
  return done;
}

bool IoUringEngine::move_to_new_ring(OperationQueue& completed) noexcept {
  auto fresh = Ring::open(system_, ring_options_);
  if (!fresh) return false;
  ring_.swap(*fresh);
  if (empty_ring(**fresh, completed)) {
    leave_ring(std::move(*fresh));
  } else {
    ring_.swap(*fresh);  // the engine is lost, with the requests in the old ring: see wait_lost
  }
  return true;
}

// Every request in the kernel ends as cancelled. The program has not asked for that, so each is
// issued again, into the new ring, and continues there.
bool IoUringEngine::empty_ring(Ring& old, OperationQueue& completed) noexcept {
  std::uint32_t left = in_kernel_;
  const auto take = [&](abi::Cqe completion) {
    mutex_.assume_held();
    const std::uint64_t tag = completion.user_data;
    if (!is_cancel_tag(tag) && tag != wake_tag && tag != message_tag) --left;
    // A read may end with ECANCELED because a timer's clock was set. This one was cancelled by us.
    const Request* const named = request_of(tag);
    if (completion.result == -ECANCELED && named != nullptr &&
        named->operation->kind() == OperationKind::read_stream) {
      completion.result = -EINTR;
    }
    static_cast<void>(settle_any(completion, completed));
  };
  const auto take_some = [&](Deadline until) {
    const Entered entered = old.submit_and_wait(until);
    old.pop_each(limits::reports_max, take);
    return entered == Entered::done;
  };
  // One by one at first. To cancel all, the kernel looks for each among those that it has cancelled
  // and that have not ended: 20,000 idle connections took 7 s. So these end in small lots.
  // A transfer that the disk has begun does not, and the rest is left to the cancel below.
  constexpr std::uint32_t lot = 128;
  std::uint32_t asked = 0;
  bool all_end = true;
  for (std::uint32_t slot = 0; all_end && slot < requests_.used(); ++slot) {
    const Request& named = requests_[slot];
    if (named.operation == nullptr || progress(*named.operation).place != Place::kernel) continue;
    abi::Sqe* request = old.claim();
    if (request == nullptr && take_some(Deadline::immediately())) request = old.claim();
    if (request == nullptr) break;
    request->opcode = abi::op_async_cancel;
    request->fd = -1;
    request->address = tag_of(slot, named.generation);
    request->user_data = cancel_tag | no_index;
    old.publish();
    if (++asked % lot != 0) continue;
    const std::uint32_t goal = left - std::min(left, lot);
    for (const Deadline soon = next_try(); all_end && left > goal;) all_end = take_some(soon);
  }
  do {
    if (abi::Sqe* const request = old.claim(); request != nullptr) {
      request->opcode = abi::op_async_cancel;
      request->fd = -1;
      request->operation_flags = abi::cancel_all | abi::cancel_any;
      request->user_data = cancel_tag | no_index;
      old.publish();
    }
    // A transfer that the disk has begun is not cancelled; the cancel is repeated now and then.
    const Deadline soon = next_try();
    Entered entered = old.submit_and_wait(soon);
    while (entered == Entered::done && left > 0) {
      old.pop_each(limits::reports_max, take);
      if (left > 0) entered = old.wait_only(soon);
    }
    const int error = errno;
    old.pop_each(limits::reports_max, take);
    if (BATON_UNLIKELY(entered == Entered::refused)) {
      note_refusal(error);
      return false;
    }
  } while (left > 0);
  return true;
}

// Interrupters may still send messages to the old ring, so it stays open and keeps its number. From
// now on they write to event_. Either an interrupter comes later and sees that there is no target,
// or its flag is seen here and this thread writes for it. seq_cst on both words: each side stores
// one and then loads the other.
void IoUringEngine::stop_messages() noexcept {
  message_target_.store(-1, std::memory_order_seq_cst);
  if (wake_pending_.load(std::memory_order_seq_cst)) write_event();
}

}  // namespace baton::engines::uring
