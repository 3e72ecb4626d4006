// The cache of operations without an owner (P-22).
#include "core/operation_cache.hpp"

#include <gtest/gtest.h>

#include <set>
#include <thread>
#include <vector>

namespace baton {
namespace {

TEST(OperationCache, gives_the_last_one_back_first) {
  OperationCache cache{os::real_system()};
  CachedOperation* first = cache.take();
  CachedOperation* second = cache.take();
  ASSERT_NE(first, second);
  cache.give_back(*first);
  EXPECT_EQ(cache.take(), first);
  cache.give_back(*second);
  cache.give_back(*first);
}

TEST(OperationCache, forgets_strand_and_deadline_of_the_last_use) {
  OperationCache cache{os::real_system()};
  CachedOperation* operation = cache.take();
  operation->set_deadline(Deadline::at_ns(5));
  operation->set_strand(reinterpret_cast<Strand*>(operation));
  cache.give_back(*operation);
  ASSERT_EQ(cache.take(), operation);
  EXPECT_TRUE(operation->deadline().is_never());
  EXPECT_EQ(operation->strand(), nullptr);
  cache.give_back(*operation);
}

TEST(OperationCache, grows_by_chunks_and_never_gives_one_twice) {
  OperationCache cache{os::real_system()};
  std::set<CachedOperation*> taken;
  for (std::size_t i = 0; i < 3 * limits::operation_cache_chunk; ++i) {
    ASSERT_TRUE(taken.insert(cache.take()).second);
  }
  for (CachedOperation* operation : taken) cache.give_back(*operation);
}

// A child of fork may take any number of times: what it gave back is taken again.
TEST(OperationsOfChild, are_used_again) {
  OperationsOfChild cache;
  std::set<CachedOperation*> made;
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(made.insert(cache.take()).second);
  for (int round = 0; round < 3; ++round) {
    for (CachedOperation* operation : made) cache.give_back(*operation);
    std::set<CachedOperation*> taken;
    for (int i = 0; i < 5; ++i) ASSERT_TRUE(taken.insert(cache.take()).second);
    EXPECT_EQ(taken, made);
  }
  for (CachedOperation* operation : made) cache.give_back(*operation);
}

TEST(OperationsOfChild, forget_strand_and_deadline_of_the_last_use) {
  OperationsOfChild cache;
  CachedOperation* operation = cache.take();
  operation->set_deadline(Deadline::at_ns(5));
  operation->set_strand(reinterpret_cast<Strand*>(operation));
  cache.give_back(*operation);
  ASSERT_EQ(cache.take(), operation);
  EXPECT_TRUE(operation->deadline().is_never());
  EXPECT_EQ(operation->strand(), nullptr);
  cache.give_back(*operation);
}

TEST(OperationCache, is_shared_by_threads) {
  OperationCache cache{os::real_system()};
  std::atomic<bool> twice{false};
  std::vector<std::thread> threads;
  for (std::uint32_t t = 1; t <= 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 5'000; ++i) {
        CachedOperation* operation = cache.take();
        operation->set_tag(t);
        std::this_thread::yield();
        if (operation->tag() != t) twice = true;
        cache.give_back(*operation);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(twice);
}

}  // namespace
}  // namespace baton
