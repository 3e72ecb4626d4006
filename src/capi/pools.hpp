// baton_pool: a BufferPool that knows which blocks its callers hold, so that giving back a wrong
// one is an error and does not corrupt the list.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "baton.h"
#include "baton/buffer_pool.hpp"

struct baton_pool {
  baton_pool(std::size_t block_size, std::uint32_t count)
      : blocks(block_size, count), with_caller(new std::atomic<bool>[count] {}) {}
  baton_pool(const baton_pool&) = delete;
  baton_pool& operator=(const baton_pool&) = delete;

  /// A read delivers this block, or is dropped with it.
  void bring(const void* block) noexcept { with_caller[index_of(block)].store(true); }
  /// False: the caller does not have such a block.
  [[nodiscard]] bool take_back(void* block) noexcept;
  /// In a forked child: blocks of the parent's reads are free, unless another proactor still has
  /// reads that may hold some.
  void take_over() noexcept;

  baton::BufferPool blocks;
  /// Reads that are pending and may take a block.
  std::atomic<std::uint32_t> reads{0};

 private:
  [[nodiscard]] std::size_t index_of(const void* block) const noexcept {
    return offset_of(block) / blocks.block_size();
  }
  [[nodiscard]] std::size_t offset_of(const void* block) const noexcept {
    return reinterpret_cast<std::uintptr_t>(block) -
           reinterpret_cast<std::uintptr_t>(blocks.memory().data);
  }

  std::unique_ptr<std::atomic<bool>[]> with_caller;
};
