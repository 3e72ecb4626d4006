// The linux_aio engine's records of a file and of an operation.
//
// Every operation in the engine has a slot, also one that a worker does: the table of slots lists
// them. The engine state of an operation that was never submitted is undefined, so cancel checks
// whether the slot that the state names also names the operation.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "baton/operation.hpp"
#include "baton/operation_queue.hpp"
#include "engines/common/attempt.hpp"
#include "engines/common/file_order.hpp"
#include "engines/common/worker_pool.hpp"

namespace baton::engines::linux_aio {

inline constexpr std::uint32_t no_slot = 0xffff'ffff;

/// One direction of a file: operations in flight, and those that may not start yet. Guarded by the
/// engine.
struct Lane {
  OperationList queue;
  FileOrder order;
};

/// By Handle::index().
struct FileRecord {
  Lane in;   // read_file
  Lane out;  // write_file, sync_file
  bool is_file = false;
  bool direct = false;  // O_DIRECT, on a file system not known to lack RWF_NOWAIT
  std::atomic<bool> no_wait_writes{true};  // for the others: see FileCalls::try_now
};
static_assert(sizeof(FileRecord) <= 72, "one per handle");

/// The place of an operation in the engine.
enum class Place : std::uint8_t {
  held,    ///< in the queue of its lane
  batch,   ///< goes to the kernel with the next io_submit
  kernel,  ///< a completion will come
  worker,
};

/// The engine's part of an operation.
struct Progress {
  WorkerJob job;  // first: see WorkerJob
  Place place = Place::held;
  std::uint32_t slot = no_slot;
  Attempt attempt;
};
static_assert(offsetof(Progress, job) == 0);

inline Progress& progress(Operation& operation) noexcept {
  return operation.engine_state<Progress>();
}

/// One operation in the engine.
struct Slot {
  Operation* operation = nullptr;  // null: free, or not visible yet
  std::uint32_t next_free = no_slot;
};

}  // namespace baton::engines::linux_aio
