// An engine whose ring has stopped working (see io_uring_engine.hpp).
//
// Any thread may find out. It interrupts the waiting thread, which does the rest. A filter need not
// bind all threads, so some may still be in an entry and submit queued requests. Every request
// therefore counts as being in the kernel until the witness has hung up, submitted or not. Whether
// the kernel has finished a request meanwhile is unknown.
#include <errno.h>
#include <poll.h>

#include <algorithm>
#include <new>
#include <string>

#include "base/tsan.hpp"
#include "baton/error.hpp"
#include "baton/reason_code.hpp"
#include "engines/common/closer.hpp"
#include "engines/common/look.hpp"
#include "engines/io_uring/io_uring_engine.hpp"

namespace baton::engines::uring {
namespace {

constexpr std::int64_t nap_ns = 10'000'000;

// The program has closed the ring: its number is free, or names another file.
bool is_closed(int error) noexcept { return error == EBADF || error == EOPNOTSUPP; }

std::string why_lost(int error) {
  if (error == EBADR) return "the kernel has lost a completion, for lack of memory";
  return "io_uring worked when it was opened and is refused now (" +
         std::system_category().message(error) + "), " +
         (is_closed(error) ? "the program has closed the ring's descriptor"
                           : "most likely by a filter of system calls");
}

// The kernel has closed its end of the witness. POLLNVAL: the program has closed ours.
bool has_hung_up(int seen) noexcept { return seen > 0 && (seen & (POLLIN | POLLHUP)) != 0; }

// For a process that may not poll. It uses no system call but the one that locks use.
void nap(const os::System& system, Deadline deadline) noexcept {
  std::atomic<std::uint32_t> word{0};
  system.futex_wait(&word, 0, std::min(deadline.ns(), system.monotonic_ns() + nap_ns));
}

timespec span_until(const os::System& system, Deadline deadline) noexcept {
  const std::int64_t left = deadline.remaining(Deadline::at_ns(system.monotonic_ns())).count();
  return {left / 1'000'000'000, left % 1'000'000'000};
}

}  // namespace

void IoUringEngine::note_refusal(int error) noexcept {
  os::LockGuard guard{mutex_, system_, locked_};
  lost_.store(error, std::memory_order_relaxed);
  wake_armed_ = false;
  try {
    log(LogLevel::error,
        with_code(
            "io_uring: the engine is lost, its operations end with engine_lost: " + why_lost(error),
            ReasonCode::taken_away));
  } catch (const std::bad_alloc&) {
    // No memory for a line of the log: drop it.
  }
}

Submission IoUringEngine::refuse(Operation& operation) const noexcept {
  if (operation.kind() == OperationKind::close) return Submission::busy;  // the caller closes
  progress(operation) = Progress{};
  finish_lost(operation);
  return Submission::completed;
}

void IoUringEngine::wait_lost(OperationQueue& completed, Deadline deadline) noexcept {
  if (!ring_->is_let_go()) let_go_of_ring(completed);
  if (!completed.empty()) deadline = Deadline::immediately();
  pollfd list[] = {{event_, POLLIN, 0}, {ring_->witness(), POLLIN, 0}};
  const timespec span = deadline.is_never() ? timespec{} : span_until(system_, deadline);
  const int ready = system_.ppoll(list, 2, deadline.is_never() ? nullptr : &span, nullptr);
  if (ready < 0 && errno == EINTR) return;
  // EINVAL: RLIMIT_NOFILE is less than two. POLLNVAL: the program has closed our descriptors.
  if (ready < 0 || ((list[0].revents | list[1].revents) & POLLNVAL) != 0) {
    nap(system_, deadline);
    constexpr timespec at_once{};
    for (pollfd& entry : list) {
      const int seen = entry.fd >= 0 ? look(system_, entry.fd, POLLIN, &at_once) : 0;
      entry.revents = static_cast<short>(std::max(seen, 0));
    }
  }
  if ((list[0].revents & POLLIN) != 0) {
    std::uint64_t writes = 0;
    system_.read(event_, &writes, sizeof(writes));
    wake_pending_.exchange(false, std::memory_order_seq_cst);  // as in settle_wake
  }
  if (has_hung_up(list[1].revents)) {
    os::LockGuard guard{mutex_, system_, locked_};
    ring_->close_witness();
    end_all(completed);
  }
}

// Takes the last completions first. The interrupt is needed because the ring may have lost one.
void IoUringEngine::let_go_of_ring(OperationQueue& completed) noexcept {
  os::LockGuard guard{mutex_, system_, locked_};
  take_the_last(completed);
  // A close that was not submitted still has to be made. Other unsubmitted requests had no effect.
  ring_->for_each_unsubmitted([&](const abi::Sqe& request) {
    mutex_.assume_held();
    const Request* const named = request_of(request.user_data);
    if (named == nullptr || request.opcode != abi::op_close) return;
    progress(*named->operation).place = Place::postponed;
  });
  if (!ring_->let_go(is_closed(lost_.load(std::memory_order_relaxed)))) {
    log(LogLevel::error,
        "io_uring: the system refuses to unmap the ring (mmap); operations in the kernel stay "
        "pending, because it may still write to their memory");
  }
  message_target_.store(-1, std::memory_order_seq_cst);
  write_event();
}

// The kernel has nothing of the engine any more.
void IoUringEngine::end_all(OperationQueue& done) noexcept {
  resting_ = no_index;
  for (std::uint32_t slot = 0; slot < requests_.used(); ++slot) {
    Operation* const operation = requests_[slot].operation;
    if (operation == nullptr) continue;
    BATON_TSAN_ACQUIRE(operation);
    const Progress& state = progress(*operation);
    if (Lane* const lane = lane_of(*operation); lane != nullptr) {
      lane->queue.erase(*operation);
      lane->covered = 0;
    }
    if (state.place == Place::held) let_go_of_sync(*operation);
    if (operation->kind() == OperationKind::close) {
      end_close(*operation);
    } else if (state.cancelled) {
      finish_cancelled(*operation);
    } else {
      finish_lost(*operation);
    }
    retire(*operation, done);
  }
  BATON_ASSERT(in_flight_ == 0);
  in_kernel_ = 0;
  postponed_ = 0;
}

// A submitted close may have happened, and the number may belong to another file by now.
void IoUringEngine::end_close(Operation& operation) noexcept {
  if (progress(operation).place != Place::postponed) {
    finish_lost(operation);
    return;
  }
  operation.finish(close_by_call(system_, operation.handle()->native()));
}

}  // namespace baton::engines::uring
