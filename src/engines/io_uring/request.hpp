// The records of the io_uring engine: the state of each operation in flight, and the memory besides
// the user's own that requests point to.
//
// A request names its slot and the slot's generation, never an address, so a completion can be
// checked before it is used. An operation has one slot from submit to its end; every request for it
// (the rest of a short transfer, a retry after EAGAIN) uses the same slot.
#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>

#include "base/chunked_table.hpp"
#include "baton/operation.hpp"
#include "baton/operation_queue.hpp"
#include "engines/common/pauses.hpp"
#include "os/no_allocation.hpp"

namespace baton {
class BufferPool;
}

namespace baton::engines::uring {

inline constexpr std::uint32_t no_index = 0xffff'ffff;

/// user_data of the interrupt descriptor's request, of cancellations, and of interrupts sent as
/// messages; no slot has these numbers. The lower half of a cancellation's is the slot of the
/// operation to cancel, or no_index.
inline constexpr std::uint64_t wake_tag = 0xffff'ffff'0000'0000;
inline constexpr std::uint64_t cancel_tag = 0xffff'fffe'0000'0000;
inline constexpr std::uint64_t message_tag = 0xffff'fffd'0000'0000;

[[nodiscard]] constexpr bool is_cancel_tag(std::uint64_t user_data) noexcept {
  return user_data >> 32 == cancel_tag >> 32;
}

/// Pieces of memory that one request may name when it does not use the user's own list.
inline constexpr std::size_t request_pieces_max = 32;

/// Memory that the kernel reads and writes while a request is in flight. Only for requests that
/// need it.
struct Message {
  msghdr header{};
  iovec pieces[request_pieces_max]{};
  std::uint32_t next_free = no_index;
};

/// One operation in the engine.
struct Request {
  Operation* operation = nullptr;  ///< null: the slot is free
  std::uint32_t generation = 0;    ///< raised whenever the slot is freed
  std::uint32_t message = no_index;
  union {
    std::uint32_t next_free = no_index;
    std::uint32_t previous_resting;  ///< in the list of operations that back off or look
  };
  std::uint32_t next_resting = no_index;
};
static_assert(sizeof(Request) == 24);

/// The place of an operation in the engine.
enum class Place : std::uint8_t {
  lane,        ///< queued behind another operation of its handle and direction
  held,        ///< a sync that waits for earlier writes
  kernel,      ///< its request is in the ring: a completion will come
  postponed,   ///< the ring is full; the leader submits it when it can
  backing_off  ///< it will be tried again after a pause
};

/// The kind of the present request.
enum class Step : std::uint8_t {
  perform,   ///< the operation itself
  poll,      ///< only readiness: for a pooled read, or after EAGAIN
  withdrawn  ///< nothing: it was cancelled before the kernel had its request
};

struct Lane;

/// The engine's part of the operation. No request points to it.
struct Progress {
  std::uint32_t slot = no_index;
  Place place = Place::lane;
  Step step = Step::perform;
  bool cancelled = false;         ///< cancel was called: it does no more than it must
  bool cancel_postponed = false;  ///< the ring was full when the cancellation was to be sent
  bool begun = false;             ///< tried before: a connect may find itself connected
  bool by_worker = false;         ///< for a kernel worker, which may block
  bool fast = false;              ///< submitted by the fast path, and not complete
  std::uint8_t failures : 5 = 0;  ///< consecutive tries without a result (common/pauses.hpp)
  bool queues : 1 = false;        ///< a datagram: it waits in the lane of the writes
  bool looks : 1 = false;         ///< polls, and is tried again at due_ns (look_later)
  bool holds_syncs : 1 = false;   ///< a write to a file: syncs after it wait for it
  /// holds_syncs: the number of the next sync; sync_file: its own; accept: IoUringEngine::accepted_
  /// at the last of its failures.
  std::uint32_t epoch = 0;
  BufferPool* pool = nullptr;  ///< of a pooled read
  void* block = nullptr;       ///< pooled read: its block, for the kernel to fill
  // No operation needs two of these at the same time.
  union {
    std::int64_t due_ns = 0;      ///< while it backs off or looks: when it is tried again
    std::uint32_t writes_before;  ///< sync_file: unfinished writes of its epoch
    Lane* fast_lane;              ///< while `fast`: the lane whose queue it is in; null: a datagram
  };
};
static_assert(failures_max < 1U << 5);
static_assert(sizeof(Progress) <= limits::engine_state_size);

inline Progress& progress(Operation& operation) noexcept {
  return operation.engine_state<Progress>();
}

/// Operations of one handle that must run one after the other. The first `covered` of the queue are
/// in the kernel, as one request under the first one's slot: more than one if writes were merged.
struct Lane {
  OperationList queue;
  std::uint16_t covered = 0;
  bool for_worker = false;  ///< reads: kernel workers do all transfers of the file (see attach)
  std::uint32_t file = no_index;  ///< writes: the FileRecord
};

/// The order between writes and syncs of a file.
struct FileRecord {
  OperationList held_syncs;
  std::uint32_t open_writes = 0;  ///< writes since the last held sync
  std::uint32_t epoch = 0;        ///< raised by each held sync
  std::uint32_t next_free = no_index;
};

/// By Handle::index(). Sizes count: every idle connection has one.
struct HandleRecord {
  Lane reads;
  Lane writes;
};
static_assert(sizeof(HandleRecord) <= 48);

/// Records in a growing table, with a list of the free ones.
template <class Record, std::uint32_t ChunkSize>
class Slab {
 public:
  explicit Slab(std::uint32_t bound) : table_(bound) {}

  /// The record of a slot that was given back; null if there is none, and take() may still grow.
  [[nodiscard]] Record* take_given(std::uint32_t& slot) noexcept {
    slot = free_;
    if (slot == no_index) return nullptr;
    Record& record = table_[slot];
    free_ = record.next_free;
    return &record;
  }
  /// A free slot, or no_index: there is no memory, the bound is reached, or the table would have to
  /// grow and this thread must not allocate.
  [[nodiscard]] std::uint32_t take() noexcept {
    if (free_ != no_index) {
      const std::uint32_t slot = free_;
      free_ = table_[slot].next_free;
      return slot;
    }
    // It grows by whole chunks.
    if (used_ % ChunkSize == 0 && os::NoAllocation::now()) return no_index;
    if (!table_.ensure(used_)) return no_index;
    return used_++;
  }
  void give(std::uint32_t slot) noexcept { give(slot, table_[slot]); }
  /// The same, for a record that the caller has at hand.
  void give(std::uint32_t slot, Record& record) noexcept {
    record.next_free = free_;
    free_ = slot;
  }
  [[nodiscard]] Record& operator[](std::uint32_t slot) const noexcept { return table_[slot]; }
  [[nodiscard]] Record* find(std::uint32_t slot) const noexcept {
    return slot < used_ ? &table_[slot] : nullptr;
  }
  /// Slots ever used: no higher one has been given.
  [[nodiscard]] std::uint32_t used() const noexcept { return used_; }

 private:
  ChunkedTable<Record, ChunkSize> table_;
  std::uint32_t used_ = 0;
  std::uint32_t free_ = no_index;
};

inline std::uint64_t tag_of(std::uint32_t slot, std::uint32_t generation) noexcept {
  return std::uint64_t{slot} << 32 | generation;
}

}  // namespace baton::engines::uring
