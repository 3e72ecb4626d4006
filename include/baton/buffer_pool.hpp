// BufferPool: memory blocks of equal size that reads take only when data has arrived, so that an
// idle connection with a pending read holds none.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "baton/buffer.hpp"
#include "baton/export.hpp"

struct baton_pool;

namespace baton {

class BATON_EXPORT BufferPool {
 public:
  /// `count` blocks of `block_size` bytes, allocated at once. Throws std::bad_alloc, and
  /// std::invalid_argument for blocks of no bytes: they would all be one.
  BufferPool(std::size_t block_size, std::size_t count);
  /// REQUIRES: every block is back, except in a forked child that has reopened or destroyed a
  /// proactor: blocks of the parent's reads do not come back there.
  ~BufferPool();
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  [[nodiscard]] std::size_t block_size() const noexcept;  ///< bytes of a block
  [[nodiscard]] std::size_t count() const noexcept;       ///< all blocks, taken ones included
  /// Blocks not taken now. Any thread.
  [[nodiscard]] std::size_t available() const noexcept;

  /// A block, or null if none is free. Any thread.
  [[nodiscard]] void* take() noexcept;
  /// REQUIRES: `block` came from take() (or from a completed pooled read) and is given back once.
  void give(void* block) noexcept;

  /// For engines that let the kernel pick (provided buffers): the whole memory.
  [[nodiscard]] MutableBuffer memory() const noexcept;

 private:
  friend struct ::baton_pool;  // of the C interface
  /// In a forked child: every block is free except those marked in `held`, which has an entry for
  /// each block. REQUIRES: no other thread.
  void take_over(const std::atomic<bool>* held) noexcept;

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Returns a block when it goes out of scope.
class PooledBuffer {
 public:
  PooledBuffer() noexcept = default;
  PooledBuffer(BufferPool& pool, void* block, std::size_t bytes) noexcept
      : pool_(&pool), block_(block), bytes_(bytes) {}
  PooledBuffer(PooledBuffer&& other) noexcept
      : pool_(other.pool_), block_(other.block_), bytes_(other.bytes_) {
    other.block_ = nullptr;
  }
  PooledBuffer& operator=(PooledBuffer&& other) noexcept {
    if (this != &other) {
      reset();
      pool_ = other.pool_, block_ = other.block_, bytes_ = other.bytes_;
      other.block_ = nullptr;
    }
    return *this;
  }
  ~PooledBuffer() { reset(); }

  /// Gives the block back now.
  void reset() noexcept {
    if (block_ != nullptr) pool_->give(block_);
    block_ = nullptr;
  }
  /// The bytes that were read; empty at the end of a stream and after reset().
  [[nodiscard]] std::span<std::byte> bytes() const noexcept {
    return {static_cast<std::byte*>(block_), block_ != nullptr ? bytes_ : 0};
  }

 private:
  BufferPool* pool_ = nullptr;
  void* block_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace baton
