// Pools of buffers for reads that take their buffer only when data has arrived.
#include "capi/pools.hpp"

#include <errno.h>

#include <cstddef>
#include <limits>

#include "capi/proactor.hpp"
#include "capi/structs.hpp"

using baton::capi::Inside;

bool baton_pool::take_back(void* block) noexcept {
  const std::size_t offset = offset_of(block);  // of an address below: far too large
  if (offset >= blocks.memory().size || offset % blocks.block_size() != 0) return false;
  if (!with_caller[index_of(block)].exchange(false)) return false;
  blocks.give(block);
  return true;
}

void baton_pool::take_over() noexcept {
  if (reads.load(std::memory_order_relaxed) != 0) return;
  blocks.take_over(with_caller.get());
}

int baton_pool_open(std::size_t block_size, std::uint32_t count, baton_pool** out) {
  const Inside inside;
  if (out == nullptr) return EINVAL;
  *out = nullptr;
  // With room for the bookkeeping of a block.
  constexpr std::size_t bytes_max = std::numeric_limits<std::ptrdiff_t>::max() / 2;
  if (block_size == 0 || count == 0 || block_size > bytes_max / count) return EINVAL;
  try {
    *out = new baton_pool(block_size, count);
    return 0;
  } catch (...) {
    return baton::capi::code_of_exception();
  }
}

int baton_pool_give(baton_pool* pool, void* block) {
  return pool != nullptr && pool->take_back(block) ? 0 : EINVAL;
}

std::size_t baton_pool_available(const baton_pool* pool) {
  return pool != nullptr ? pool->blocks.available() : 0;
}

int baton_pool_close(baton_pool* pool) {
  const Inside inside;
  if (pool == nullptr) return 0;
  // acquire: pairs with the release by the thread that ended the read.
  if (pool->reads.load(std::memory_order_acquire) != 0) return EBUSY;
  if (pool->blocks.available() != pool->blocks.count()) return EBUSY;
  delete pool;
  return 0;
}
