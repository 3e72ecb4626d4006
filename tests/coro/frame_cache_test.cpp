// The cache of coroutine frames.
#include "baton/coro/frame_cache.hpp"

#include <gtest/gtest.h>
#include <pthread.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "baton/coro/task.hpp"

namespace baton {
namespace {

// Not inlined: clang would keep the frame on the stack of the test.
[[gnu::noinline]] Task<int> give(int value) { co_return value; }

TEST(FrameCache, serves_the_second_task_of_a_kind) {
  clear_frame_cache();
  {
    const auto first = give(1);
  }
  const auto before = frame_cache_statistics();
  EXPECT_GT(before.bytes, 0U);
  {
    const auto second = give(2);
  }
  const auto after = frame_cache_statistics();
  EXPECT_EQ(after.reused, before.reused + 1);
  EXPECT_EQ(after.allocated, before.allocated);
  EXPECT_EQ(after.bytes, before.bytes);
}

TEST(FrameCache, is_bounded) {
  clear_frame_cache();
  std::vector<Task<int>> many;
  for (int i = 0; i < 20'000; ++i) many.push_back(give(i));
  many.clear();
  const auto statistics = frame_cache_statistics();
  EXPECT_LE(statistics.bytes, statistics.bytes_max);
  EXPECT_GT(statistics.bytes, statistics.bytes_max / 2);
  clear_frame_cache();
  EXPECT_EQ(frame_cache_statistics().bytes, 0U);
}

TEST(FrameCache, keeps_no_frame_beyond_its_largest_class) {
  clear_frame_cache();
  const std::size_t largest = frame_cache_statistics().frame_size_max;
  detail::free_frame(detail::allocate_frame(largest + 1), largest + 1);
  EXPECT_EQ(frame_cache_statistics().bytes, 0U);
  detail::free_frame(detail::allocate_frame(largest), largest);
  EXPECT_EQ(frame_cache_statistics().bytes, largest);
  clear_frame_cache();
}

// Frames of every size, alive at once and each full of its own byte: one that got too little room
// shares it with another.
TEST(FrameCache, every_size_is_served_with_room_enough) {
  struct Frame {
    std::size_t size;
    unsigned char content;
    unsigned char* memory;
  };
  std::vector<Frame> frames;
  for (std::size_t size = 1; size <= 70'000; size += 97) {
    frames.push_back({size, static_cast<unsigned char>(frames.size()), nullptr});
  }
  clear_frame_cache();
  // The second time the frames come from the cache, which has the frames of a class in another
  // order.
  for (int round = 0; round < 2; ++round) {
    for (Frame& frame : frames) {
      frame.memory = static_cast<unsigned char*>(detail::allocate_frame(frame.size));
      std::fill_n(frame.memory, frame.size, frame.content);
    }
    for (const Frame& frame : frames) {
      const auto own = std::count(frame.memory, frame.memory + frame.size, frame.content);
      EXPECT_EQ(static_cast<std::size_t>(own), frame.size);
    }
    for (const Frame& frame : frames) detail::free_frame(frame.memory, frame.size);
    std::reverse(frames.begin(), frames.end());
  }
  EXPECT_GT(frame_cache_statistics().reused, 0U);
  clear_frame_cache();
}

struct Latest {
  Task<int> task;
  std::size_t bytes = 1;
};

TEST(FrameCache, keeps_no_frame_that_is_freed_after_the_end_of_its_thread_s_cache) {
  {
    const auto first = give(1);  // the cache has its key
  }
  // The values of a thread's keys are destroyed in the order of the keys, again and again while
  // there are new ones: those of the second round are certainly destroyed after the cache.
  static pthread_key_t key;
  static int round;
  round = 0;
  ASSERT_EQ(::pthread_key_create(&key,
                                 [](void* value) {
                                   if (++round == 1) {
                                     ::pthread_setspecific(key, value);
                                     return;
                                   }
                                   auto& latest = *static_cast<Latest*>(value);
                                   latest.task = Task<int>{};
                                   latest.bytes = frame_cache_statistics().bytes;
                                 }),
            0);
  std::size_t kept_before = 0;
  Latest latest;
  std::thread([&] {
    ASSERT_EQ(::pthread_setspecific(key, &latest), 0);
    latest.task = give(1);
    {
      const auto first = give(2);
    }
    kept_before = frame_cache_statistics().bytes;
  }).join();
  const std::size_t kept_after = latest.bytes;
  ::pthread_key_delete(key);
  EXPECT_GT(kept_before, 0U);
  EXPECT_EQ(kept_after, 0U) << "nothing empties the cache any more";
}

TEST(FrameCache, takes_frames_of_other_threads) {
  clear_frame_cache();
  Task<int> task;
  std::thread([&] { task = give(1); }).join();
  task = Task<int>{};
  EXPECT_GT(frame_cache_statistics().bytes, 0U);
}

}  // namespace
}  // namespace baton
