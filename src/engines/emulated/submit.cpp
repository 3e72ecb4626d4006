// Starts that do not take the fast path, datagrams to several peers, and cancels.
#include "engines/emulated/emulated_engine.hpp"

#include <errno.h>

#include <algorithm>
#include <utility>

#include "base/assert.hpp"
#include "baton/endpoint.hpp"
#include "engines/common/pauses.hpp"
#include "engines/common/transfer.hpp"

namespace baton::engines::emulated {
namespace {

// Writes usually succeed at once and reads usually have to wait, so writes are tried first. A
// handle that cannot be read, or does not listen, fails at once.
bool tries_first(const Operation& operation) noexcept {
  return !is_input(operation) || waits_for_both(operation) || !operation.handle()->readable();
}

}  // namespace

// -- starting -------------------------------------------------------------------------------------

Submission EmulatedEngine::submit_generally(Operation& operation, bool try_first) noexcept {
  if (operation.kind() == OperationKind::close) return submit_close(operation);
  Record& record = record_of(operation);
  Direction& direction = direction_of(record, operation);
  // relaxed: set before the first operation, or by a failed watch, whose effect on the queue is
  // guarded by the mutex.
  const bool by_workers = record.by_workers.load(std::memory_order_relaxed);
  switch (operation.kind()) {
    case OperationKind::read_file:
    case OperationKind::write_file:
    case OperationKind::sync_file:
      if (by_workers) return submit_to_workers(operation, record, direction);
      // The kernel answers the same for sockets and pipes.
      operation.finish(operation.kind() == OperationKind::sync_file ? EINVAL : ESPIPE);
      return Submission::completed;
    case OperationKind::read_stream:
    case OperationKind::write_stream:
      if (by_workers) return submit_to_workers(operation, record, direction);
      return submit_watched(operation, record, direction, try_first);
    case OperationKind::connect:
      if (!by_workers && may_block(operation)) return submit_connect(operation, direction);
      break;
    case OperationKind::accept:
      performer_.prepare_spare();
      break;
    default:
      break;
  }
  if (by_workers) return submit_unwatchable(operation, direction);
  return submit_watched(operation, record, direction, true);
}

// The operation was cancelled before it became visible. REQUIRES: the mutex of its direction, so
// that either this sees the mark or the cancel sees the operation.
bool EmulatedEngine::refused(Operation& operation) noexcept {
  if (!operation.cancel_asked()) return false;
  operation.finish(ECANCELED);
  Performer::settle_pooled(operation);
  return true;
}

// -- datagrams to several peers -------------------------------------------------------------------
//
// A UNIX datagram waits in the queue of its peer, so a full queue of one peer says nothing about
// the others.

bool EmulatedEngine::waits_for_its_peer(const Operation& operation) noexcept {
  if (operation.kind() != OperationKind::write_datagram) return false;
  const Endpoint* const peer = operation.endpoint();  // null: the connected one
  return peer == nullptr || peer->family() == AddressFamily::unix_domain;
}

// Moves the first operation of the queue, and all behind it that go to the same peer, to `refused`.
void EmulatedEngine::set_aside(OperationList& queue, OperationList& refused) noexcept {
  Operation& first = *queue.front();
  for (Operation* each = &first; each != nullptr;) {
    Operation& operation = *std::exchange(each, OperationList::next(*each));
    if (!waits_for_its_peer(operation) || !go_to_the_same(operation, first)) continue;
    queue.erase(operation);
    refused.push_back(operation);
  }
}

// Datagrams to one peer keep their order. A wait for room delays nothing: there is room for a few
// bytes long before the system reports it.
bool EmulatedEngine::passes(const Operation& operation, const OperationList& queue) noexcept {
  if (is_input(operation) || operation.kind() == OperationKind::connect) return false;
  const bool to_a_peer = waits_for_its_peer(operation);
  for (const Operation* each = queue.front(); each != nullptr; each = OperationList::next(*each)) {
    if (each->kind() == OperationKind::wait_ready) continue;
    if (!to_a_peer || !waits_for_its_peer(*each) || go_to_the_same(*each, operation)) {
      return false;
    }
  }
  return true;
}

// A connected socket has no room for the system as long as its peer is full, whoever else has room.
// So datagrams to others are tried again soon, and then at growing intervals.
std::uint32_t EmulatedEngine::span_of_look(Direction& direction) noexcept {
  const Operation* each = direction.queue.front();
  while (each != nullptr && (!waits_for_its_peer(*each) || each->endpoint() == nullptr)) {
    each = OperationList::next(*each);
  }
  if (each == nullptr) return peer_look_ms;
  constexpr unsigned doublings_max = 7;
  const unsigned failures = direction.failures;
  if (failures < failures_max) ++direction.failures;
  return 1U << std::min(failures, doublings_max);
}

// The first operation that is not a wait for readiness, or null.
const Operation* EmulatedEngine::behind_waits(const OperationList& queue) noexcept {
  const Operation* each = queue.front();
  while (each != nullptr && each->kind() == OperationKind::wait_ready) {
    each = OperationList::next(*each);
  }
  return each;
}

// Transfers until a call finds no room. After such a call every strategy reports the next room.
Outcome EmulatedEngine::perform_ahead(Operation& operation) noexcept {
  Outcome outcome = Outcome::partial;
  while (outcome == Outcome::partial) outcome = performer_.perform(operation);
  return outcome;
}

// A shortage is left to the report: without a connection it would be a pause for nothing. A call
// that finds no connection costs as much as a quarter of what a connection costs the kernel, so it
// is not made for connections that come one by one.
bool EmulatedEngine::take_waiting_connection(Operation& accept, Record& record) noexcept {
  if (record.accepts_ahead <= 0) return false;
  if (performer_.accept_at_once(accept)) {
    --record.accepts_ahead;
    return true;
  }
  record.accepts_ahead = record.accepts_ahead == calls_max ? -single_accepts : 0;
  return false;
}

Submission EmulatedEngine::submit_watched(Operation& operation, Record& record,
                                          Direction& direction, bool try_first) noexcept {
  OperationQueue completed;
  {
    os::LockGuard guard{direction.mutex, system_, concurrent_};
    progress(operation) = Progress{};
    if (refused(operation)) return Submission::completed;
    const bool first = direction.queue.empty();
    if (operation.kind() == OperationKind::read_stream &&
        behind_waits(direction.queue) == nullptr && Performer::needs_no_transfer(operation)) {
      return Submission::completed;
    }
    if (first && operation.kind() == OperationKind::accept) {
      record.in.mutex.assume_held();  // it is that of `direction`
      if (take_waiting_connection(operation, record)) return Submission::completed;
    }
    const bool ahead = !first && direction.order.idle() && passes(operation, direction.queue);
    if (ahead && perform_ahead(operation) == Outcome::done) return Submission::completed;
    progress(operation).owner = &direction;
    direction.queue.push_back(operation);
    if (ahead && !direction.asleep) {
      look_later(record, direction, false, span_of_look(direction));
    }
    if (waits_for_both(operation)) record.both_waiting.fetch_add(1, std::memory_order_relaxed);
    if (first && !direction.asleep) {
      settle(record, direction, Cause::start, try_first && tries_first(operation), completed);
    }
    if (waits_for_both(operation) && completed.empty()) {
      settle_both(record, direction, &operation, completed);
    }
  }
  if (completed.empty()) return Submission::pending;
  completed.erase(operation);
  BATON_ASSERT(completed.empty());  // it was the only one
  return Submission::completed;
}

// A file without readiness is answered at once.
Submission EmulatedEngine::submit_unwatchable(Operation& operation, Direction& direction) noexcept {
  os::LockGuard guard{direction.mutex, system_, concurrent_};
  progress(operation) = Progress{};
  if (refused(operation)) return Submission::completed;
  if (performer_.perform(operation) != Outcome::done) operation.finish(EPERM);
  Performer::settle_pooled(operation);
  return Submission::completed;
}

// The operation is out of the engine. REQUIRES: the mutex of its direction.
void EmulatedEngine::leave(Operation& operation, Record* record) noexcept {
  if (record != nullptr && waits_for_both(operation)) {
    BATON_ASSERT(record->both_waiting.load(std::memory_order_relaxed) > 0);
    record->both_waiting.fetch_sub(1, std::memory_order_relaxed);
  }
  Performer::settle_pooled(operation);
  progress(operation).owner = nullptr;
}

// -- cancel ---------------------------------------------------------------------------------------

CancelAnswer EmulatedEngine::cancel(Operation& operation) noexcept {
  if (operation.kind() == OperationKind::close) return cancel_at(operation, nullptr, closing_);
  Record* const record = records_.find(operation.handle()->index());
  if (record == nullptr) return CancelAnswer::too_late;
  return cancel_at(operation, record, direction_of(*record, operation));
}

CancelAnswer EmulatedEngine::cancel_at(Operation& operation, Record* record,
                                       Direction& direction) noexcept {
  os::LockGuard guard{direction.mutex, system_, concurrent_};
  if (progress(operation).owner != &direction) return CancelAnswer::too_late;
  if (progress(operation).place == Place::worker) {
    // A close runs to its end in any case.
    if (record == nullptr || !workers_.cancel(operation)) return CancelAnswer::requested;
    came_back(operation, direction);
  } else {
    direction.queue.erase(operation);
  }
  operation.finish(ECANCELED);
  leave(operation, record);
  if (record->by_workers.load(std::memory_order_relaxed)) {
    OperationQueue failed;
    dispatch(direction, failed);
    BATON_ASSERT(failed.empty());  // only a first job can be refused, and there was one
  } else if (!direction.queue.empty()) {
    // What waited for a connect goes on, by the leader.
    if (operation.kind() == OperationKind::connect && direction.order.idle()) {
      rest(*record, direction, 0, false);
    }
  } else if (direction.order.idle()) {
    // The next operation need not wait for the end of another one's back-off.
    back_offs_.remove(direction);
    direction.asleep = false;
    let_go(*record, direction);
  }
  return CancelAnswer::completed;
}

}  // namespace baton::engines::emulated
