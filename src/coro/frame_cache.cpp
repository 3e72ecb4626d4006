// The frame cache: free lists by size class, thread-local.
//
// Classes are 256, 384, 512, 768, 1024, 1536 ... 64 KiB: two for each doubling, so that at most a
// third of a frame above 256 bytes is unused. The frames of a class are linked through themselves.
#include "baton/coro/frame_cache.hpp"

#include <bit>
#include <new>
#include <utility>

#include "base/asan.hpp"
#include "base/assert.hpp"
#include "os/thread_end.hpp"

// The sanitizer reports the use of a kept frame as that of a freed one.
#ifdef BATON_ASAN
extern "C" {
void __asan_poison_memory_region(void const volatile* address, std::size_t size);
void __asan_unpoison_memory_region(void const volatile* address, std::size_t size);
}
#define BATON_POISON(address, size) __asan_poison_memory_region(address, size)
#define BATON_UNPOISON(address, size) __asan_unpoison_memory_region(address, size)
#else
#define BATON_POISON(address, size) static_cast<void>(0)
#define BATON_UNPOISON(address, size) static_cast<void>(0)
#endif

namespace baton {
namespace {

constexpr std::size_t smallest = 256;
constexpr std::size_t largest = 65'536;
constexpr std::size_t classes = 17;  // two for each of the eight doublings, and the last one
// Per thread. A frame that would exceed it goes to the heap.
constexpr std::size_t bytes_max = std::size_t{1} << 20;

constexpr std::size_t class_size(std::size_t index) noexcept {
  const std::size_t base = smallest << (index / 2);
  return index % 2 == 0 ? base : base + base / 2;
}
static_assert(class_size(classes - 1) == largest);

// REQUIRES: size <= largest.
constexpr std::size_t class_of(std::size_t size) noexcept {
  if (size <= smallest) return 0;
  const auto doubling = static_cast<std::size_t>(std::bit_width((size - 1) / smallest)) - 1;
  const std::size_t base = smallest << doubling;
  return 2 * doubling + (size <= base ? 0U : size <= base + base / 2 ? 1U : 2U);
}
static_assert(class_of(1) == 0 && class_of(256) == 0 && class_of(257) == 1 && class_of(384) == 1);
static_assert(class_of(385) == 2 && class_of(512) == 2 && class_of(513) == 3);
static_assert(class_of(largest) == classes - 1 && class_of(largest - 1) == classes - 1);

static_assert(class_size(0) % detail::frame_alignment == 0 &&
              class_size(1) % detail::frame_alignment == 0);

struct Node {
  Node* next;
};

constexpr std::align_val_t alignment{detail::frame_alignment};
void* take_from_heap(std::size_t size) { return ::operator new(size, alignment); }
void give_to_heap(void* frame) noexcept { ::operator delete(frame, alignment); }

// The lists have no destructor, so that they exist for frames that are freed while other locals of
// the thread are destroyed. The end of the thread empties them and closes them for good.
struct Lists {
  Node* heads[classes];
  FrameCacheStatistics statistics;
  const void* newest;  // the frame allocated last, until its task is made
  bool watched;
  bool closed;
};
constinit thread_local Lists lists{};

void sweep() noexcept {
  for (std::size_t index = 0; index < classes; ++index) {
    while (Node* node = lists.heads[index]) {
      BATON_UNPOISON(node, class_size(index));
      lists.heads[index] = node->next;
      give_to_heap(node);
    }
  }
  lists.statistics.bytes = 0;
}

// False: nothing would empty the lists of this thread.
bool watch_thread_end() noexcept {
  static os::ThreadEnd end{[](void*) {
    lists.closed = true;
    sweep();
  }};
  return end.watch(&lists);
}

}  // namespace

FrameCacheStatistics frame_cache_statistics() noexcept {
  FrameCacheStatistics copy = lists.statistics;
  copy.bytes_max = bytes_max;
  copy.frame_size_max = largest;
  return copy;
}

void clear_frame_cache() noexcept { sweep(); }

namespace detail {

void* allocate_frame(std::size_t size) {
  if (size > largest) {
    void* const frame = take_from_heap(size);
    lists.newest = frame;
    return frame;
  }
  const std::size_t index = class_of(size);
  Node* const node = lists.heads[index];
  if (node == nullptr) {
    void* const frame = take_from_heap(class_size(index));
    ++lists.statistics.allocated;
    lists.newest = frame;
    return frame;
  }
  BATON_UNPOISON(node, class_size(index));
  lists.heads[index] = node->next;
  lists.statistics.bytes -= class_size(index);
  ++lists.statistics.reused;
  lists.newest = node;
  return node;
}

// The arguments are copied between the allocation and the making of the task. If copying makes a
// task of its own, there is no newest frame, and only the alignment can be checked.
void check_frame(const void* frame) noexcept {
  const void* const newest = std::exchange(lists.newest, nullptr);
  const bool placed = newest != nullptr
                          ? frame == newest
                          : reinterpret_cast<std::uintptr_t>(frame) % frame_alignment == 0;
  if (BATON_LIKELY(placed)) return;
  BATON_UNREACHABLE(
      "this compiler lays out the frame of a coroutine wrongly that awaits in the condition of an "
      "if or while: assign the result to a variable first (docs/guide/coroutines.md)");
}

void free_frame(void* frame, std::size_t size) noexcept {
  if (size > largest) {
    give_to_heap(frame);
    return;
  }
  const std::size_t index = class_of(size);
  if (lists.closed || lists.statistics.bytes + class_size(index) > bytes_max) {
    give_to_heap(frame);
    return;
  }
  if (!lists.watched && !(lists.watched = watch_thread_end())) {
    give_to_heap(frame);
    return;
  }
  Node* const node = ::new (frame) Node{lists.heads[index]};
  lists.heads[index] = node;
  lists.statistics.bytes += class_size(index);
  BATON_POISON(node, class_size(index));
}

}  // namespace detail
}  // namespace baton
