// Cancels of operations that wait in the engine, rest, or are in the kernel.
#include "engines/io_uring/io_uring_engine.hpp"

#include <errno.h>

#include <atomic>

#include "base/assert.hpp"

namespace baton::engines::uring {

Request* IoUringEngine::request_of(Operation& operation) noexcept {
  Request* const request = requests_.find(progress(operation).slot);
  return request != nullptr && request->operation == &operation ? request : nullptr;
}

CancelAnswer IoUringEngine::cancel(Operation& operation) noexcept {
  CancelAnswer answer = CancelAnswer::too_late;
  bool call_leader = false;
  {
    os::LockGuard guard{mutex_, system_, locked_};
    answer = cancel_here(operation);
    call_leader = locked_ && postponed_ > 0;
  }
  if (call_leader) interrupt();
  // No flush follows a cancel. An engine with one thread submits in the wait that comes next.
  if (locked_ && answer != CancelAnswer::too_late) flush();
  return answer;
}

// The kernel has yet to look up the file of the operation's number, which may be a borrowed
// descriptor's and name another file by then. So the request becomes one that does nothing. False:
// the kernel has it, or may have it, because another thread may be entering with it. The kernel
// then finds the number or none, and with none it answers EBADF.
bool IoUringEngine::withdraw(Operation& operation) noexcept {
  const std::uint64_t tag = tag_in_kernel(operation);
  bool found = false;
  ring_->for_each_unsubmitted([&](abi::Sqe& request) {
    if (request.user_data != tag) return;
    if (locked_) return std::atomic_ref{request.fd}.store(-1, std::memory_order_relaxed);
    request = abi::Sqe{};
    request.opcode = abi::op_nop;
    request.user_data = tag;
    found = true;
  });
  const Lane* const lane = lane_of(operation);
  const bool merged = lane != nullptr && lane->covered > 1;  // has then moved nothing
  if (found && !merged) progress(operation).step = Step::withdrawn;
  return found;
}

// Merged writes are in the kernel under the slot of the first one.
std::uint64_t IoUringEngine::tag_in_kernel(Operation& operation) noexcept {
  const Lane* const lane = lane_of(operation);
  Operation& first = lane != nullptr ? *lane->queue.front() : operation;
  const std::uint32_t slot = progress(first).slot;
  return tag_of(slot, requests_[slot].generation);
}

CancelAnswer IoUringEngine::cancel_here(Operation& operation) noexcept {
  if (request_of(operation) == nullptr) return CancelAnswer::too_late;
  Progress& state = progress(operation);
  if (state.cancelled) return CancelAnswer::requested;
  switch (state.place) {
    case Place::kernel:
      state.cancelled = true;
      // A close runs to its end in any case. A lost ring cancels everything.
      if (operation.kind() != OperationKind::close && !is_lost() && !withdraw(operation)) {
        send_cancel(operation);
      }
      return CancelAnswer::requested;
    case Place::postponed:
      state.cancelled = true;  // the leader sees it instead of submitting it
      return CancelAnswer::requested;
    case Place::lane:
      lane_of(operation)->queue.erase(operation);
      break;
    case Place::held:
      let_go_of_sync(operation);
      break;
    case Place::backing_off:
      stop_resting(operation);
      if (const Lane* const lane = lane_of(operation);
          lane != nullptr && lane->queue.has_several()) {
        // The leader ends it as if the kernel had cancelled it, and continues with the others.
        state.cancelled = true;
        state.place = Place::postponed;
        ++postponed_;
        return CancelAnswer::requested;
      }
      leave_lane(operation);
      break;
  }
  OperationQueue done;
  finish_cancelled(operation);
  retire(operation, done);
  done.erase(operation);
  BATON_ASSERT(done.empty());
  return CancelAnswer::completed;
}

// A cancelled held sync leaves its writes to the next one.
void IoUringEngine::let_go_of_sync(Operation& operation) noexcept {
  FileRecord& record = file_of(operation);
  Operation* const next = OperationList::next(operation);
  (next != nullptr ? progress(*next).writes_before : record.open_writes) +=
      progress(operation).writes_before;
  record.held_syncs.erase(operation);
}

void IoUringEngine::send_cancel(Operation& operation) noexcept {
  Progress& state = progress(operation);
  abi::Sqe* const request = claim();
  if (request == nullptr) {
    if (!state.cancel_postponed) ++postponed_;
    state.cancel_postponed = true;
    return;
  }
  request->opcode = abi::op_async_cancel;
  request->fd = -1;
  request->address = tag_in_kernel(operation);
  request->user_data = cancel_tag | state.slot;
  ring_->publish();
}

// The target's completion reports the outcome. But the kernel does not find (ENOENT) a request that
// is moving between two of its lists: a blocking connect to a UNIX listener whose backlog is full
// is retried as task work before a kernel worker has it. A target that was complete has reported
// that before this answer, so one that is still in the kernel was missed.
void IoUringEngine::settle_cancel(abi::Cqe completion) noexcept {
  if (completion.result != -ENOENT) return;
  const Request* const request = requests_.find(static_cast<std::uint32_t>(completion.user_data));
  if (request == nullptr || request->operation == nullptr) return;
  const Progress& state = progress(*request->operation);
  if (state.cancelled && state.place == Place::kernel) send_cancel(*request->operation);
}

}  // namespace baton::engines::uring
