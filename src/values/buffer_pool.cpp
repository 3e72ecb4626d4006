// BufferPool: equal blocks of one allocation, taken and given without a lock by any thread, also by
// one in a signal handler.
//
// The free blocks form a Treiber stack of indices. Its head carries a counter that every change
// raises. So a thread with an old copy of the head fails to exchange it, even if the same block is
// on top again (the ABA problem). The links are an array of their own and not inside the blocks. A
// free block has no owner, and a late write there must not break the pool.
//
//   [ Impl | links, one for each block | blocks ]
#include "baton/buffer_pool.hpp"

#include <atomic>
#include <limits>
#include <new>
#include <stdexcept>
#include <utility>

#include "baton/misuse.hpp"
#include "os/fork.hpp"

namespace baton {
namespace {

using Link = std::atomic<std::uint32_t>;

// Values of a link that are no index.
constexpr std::uint32_t end_of_list = 0xffff'ffff;
constexpr std::uint32_t taken = 0xffff'fffe;
constexpr std::size_t count_end = taken;

// Blocks of whole pages start on a page, as direct files want them; others on a cache line.
constexpr std::size_t page = 4'096;
constexpr std::size_t cache_line = 64;

constexpr std::uint64_t head_of(std::uint64_t changes, std::uint32_t index) noexcept {
  return changes << 32 | index;
}
constexpr std::uint32_t index_of(std::uint64_t head) noexcept {
  return static_cast<std::uint32_t>(head);
}

constexpr std::size_t round_up(std::size_t value, std::size_t to) noexcept {
  return (value + to - 1) / to * to;
}

static_assert(std::atomic<std::uint64_t>::is_always_lock_free && Link::is_always_lock_free);

}  // namespace

struct BufferPool::Impl {
  std::size_t block_size = 0;
  std::size_t count = 0;
  Link* links = nullptr;
  std::byte* blocks = nullptr;
  // Changed by every take and give. The members above are constant and have a cache line of their
  // own.
  alignas(cache_line) std::atomic<std::uint64_t> head{head_of(0, end_of_list)};
  std::atomic<std::size_t> available{0};

  // The memory holds more than an Impl: see the constructor.
  static void operator delete(void* memory) noexcept {
    ::operator delete(memory, std::align_val_t{page});
  }
};

BufferPool::BufferPool(std::size_t block_size, std::size_t count) {
  if (block_size == 0 && count != 0) {
    throw std::invalid_argument("a pool of blocks of 0 bytes: a block has at least 1");
  }
  constexpr std::size_t half = std::numeric_limits<std::size_t>::max() / 2;
  if (count >= count_end || (count != 0 && block_size > half / count))
    throw std::bad_array_new_length();
  const std::size_t links_at = round_up(sizeof(Impl), alignof(Link));
  const std::size_t blocks_at =
      round_up(links_at + count * sizeof(Link), block_size % page == 0 ? page : cache_line);
  auto* memory = static_cast<std::byte*>(
      ::operator new(blocks_at + block_size * count, std::align_val_t{page}));

  impl_.reset(::new (static_cast<void*>(memory)) Impl);
  impl_->block_size = block_size;
  impl_->count = count;
  impl_->links = reinterpret_cast<Link*>(memory + links_at);
  impl_->blocks = memory + blocks_at;
  for (std::size_t i = 0; i < count; ++i) {
    const bool last = i + 1 == count;
    ::new (static_cast<void*>(&impl_->links[i]))
        Link{last ? end_of_list : static_cast<std::uint32_t>(i + 1)};
  }
  impl_->available.store(count, std::memory_order_relaxed);
  impl_->head.store(head_of(0, count == 0 ? end_of_list : 0), std::memory_order_relaxed);
}

BufferPool::~BufferPool() {
  // A block that is still taken would be written to, or given back, after its memory is gone.
  if (impl_->available.load(std::memory_order_acquire) != impl_->count &&
      !os::left_behind.load(std::memory_order_relaxed)) {
    detail::misused("a buffer pool was destroyed while blocks are out: give all back first");
  }
}

std::size_t BufferPool::block_size() const noexcept { return impl_->block_size; }
std::size_t BufferPool::count() const noexcept { return impl_->count; }
std::size_t BufferPool::available() const noexcept {
  return impl_->available.load(std::memory_order_relaxed);
}
MutableBuffer BufferPool::memory() const noexcept {
  return {impl_->blocks, impl_->block_size * impl_->count};
}

void* BufferPool::take() noexcept {
  // acquire: pairs with the release in give(), so that the giver's last use of the block, and the
  // link it stored, are visible to the taker.
  std::uint64_t head = impl_->head.load(std::memory_order_acquire);
  for (;;) {
    const std::uint32_t index = index_of(head);
    if (index == end_of_list) return nullptr;
    // May be the link of a block that another thread took meanwhile; then the counter in the head
    // has moved, and the exchange fails.
    const std::uint32_t next = impl_->links[index].load(std::memory_order_relaxed);
    if (impl_->head.compare_exchange_weak(head, head_of((head >> 32) + 1, next),
                                          std::memory_order_acquire, std::memory_order_acquire)) {
      impl_->links[index].store(taken, std::memory_order_relaxed);
      impl_->available.fetch_sub(1, std::memory_order_relaxed);
      return impl_->blocks + index * impl_->block_size;
    }
  }
}

void BufferPool::give(void* block) noexcept {
  // Computed with numbers, so that a block of another origin gives an offset that is too large.
  const std::size_t offset =
      reinterpret_cast<std::uintptr_t>(block) - reinterpret_cast<std::uintptr_t>(impl_->blocks);
  if (offset >= impl_->block_size * impl_->count || offset % impl_->block_size != 0) {
    detail::misused("a block was given to a pool that it is not from: give it to its own");
  }
  const auto index = static_cast<std::uint32_t>(offset / impl_->block_size);
  Link& link = impl_->links[index];
  // A block that is given back twice would soon be taken twice, and two reads would use one buffer.
  if (link.load(std::memory_order_relaxed) != taken) {
    detail::misused("a block was given back to its pool twice: give it back once");
  }

  // Before the block can be taken again, so that the count is never lowered before it is raised.
  // release: a destructor that reads the count sees everything that was done with the blocks.
  impl_->available.fetch_add(1, std::memory_order_release);
  std::uint64_t head = impl_->head.load(std::memory_order_relaxed);
  do {
    link.store(index_of(head), std::memory_order_relaxed);
    // release: see take().
  } while (!impl_->head.compare_exchange_weak(head, head_of((head >> 32) + 1, index),
                                              std::memory_order_release,
                                              std::memory_order_relaxed));
}

// Threads of the parent may have been inside take() or give() at the fork.
void BufferPool::take_over(const std::atomic<bool>* held) noexcept {
  Impl& impl = *impl_;
  std::uint32_t first = end_of_list;
  std::size_t available = 0;
  for (std::size_t i = impl.count; i-- > 0;) {
    if (held[i].load(std::memory_order_relaxed)) continue;  // its link says `taken`
    impl.links[i].store(std::exchange(first, static_cast<std::uint32_t>(i)),
                        std::memory_order_relaxed);
    ++available;
  }
  impl.head.store(head_of(0, first), std::memory_order_relaxed);
  impl.available.store(available, std::memory_order_relaxed);
}

}  // namespace baton
