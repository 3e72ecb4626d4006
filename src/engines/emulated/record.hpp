// The emulated engine's records of a handle and of an operation.
//
// A handle has two independent directions, each with its lock and its queue, so that reads and
// writes of one connection run in two threads without contention (full duplex). Only a wait_ready
// for both connects them; it waits in `in` (see Record::both_waiting).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "baton/handle.hpp"
#include "baton/operation.hpp"
#include "baton/operation_queue.hpp"
#include "engines/common/attempt.hpp"
#include "engines/common/file_order.hpp"
#include "engines/common/worker_pool.hpp"
#include "os/mutex.hpp"

namespace baton::engines::emulated {

/// Of BackOffs: whether the direction is in its list. One that was removed stays until the leader
/// passes it.
enum class Listed : std::uint8_t { no, yes, removed };

struct Direction {
  os::Mutex mutex;
  std::uint32_t next_sleeper = 0;  // of BackOffs: its list
  OperationList queue BATON_GUARDED_BY(mutex);
  std::uint32_t wake_ms = 0;                              // of BackOffs
  FileOrder order BATON_GUARDED_BY(mutex);                // of the operations that workers have
  Listed listed = Listed::no;                             // of BackOffs
  std::uint8_t failures : 5 BATON_GUARDED_BY(mutex) = 0;  // consecutive; see common/pauses.hpp
  std::uint8_t asleep : 1 BATON_GUARDED_BY(mutex) =
      false;  // rests, or waits for a worker's connect
  // Whether it is a UNIX socket's; found out when a write first has to wait.
  std::uint8_t asked : 1 BATON_GUARDED_BY(mutex) = false;
  std::uint8_t is_unix : 1 BATON_GUARDED_BY(mutex) = false;
};

struct Record {
  Direction in;   // read_*, accept, wait_ready for input (or for both)
  Direction out;  // write_*, connect, shutdown, sync_file, wait_ready for room
  // Set by attach and detach, under both mutexes.
  NativeHandle fd = invalid_handle;
  std::uint32_t index = 0;
  bool owned : 1 = true;
  bool watchable : 1 = false;  // known to the demultiplexer
  bool fast : 1 = false;       // a socket for EmulatedEngine::send_fast, receive_fast
  std::uint8_t : 0;            // what follows is changed under in.mutex alone
  /// A fast record whose input stays watched until it is dropped: a read need only be queued.
  bool fast_in : 1 = false;
  /// Of a listener: connections that starts may still take because of the last report. Negative:
  /// so many reports follow of which starts take none.
  std::int8_t accepts_ahead : 7 = 0;
  /// The file has no readiness: workers do its operations. Found at attach, or by the first watch.
  std::atomic<bool> by_workers{false};
  std::atomic<bool> no_wait_writes{true};  // see FileCalls::try_now
  /// Number of wait_ready operations for both directions, in `in`; changed under in.mutex. While
  /// there is one, reports of output without an operation in `out` are for it.
  std::atomic<std::uint32_t> both_waiting{0};
};
static_assert(sizeof(Record) <= 80, "one per handle: idle connections should be cheap");

enum class Place : std::uint8_t { queued, worker };

/// The engine's part of an operation. `owner`, guarded by the owner's mutex, tells that the
/// operation is in the engine: it is set when the operation becomes visible and cleared when it
/// leaves. A cancel that comes before submit or after the end finds null (or an old value, never
/// this direction).
struct Progress {
  WorkerJob job;  // first: see WorkerJob
  Place place = Place::queued;
  // Of a connect:
  bool goes_on = false;   // a worker has tried it, and no worker need wait for it
  bool is_retry = false;  // counted in EmulatedEngine::retries_
  Direction* owner = nullptr;
  Attempt attempt;
};
static_assert(offsetof(Progress, job) == 0);

inline Progress& progress(Operation& operation) noexcept {
  return operation.engine_state<Progress>();
}

// A connect of a borrowed socket in blocking mode: there is no MSG_DONTWAIT for it.
inline bool may_block(const Operation& operation) noexcept {
  return operation.kind() == OperationKind::connect && !operation.handle()->nonblocking();
}

inline bool is_socket(const Handle& handle) noexcept {
  return handle.kind() != HandleKind::pipe && handle.kind() != HandleKind::file;
}

inline bool is_input(const Operation& operation) noexcept {
  switch (operation.kind()) {
    case OperationKind::read_stream:
    case OperationKind::read_file:
    case OperationKind::read_datagram:
    case OperationKind::accept:
      return true;
    case OperationKind::wait_ready:
      return operation.has(Operation::readable);
    default:
      return false;
  }
}

inline bool waits_for_both(const Operation& operation) noexcept {
  return operation.kind() == OperationKind::wait_ready && operation.has(Operation::readable) &&
         operation.has(Operation::writable);
}

}  // namespace baton::engines::emulated
