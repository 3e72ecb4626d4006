// Operations that the kernel has no room for, or that rest after a fruitless try.
#include "engines/io_uring/io_uring_engine.hpp"

#include <errno.h>
#include <sys/socket.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "baton/limits.hpp"
#include "engines/common/pauses.hpp"
#include "engines/common/transfer.hpp"

namespace baton::engines::uring {
namespace {

constexpr std::int64_t ns_per_ms = 1'000'000;

}  // namespace

// Called only after the kernel was short of memory, or had completions to deliver first. That is so
// rare that a search is better than a list.
void IoUringEngine::submit_postponed(OperationQueue& done) noexcept {
  for (std::uint32_t slot = 0; postponed_ > 0 && slot < requests_.used(); ++slot) {
    Operation* const operation = requests_[slot].operation;
    if (operation == nullptr) continue;
    Progress& state = progress(*operation);
    const std::uint32_t before = postponed_;
    if (state.place == Place::postponed) {
      --postponed_;
      if (state.cancelled) {
        settle_request(*operation, -ECANCELED, done);
      } else {
        Lane* const lane = lane_of(*operation);
        issue(*operation);
        if (lane != nullptr) pump(*lane, done);
      }
    } else if (state.cancel_postponed) {
      --postponed_;
      state.cancel_postponed = false;
      send_cancel(*operation);
    } else {
      continue;
    }
    if (postponed_ >= before) return;  // still no room
  }
}

void IoUringEngine::back_off(Operation& operation) noexcept {
  Progress& state = progress(operation);
  const bool shortage =
      operation.kind() == OperationKind::accept || operation.kind() == OperationKind::connect;
  // Another accept has got a connection since this one last failed: the shortage was over.
  if (operation.kind() == OperationKind::accept &&
      std::exchange(state.epoch, accepted_) != accepted_) {
    state.failures = 0;
  }
  const std::uint32_t pause_ms =
      shortage ? shortage_pause_ms(state.failures) : fruitless_pause_ms(state.failures);
  if (state.failures < failures_max) ++state.failures;
  const auto now_ms = static_cast<std::uint64_t>(system_.monotonic_ns() / ns_per_ms);
  state.due_ns = static_cast<std::int64_t>(end_of_pause_ms(now_ms, pause_ms)) * ns_per_ms;
  begin_rest(state);
  if (operation.kind() != OperationKind::accept) return;
  count(accept_backoffs_);
  warn_now_and_then("io_uring: accept is out of descriptors, handles or memory; it stays pending");
}

void IoUringEngine::begin_rest(Progress& state) noexcept {
  state.place = Place::backing_off;
  list(state);
}

// Datagrams that wait for one peer form a queue, and the first one is tried. The report of room
// would wake all of them, and the pauses of those in vain would grow although the peer reads.
bool IoUringEngine::queues_behind_another(Operation& operation) noexcept {
  Progress& state = progress(operation);
  if (operation.kind() != OperationKind::write_datagram || state.queues) return false;
  Lane& lane = handles_[operation.handle()->index()].writes;
  const Operation* const first = lane.queue.front();
  if (first != nullptr &&
      (first->kind() != OperationKind::write_datagram || !go_to_the_same(operation, *first))) {
    return false;
  }
  state.queues = true;
  lane.queue.push_back(operation);
  lane.covered = 1;
  if (first == nullptr) return false;
  state.place = Place::lane;
  state.step = Step::perform;
  return true;
}

// The poll of a UNIX datagram socket does not tell of the connected peer's room while other peers
// that do not read hold a quarter of the socket's memory, nor that the program has shut its writing
// side (shutdown(2)). So the poll ends after a while, and the write is tried again.
void IoUringEngine::look_later(Operation& operation) noexcept {
  if (operation.kind() != OperationKind::write_datagram) return;
  int domain = 0;
  socklen_t size = sizeof(domain);
  const NativeHandle socket = operation.handle()->native();
  if (system_.getsockopt(socket, SOL_SOCKET, SO_DOMAIN, &domain, &size) != 0) return;
  if (domain != AF_UNIX) return;
  Progress& state = progress(operation);
  state.looks = true;
  state.due_ns = system_.monotonic_ns() + peer_look_ms * ns_per_ms;
  list(state);
}

void IoUringEngine::list(Progress& state) noexcept {
  Request& request = requests_[state.slot];
  request.previous_resting = no_index;
  request.next_resting = resting_;
  look_ns_ = resting_ == no_index ? state.due_ns : std::min(look_ns_, state.due_ns);
  if (resting_ != no_index) requests_[resting_].previous_resting = state.slot;
  resting_ = state.slot;
}

// The accepts of a listener have one pause, however many are pending: each that looked for itself
// would turn another client away. False: none of them rests.
bool IoUringEngine::rest_with_another(Operation& operation) noexcept {
  if (operation.kind() != OperationKind::accept) return false;
  for (std::uint32_t slot = resting_; slot != no_index; slot = requests_[slot].next_resting) {
    Operation& other = *requests_[slot].operation;
    if (other.kind() != OperationKind::accept || other.handle() != operation.handle()) continue;
    Progress& state = progress(operation);
    state.due_ns = progress(other).due_ns;
    state.failures = progress(other).failures;
    state.epoch = progress(other).epoch;
    begin_rest(state);
    return true;
  }
  return false;
}

void IoUringEngine::stop_resting(Operation& operation) noexcept {
  progress(operation).looks = false;
  const Request& request = requests_[progress(operation).slot];
  const std::uint32_t previous = request.previous_resting;
  const std::uint32_t next = request.next_resting;
  (previous == no_index ? resting_ : requests_[previous].next_resting) = next;
  if (next != no_index) requests_[next].previous_resting = previous;
}

// Retries operations that are due, not all at once if they are thousands. Returns the deadline, or
// the earlier end of a back-off.
Deadline IoUringEngine::retry_backed_off(Deadline deadline, OperationQueue& done) noexcept {
  if (BATON_LIKELY(resting_ == no_index)) return deadline;
  const std::int64_t now = system_.monotonic_ns();
  if (look_ns_ > now) return std::min(deadline, next_retry());
  look_ns_ = std::numeric_limits<std::int64_t>::max();
  std::int64_t first = look_ns_;
  std::size_t tried = 0;
  // An operation that backs off again is put before those that are still to come.
  for (std::uint32_t slot = resting_; slot != no_index;) {
    Operation& operation = *requests_[slot].operation;
    slot = requests_[slot].next_resting;
    const std::int64_t due_ns = progress(operation).due_ns;
    if (due_ns > now || tried == limits::reports_max) {
      first = std::min(first, due_ns);
      continue;
    }
    ++tried;
    stop_resting(operation);
    if (progress(operation).place == Place::kernel) {
      send_cancel(operation);  // of its poll
    } else {
      go_on(operation, Verdict::again, done);
    }
  }
  look_ns_ = std::min(look_ns_, first);
  return std::min(deadline, next_retry());
}

}  // namespace baton::engines::uring
