// A thread woken by the holder of a mutex finds it free.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "os/mutex.hpp"
#include "os/parking.hpp"

namespace baton::os {
namespace {

using Word = std::atomic<std::uint32_t>;

class WakingMutexTest : public testing::Test {
 protected:
  WakingMutexTest() {
    self = this;
    // The woken thread takes the mutex; if it had to sleep for it, the test would fail here.
    system_.futex_wake = [](Word* word, std::uint32_t) {
      self->woken_.push_back(word);
      if (self->holding_) return;
      self->mutex_.lock(self->system_);
      self->mutex_.unlock(self->system_);
    };
    system_.futex_wait = [](Word*, std::uint32_t, std::int64_t) -> bool {
      std::fputs("woken while the mutex was held\n", stderr);
      std::abort();
    };
  }
  ~WakingMutexTest() override { self = nullptr; }

  void lock() BATON_NO_THREAD_SAFETY_ANALYSIS {
    mutex_.lock(system_);
    holding_ = true;
  }
  void unlock() BATON_NO_THREAD_SAFETY_ANALYSIS {
    holding_ = false;
    mutex_.unlock(system_);
  }

  static inline WakingMutexTest* self = nullptr;
  System system_ = real_system();
  WakingMutex mutex_;
  bool holding_ = false;
  std::vector<Word*> woken_;
};

TEST_F(WakingMutexTest, WakesWhenItIsFree) {
  ParkingSlot slot;
  lock();
  Word* const word = slot.signal();
  ASSERT_NE(word, nullptr);
  mutex_.wake_when_free(word, system_);
  EXPECT_TRUE(woken_.empty());
  unlock();
  EXPECT_EQ(woken_, std::vector<Word*>{word});
  EXPECT_TRUE(slot.park(system_, Deadline::immediately()));
}

TEST_F(WakingMutexTest, WakesEachOnce) {
  ParkingSlot slots[3];
  lock();
  for (ParkingSlot& slot : slots) mutex_.wake_when_free(slot.signal(), system_);
  EXPECT_EQ(woken_.size(), 2U) << "all but the last at once";
  unlock();
  EXPECT_EQ(woken_.size(), 3U);
  lock();
  unlock();
  EXPECT_EQ(woken_.size(), 3U);
}

TEST_F(WakingMutexTest, ASignalledThreadIsNotWokenTwice) {
  ParkingSlot slot;
  slot.unpark(system_);
  EXPECT_EQ(woken_.size(), 1U);
  lock();
  EXPECT_EQ(slot.signal(), nullptr);
  mutex_.wake_when_free(nullptr, system_);
  unlock();
  EXPECT_EQ(woken_.size(), 1U);
}

}  // namespace
}  // namespace baton::os
