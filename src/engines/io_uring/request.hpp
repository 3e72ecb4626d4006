// The records of the io_uring engine: what is known about each operation in flight, and the memory
// that the kernel is pointed at besides the user's own.
//
// A request is named to the kernel by its slot and the slot's generation, never by an address, so
// that a completion can be checked before it is believed. From submit to its end an operation has
// one slot; each submission of it (a partial transfer goes on, EAGAIN is waited out) uses the same.
#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>

#include "base/chunked_table.hpp"
#include "baton/operation.hpp"
#include "baton/operation_queue.hpp"

namespace baton {
class BufferPool;
}

namespace baton::engines::uring {

inline constexpr std::uint32_t no_index = 0xffff'ffff;

/// user_data of the request that interrupts come through, of cancellations, and of interrupts that
/// come as messages: no slot has these numbers. The lower half of a cancellation's is the slot of
/// the operation for which it was sent, or no_index.
inline constexpr std::uint64_t wake_tag = 0xffff'ffff'0000'0000;
inline constexpr std::uint64_t cancel_tag = 0xffff'fffe'0000'0000;
inline constexpr std::uint64_t message_tag = 0xffff'fffd'0000'0000;

[[nodiscard]] constexpr bool is_cancel_tag(std::uint64_t user_data) noexcept {
  return user_data >> 32 == cancel_tag >> 32;
}

/// Pieces of memory that one request may name when they are not simply the user's own list.
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
  std::uint32_t next_free = no_index;
  std::uint32_t next_resting = no_index;  ///< its successor in the list of those that back off
};

/// Where an operation is while the engine has it.
enum class Place : std::uint8_t {
  lane,        ///< queued behind another one of its handle and direction
  held,        ///< a sync that waits for earlier writes
  kernel,      ///< its request is in the ring: a completion will come
  postponed,   ///< the ring took no more; the leader submits it when it can
  backing_off  ///< it will be tried again after a pause
};

/// The request to the kernel on behalf of the operation.
enum class Step : std::uint8_t {
  perform,  ///< the operation itself
  poll      ///< only readiness: of a pooled read, or after EAGAIN
};

struct Lane;

/// The engine's part inside the operation. The kernel is never pointed at it.
struct Progress {
  std::uint32_t slot = no_index;
  Place place = Place::lane;
  Step step = Step::perform;
  bool cancelled = false;         ///< was asked for: goes on no further than it must
  bool cancel_postponed = false;  ///< the ring took no more when the cancellation was to be sent
  bool begun = false;             ///< tried before: a connect may find itself connected
  bool by_worker = false;         ///< to be done by a worker of the kernel, which may block
  bool fast = false;              ///< as submit_fast has left it
  std::uint8_t failures = 0;      ///< tries in a row without a result (common/pauses.hpp)
  std::uint32_t epoch = 0;        ///< write_file: the number of the next sync; sync_file: its own
  BufferPool* pool = nullptr;     ///< of a pooled read
  void* block = nullptr;          ///< pooled read: taken from the pool, for the kernel to fill
  // No operation needs two of these at a time.
  union {
    std::int64_t due_ns = 0;      ///< while it backs off: when the pause ends
    std::uint32_t writes_before;  ///< sync_file: writes of its epoch not yet done
    Lane* fast_lane;              ///< while `fast`: in whose queue it is; null: a datagram
  };
};
static_assert(sizeof(Progress) <= limits::engine_state_size);

inline Progress& progress(Operation& operation) noexcept {
  return operation.engine_state<Progress>();
}

/// Operations of one handle that must go one after the other. The first `covered` of the queue are
/// in the kernel, as one request under the first one's slot: more than one when writes were merged.
struct Lane {
  OperationList queue;
  std::uint16_t covered = 0;
  bool for_worker = false;        ///< of reads: all transfers of the file are (see attach)
  std::uint32_t file = no_index;  ///< of writes: the FileRecord, from the first write or sync on
};

/// The order between writes and syncs of a file.
struct FileRecord {
  OperationList held_syncs;
  std::uint32_t open_writes = 0;  ///< write_file operations since the last held sync
  std::uint32_t epoch = 0;        ///< raised by each held sync
  std::uint32_t next_free = no_index;
};

/// By Handle::index(). Sizes count: every idle connection has one.
struct HandleRecord {
  Lane reads;
  Lane writes;
};
static_assert(sizeof(HandleRecord) <= 48);

/// Records in a table that grows, and a list of the free ones.
template <class Record, std::uint32_t ChunkSize>
class Slab {
 public:
  explicit Slab(std::uint32_t bound) : table_(bound) {}

  /// Its record, when the next slot is one that was given back; null: take() may know of one.
  [[nodiscard]] Record* take_given(std::uint32_t& slot) noexcept {
    slot = free_;
    if (slot == no_index) return nullptr;
    Record& record = table_[slot];
    free_ = record.next_free;
    return &record;
  }
  /// A free slot, or no_index when there is no memory or the bound is reached.
  [[nodiscard]] std::uint32_t take() noexcept {
    if (free_ != no_index) {
      const std::uint32_t slot = free_;
      free_ = table_[slot].next_free;
      return slot;
    }
    if (!table_.ensure(used_)) return no_index;
    return used_++;
  }
  void give(std::uint32_t slot) noexcept { give(slot, table_[slot]); }
  /// The same, of one that is at hand.
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
