// Buffer pools: every block once, by any thread.
#include "baton/buffer_pool.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <limits>
#include <new>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include "../../support/child.hpp"
#include "baton/config.hpp"
#include "baton/proactor.hpp"

namespace baton {
namespace {

TEST(BufferPool, HandsOutEveryBlockOnce) {
  BufferPool pool{100, 7};
  EXPECT_EQ(pool.block_size(), 100U);
  EXPECT_EQ(pool.count(), 7U);
  std::set<void*> blocks;
  for (std::size_t i = 0; i < 7; ++i) {
    EXPECT_EQ(pool.available(), 7 - i);
    void* block = pool.take();
    ASSERT_NE(block, nullptr);
    std::memset(block, 0x5a, 100);
    EXPECT_TRUE(blocks.insert(block).second);
  }
  EXPECT_EQ(pool.take(), nullptr);
  EXPECT_EQ(pool.available(), 0U);
  for (void* block : blocks) pool.give(block);
  EXPECT_EQ(pool.available(), 7U);
}

TEST(BufferPool, BlocksLieSideBySide) {
  BufferPool pool{64, 4};
  const MutableBuffer memory = pool.memory();
  EXPECT_EQ(memory.size, 256U);
  std::set<std::ptrdiff_t> offsets;
  std::vector<void*> blocks;
  for (int i = 0; i < 4; ++i) {
    blocks.push_back(pool.take());
    offsets.insert(static_cast<std::byte*>(blocks.back()) - static_cast<std::byte*>(memory.data));
  }
  EXPECT_EQ(offsets, (std::set<std::ptrdiff_t>{0, 64, 128, 192}));
  for (void* block : blocks) pool.give(block);
}

TEST(BufferPool, BlocksOfWholePagesStartOnAPage) {
  BufferPool pool{8'192, 3};
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(pool.memory().data) % 4'096, 0U);
}

TEST(BufferPool, MayBeEmpty) {
  BufferPool pool{100, 0};
  EXPECT_EQ(pool.take(), nullptr);
}

TEST(BufferPool, ImpossibleSizesThrow) {
  constexpr std::size_t huge = std::numeric_limits<std::size_t>::max();
  EXPECT_THROW((BufferPool{huge, 2}), std::bad_alloc);
  EXPECT_THROW((BufferPool{1, huge}), std::bad_alloc);
  EXPECT_THROW((BufferPool{huge / 4, 3}), std::bad_alloc);
}

TEST(BufferPool, BlocksOfNoBytesAreRefused) {
  EXPECT_THROW((BufferPool{0, 4}), std::invalid_argument);
  const BufferPool none{0, 0};
  EXPECT_EQ(none.available(), 0U);
}

TEST(BufferPool, PooledBufferGivesBack) {
  BufferPool pool{16, 2};
  {
    PooledBuffer first{pool, pool.take(), 5};
    EXPECT_EQ(first.bytes().size(), 5U);
    PooledBuffer second = std::move(first);
    EXPECT_EQ(first.bytes().size(), 0U);  // NOLINT: a moved-from block is empty
    EXPECT_EQ(second.bytes().size(), 5U);
    second = PooledBuffer{pool, pool.take(), 7};
    EXPECT_EQ(pool.available(), 1U);
  }
  EXPECT_EQ(pool.available(), 2U);
}

TEST(BufferPool, ThreadsNeverShareABlock) {
  constexpr std::size_t block_size = 64;
  constexpr int rounds = 20'000;
  BufferPool pool{block_size, 8};
  std::atomic<int> damaged{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&pool, &damaged, t] {
      for (int i = 0; i < rounds; ++i) {
        void* one = pool.take();
        void* other = pool.take();
        for (void* block : {one, other}) {
          if (block == nullptr) continue;
          // Not atomic on purpose: if two threads held this block, TSan would say so.
          std::memset(block, t, block_size);
          if (static_cast<unsigned char*>(block)[block_size - 1] != t) ++damaged;
        }
        // In an order that is unusual for a stack.
        if (one != nullptr) pool.give(one);
        if (other != nullptr) pool.give(other);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(damaged, 0);
  EXPECT_EQ(pool.available(), 8U);
}

TEST(BufferPoolDeathTest, MisuseEndsTheProgram) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(
      {
        BufferPool pool(16, 2);
        void* block = pool.take();
        pool.give(block);
        pool.give(block);
      },
      "twice");
  EXPECT_DEATH(
      {
        BufferPool pool(16, 2);
        (void)pool.take();
      },
      "blocks are out");
  EXPECT_DEATH(
      {
        BufferPool pool(16, 2);
        char elsewhere = 0;
        pool.give(&elsewhere);
      },
      "not from");
  EXPECT_DEATH(
      {
        BufferPool pool(16, 2);
        pool.give(static_cast<char*>(pool.take()) + 1);
      },
      "not from");
}

// The parent's reads have them, and complete in no child.
TEST(BufferPool, IsDestroyedInAChildWithBlocksOfTheParentsReads) {
  Proactor proactor{*Config::parse("engine=emulated", Config{})};
  BufferPool pool(16, 2);
  void* const block = pool.take();
  EXPECT_EQ(test::status_of_child([&] {
              if (!proactor.reopen()) return 1;
              pool.~BufferPool();
              return 0;
            }),
            0);
  pool.give(block);
}

}  // namespace
}  // namespace baton
