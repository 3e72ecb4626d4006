// The emulated engine's operations that workers do: files, streams without readiness, a blocking
// connect, a close that may block.
//
// Order. Positional reads and writes promise none and go to the workers side by side. Operations in
// order (Operation::append, and streams) go one at a time for each direction. A sync_file covers
// the writes that were started before it: it is held until the workers have none of them, and what
// is started after it is held behind it, so that a stream of writes cannot hold it up for ever. It
// holds them only until it is given to a worker, not until it is done.
//
// A direction's queue has here what is held; what a worker has is in no queue of the engine. When a
// worker is done, the leader takes the operation back and sees what may go next, so that directions
// are touched by nobody but the threads that use the engine.
#include <errno.h>

#include "base/assert.hpp"
#include "engines/emulated/emulated_engine.hpp"

namespace baton::engines::emulated {
namespace {

// Counted in Direction::workers_have, as a sync has to wait for it.
bool is_transfer(const Operation& operation) noexcept {
  return operation.kind() != OperationKind::sync_file &&
         operation.kind() != OperationKind::connect && operation.kind() != OperationKind::close;
}

}  // namespace

Submission EmulatedEngine::submit_to_workers(Operation& operation, Record& record,
                                             Direction& direction) noexcept {
  const bool side_by_side = is_transfer(operation) && !is_ordered(operation);
  if (side_by_side) {
    {
      os::LockGuard guard{direction.mutex, system_, concurrent_};
      progress(operation) = Progress{};
    }
    // Without the lock: copying out of the page cache takes its time, and others may do the same.
    if (performer_.try_file(operation, record.no_wait_writes)) {
      Performer::settle_pooled(operation);
      return Submission::completed;
    }
  }
  os::LockGuard guard{direction.mutex, system_, concurrent_};
  if (!side_by_side) progress(operation) = Progress{};
  if (refused(operation)) return Submission::completed;
  if (is_ordered(operation) && direction.queue.empty() && !direction.ordered &&
      performer_.try_file(operation, record.no_wait_writes)) {
    Performer::settle_pooled(operation);
    return Submission::completed;
  }
  OperationQueue failed;
  progress(operation).owner = &direction;
  if (operation.kind() == OperationKind::connect) {
    give_to_worker(operation, direction, failed);
  } else {
    direction.queue.push_back(operation);
    dispatch(direction, failed);
  }
  if (failed.empty()) return Submission::pending;
  failed.erase(operation);
  BATON_ASSERT(failed.empty());  // held ones wait for workers, so there are some
  return Submission::completed;
}

// close(2) by the thread that asks, unless it may block. The handle is detached.
Submission EmulatedEngine::submit_close(Operation& operation) noexcept {
  const Handle& handle = *operation.handle();
  if (!handle.owned()) {
    operation.finish(0);
    return Submission::completed;
  }
  if (!handle.close_may_block()) {
    operation.finish(performer_.close_now(handle.native()));
    return Submission::completed;
  }
  os::LockGuard guard{closing_.mutex, system_, concurrent_};
  progress(operation) = Progress{};
  progress(operation).owner = &closing_;
  OperationQueue failed;
  give_to_worker(operation, closing_, failed);
  if (failed.empty()) return Submission::pending;
  // No thread to be had: a close that may block is better than a descriptor that leaks.
  failed.erase(operation);
  operation.finish(performer_.close_now(handle.native()));
  return Submission::completed;
}

bool EmulatedEngine::admissible(const Operation& operation, const Direction& direction) noexcept {
  if (operation.kind() == OperationKind::sync_file) return direction.workers_have == 0;
  if (is_ordered(operation) && direction.ordered) return false;
  return direction.workers_have < workers_share_max;
}

void EmulatedEngine::dispatch(Direction& direction, OperationQueue& completed) noexcept {
  while (!direction.queue.empty() && admissible(*direction.queue.front(), direction)) {
    give_to_worker(direction.queue.pop_front(), direction, completed);
  }
}

void EmulatedEngine::give_to_worker(Operation& operation, Direction& direction,
                                    OperationQueue& completed) noexcept {
  progress(operation).place = Place::worker;
  if (is_transfer(operation)) {
    ++direction.workers_have;
    if (is_ordered(operation)) direction.ordered = true;
  }
  const int error = workers_.submit(operation);
  if (error == 0) return;
  // EAGAIN: there is no worker, and no thread can be started.
  back_from_worker(operation, direction);
  operation.finish(error);
  leave(operation, nullptr);
  completed.push_back(operation);
}

void EmulatedEngine::back_from_worker(const Operation& operation, Direction& direction) noexcept {
  if (!is_transfer(operation)) return;
  BATON_ASSERT(direction.workers_have > 0);
  --direction.workers_have;
  if (is_ordered(operation)) direction.ordered = false;
}

void EmulatedEngine::take_from_workers(OperationQueue& completed) noexcept {
  OperationQueue finished;
  workers_.take_finished(finished);
  while (!finished.empty()) {
    Operation& operation = finished.pop_front();
    Direction& direction = *progress(operation).owner;
    os::LockGuard guard{direction.mutex, system_, concurrent_};
    back_from_worker(operation, direction);
    leave(operation, nullptr);
    completed.push_back(operation);
    dispatch(direction, completed);
  }
}

}  // namespace baton::engines::emulated
