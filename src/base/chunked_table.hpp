// ChunkedTable: records by dense index, at stable addresses. The table grows in chunks up to a
// bound. A look-up is two loads without a lock. One thread at a time may grow the table.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

#include "base/assert.hpp"

namespace baton {

template <class Record, std::uint32_t ChunkSize = 256>
class ChunkedTable {
  static_assert((ChunkSize & (ChunkSize - 1)) == 0, "a power of two: the index is split by bits");

 public:
  /// All indices are below `bound`. Throws std::bad_alloc.
  explicit ChunkedTable(std::uint32_t bound)
      : bound_(bound), chunks_(new std::atomic<Record*>[chunks(bound)] {}) {}
  ~ChunkedTable() {
    for (std::uint32_t i = 0; i < chunks(bound_); ++i) delete[] chunks_[i].load();
  }
  ChunkedTable(const ChunkedTable&) = delete;
  ChunkedTable& operator=(const ChunkedTable&) = delete;

  [[nodiscard]] std::uint32_t bound() const noexcept { return bound_; }

  /// Makes room for `index`; false when there is no memory or the bound is reached.
  [[nodiscard]] bool ensure(std::uint32_t index) noexcept {
    if (index >= bound_) return false;
    std::atomic<Record*>& chunk = chunks_.get()[index / ChunkSize];
    if (chunk.load(std::memory_order_relaxed) != nullptr) return true;
    Record* records = new (std::nothrow) Record[ChunkSize]{};
    if (records == nullptr) return false;
    // release: a thread that finds the chunk finds its records constructed.
    chunk.store(records, std::memory_order_release);
    return true;
  }

  /// REQUIRES: ensure(index) succeeded before.
  [[nodiscard]] Record& operator[](std::uint32_t index) const noexcept {
    Record* records = chunks_.get()[index / ChunkSize].load(std::memory_order_acquire);
    BATON_DASSERT(index < bound_ && records != nullptr);
    return records[index % ChunkSize];
  }
  /// The record, or null when its chunk was never made.
  [[nodiscard]] Record* find(std::uint32_t index) const noexcept {
    if (index >= bound_) return nullptr;
    Record* records = chunks_.get()[index / ChunkSize].load(std::memory_order_acquire);
    return records != nullptr ? &records[index % ChunkSize] : nullptr;
  }

 private:
  static std::uint32_t chunks(std::uint32_t bound) noexcept {
    return (bound + ChunkSize - 1) / ChunkSize;
  }
  const std::uint32_t bound_;
  const std::unique_ptr<std::atomic<Record*>[]> chunks_;
};

}  // namespace baton
