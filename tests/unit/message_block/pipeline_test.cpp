// Message blocks between threads: the counts of producers, stages and consumers agree, and the
// configuration decides the memory (B-06).
#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "baton/message_block.hpp"
#include "baton/reactor.hpp"

namespace baton {
namespace {

struct Note {
  std::uint32_t producer;
  std::uint32_t number;
};

/// Tries until a block is free: the bound of the pool slows producers down.
MessageBlock message_of(MessagePool& pool, const Note& note) {
  for (;;) {
    auto made = pool.copy({&note, sizeof note});
    if (made) return std::move(*made);
    EXPECT_EQ(made.error(), errc::pool_exhausted);
    ::sched_yield();
  }
}

// Each message is split, duplicated and joined on its way over the threads of a reactor.
TEST(message_block, producers_and_consumers_count_exactly) {
  constexpr std::uint32_t producers = 3;
  constexpr std::uint32_t each = 2'000;
  constexpr std::size_t blocks = 16;
  MessagePool pool({.block_size = 8, .blocks = blocks, .links = 8 * blocks});
  auto reactor = Reactor::open({}).value();
  std::atomic<std::uint64_t> consumed{0};
  std::atomic<std::uint64_t> sum{0};
  std::atomic<std::uint64_t> wrong{0};

  const auto consume = [&](MessageBlock& message) {
    Note note{};
    if (message.peek({&note, sizeof note}) != sizeof note) ++wrong;
    message.consume(sizeof note);
    if (!message.empty()) ++wrong;
    sum += std::uint64_t{note.producer} * each + note.number;
    ++consumed;
  };
  const auto pass_on = [&](MessageBlock message) {
    auto front = message.split(3);
    if (front) front->append(std::move(message));
    auto twin = front ? front->duplicate() : message.duplicate();
    if (!front || !twin) ++wrong;
    if (!twin) return;
    front->reset();
    const auto shared = std::make_shared<MessageBlock>(std::move(*twin));
    if (reactor->notify([&consume, shared] { consume(*shared); })) ++wrong;
  };

  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] { EXPECT_TRUE(reactor->run().has_value()); });
  }
  std::vector<std::thread> sources;
  for (std::uint32_t producer = 0; producer < producers; ++producer) {
    sources.emplace_back([&, producer] {
      for (std::uint32_t i = 0; i < each; ++i) {
        const auto shared = std::make_shared<MessageBlock>(message_of(pool, {producer, i}));
        if (reactor->notify([&pass_on, shared] { pass_on(std::move(*shared)); })) ++wrong;
      }
    });
  }
  for (std::thread& source : sources) source.join();
  while (consumed + wrong < producers * each) ::sched_yield();
  reactor->end();
  for (std::thread& thread : threads) thread.join();

  constexpr std::uint64_t total = std::uint64_t{producers} * each;
  EXPECT_EQ(wrong, 0U);
  EXPECT_EQ(consumed, total);
  EXPECT_EQ(sum, total * (total - 1) / 2);
  EXPECT_EQ(pool.blocks_available(), blocks);
  EXPECT_EQ(pool.links_available(), 8 * blocks);
}

}  // namespace
}  // namespace baton
