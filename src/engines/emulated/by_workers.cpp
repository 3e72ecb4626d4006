// The operations of the emulated engine that workers do: files, streams without readiness, a
// blocking connect, a close that may block.
//
// Order: see FileOrder. Operations that may not start yet wait in the queue of their direction.
//
// A direction's queue holds the operations that wait. An operation that a worker has is in no queue
// of the engine. When the worker is done, the leader takes the operation from the pool and starts
// what may go next, so only the threads that use the engine touch directions.
#include <errno.h>

#include "base/assert.hpp"
#include "engines/common/closer.hpp"
#include "engines/common/transfer.hpp"
#include "engines/emulated/emulated_engine.hpp"

namespace baton::engines::emulated {

Submission EmulatedEngine::submit_to_workers(Operation& operation, Record& record,
                                             Direction& direction) noexcept {
  const bool side_by_side = is_transfer(operation) && !is_ordered(operation);
  if (side_by_side) {
    {
      os::LockGuard guard{direction.mutex, system_, concurrent_};
      progress(operation) = Progress{};
    }
    // Without the lock: copying out of the page cache takes time, and other threads may do the
    // same.
    if (try_file(operation, record)) {
      Performer::settle_pooled(operation);
      return Submission::completed;
    }
  }
  os::LockGuard guard{direction.mutex, system_, concurrent_};
  if (!side_by_side) progress(operation) = Progress{};
  if (refused(operation)) return Submission::completed;
  if (is_ordered(operation) && direction.queue.empty() && direction.order.orderly_idle() &&
      try_file(operation, record)) {
    Performer::settle_pooled(operation);
    return Submission::completed;
  }
  OperationQueue failed;
  progress(operation).owner = &direction;
  direction.queue.push_back(operation);
  dispatch(direction, failed);
  if (failed.empty()) return Submission::pending;
  failed.erase(operation);
  BATON_ASSERT(failed.empty());  // queued ones wait for running jobs, so there is a worker
  return Submission::completed;
}

// A blocking connect. What is started after it waits until it has ended.
Submission EmulatedEngine::submit_connect(Operation& operation, Direction& direction) noexcept {
  os::LockGuard guard{direction.mutex, system_, concurrent_};
  progress(operation) = Progress{};
  if (refused(operation)) return Submission::completed;
  progress(operation).owner = &direction;
  const bool first = direction.queue.empty() && !direction.asleep;
  direction.queue.push_back(operation);
  OperationQueue failed;
  if (!first || hand_over(direction, failed)) return Submission::pending;
  failed.erase(operation);
  BATON_ASSERT(failed.empty());
  return Submission::completed;
}

// close(2) by the calling thread, unless it may block. The handle is detached.
Submission EmulatedEngine::submit_close(Operation& operation) noexcept {
  const Handle& handle = *operation.handle();
  if (!handle.owned()) {
    operation.finish(0);
    return Submission::completed;
  }
  if (!handle.close_may_block()) {
    operation.finish(close_by_call(system_, handle.native()));
    return Submission::completed;
  }
  os::LockGuard guard{closing_.mutex, system_, concurrent_};
  progress(operation) = Progress{};
  progress(operation).owner = &closing_;
  OperationQueue failed;
  give_to_worker(operation, closing_, failed);
  if (failed.empty()) return Submission::pending;
  // No thread can be started: a close that may block is better than a descriptor that leaks.
  failed.erase(operation);
  operation.finish(close_by_call(system_, handle.native()));
  return Submission::completed;
}

bool EmulatedEngine::try_file(Operation& operation, Record& record) const noexcept {
  return performer_.files().try_now(operation, progress(operation).attempt, record.no_wait_writes);
}

void EmulatedEngine::dispatch(Direction& direction, OperationQueue& completed) noexcept {
  while (!direction.queue.empty() && direction.order.admits(*direction.queue.front())) {
    give_to_worker(direction.queue.pop_front(), direction, completed);
  }
}

bool EmulatedEngine::give_to_worker(Operation& operation, Direction& direction,
                                    OperationQueue& completed) noexcept {
  progress(operation).place = Place::worker;
  direction.order.began(operation);
  const int error = workers_.submit(operation);
  if (error == 0) return true;
  // ENOMEM: there is no worker, and no thread can be started.
  came_back(operation, direction);
  operation.finish(error);
  leave(operation, nullptr);
  completed.push_back(operation);
  return false;
}

// The first of the queue, a connect. The direction is asleep until it comes back.
bool EmulatedEngine::hand_over(Direction& direction, OperationQueue& completed) noexcept {
  Operation& connect = direction.queue.pop_front();
  Progress& state = progress(connect);
  state.is_retry = state.goes_on;
  if (state.is_retry) retries_.fetch_add(1, std::memory_order_relaxed);
  direction.asleep = true;
  return give_to_worker(connect, direction, completed);
}

// No worker has the operation any more.
void EmulatedEngine::came_back(Operation& operation, Direction& direction) noexcept {
  direction.order.ended(operation);
  if (operation.kind() != OperationKind::connect) return;
  direction.asleep = false;
  if (progress(operation).is_retry) retries_.fetch_sub(1, std::memory_order_relaxed);
}

void EmulatedEngine::take_from_workers(OperationQueue& completed) noexcept {
  OperationQueue finished;
  workers_.take_finished(finished);
  while (!finished.empty()) {
    Operation& operation = finished.pop_front();
    Direction& direction = *progress(operation).owner;
    os::LockGuard guard{direction.mutex, system_, concurrent_};
    came_back(operation, direction);
    if (operation.kind() == OperationKind::connect) {
      connect_tried(operation, direction, completed);
      continue;
    }
    leave(operation, nullptr);
    completed.push_back(operation);
    dispatch(direction, completed);
  }
}

// If it is not over: the connection is in progress, and readiness tells of its end. Or the
// listener's backlog is full, and a worker tries again after a pause.
void EmulatedEngine::connect_tried(Operation& operation, Direction& direction,
                                   OperationQueue& completed) noexcept {
  Record& record = records_[operation.handle()->index()];
  Progress& state = progress(operation);
  if (!state.goes_on || refused(operation)) {
    direction.failures = 0;
    leave(operation, nullptr);
    completed.push_back(operation);
    if (!direction.queue.empty()) settle(record, direction, Cause::look, true, completed);
    return;
  }
  state.place = Place::queued;
  direction.queue.push_front(operation);
  if (state.attempt.begun) {
    settle(record, direction, Cause::look, false, completed);
  } else {
    settled(record, direction, Ran::back_off, false, true);
  }
}

}  // namespace baton::engines::emulated
