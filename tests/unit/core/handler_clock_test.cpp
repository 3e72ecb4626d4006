// How long handlers take: every slow one is counted, with ticks and without, and a handler as short
// as earlier ones costs no reading of the clock. The test replaces the system's clock. The ticks
// are real, and the test expects no particular number of them.
#include "core/handler_clock.hpp"

#include <gtest/gtest.h>

namespace baton {
namespace {

constexpr std::int64_t ms = 1'000'000;

std::int64_t now_ns = 0;
unsigned looks = 0;

os::System system_with(bool ticks) {
  os::System made = os::real_system();
  made.monotonic_ns = [] {
    ++looks;
    return now_ns;
  };
  made.has_ticks = ticks;
  return made;
}

class HandlerClockTest : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (GetParam() && !os::real_system().has_ticks) {
      GTEST_SKIP() << "this processor's counter is not an even one";
    }
    now_ns = 1'000 * ms;
    looks = 0;
  }
  /// A batch of handlers that together last `ns`.
  void batch(std::int64_t ns, std::size_t handlers = 1) {
    const std::uint64_t begin = clock_.begin();
    now_ns += ns;
    static_cast<void>(clock_.end(begin, handlers));
  }

  const os::System system_ = system_with(GetParam());
  CoarseClock coarse_;
  Counter longest_;
  Counter slow_;
  HandlerClock clock_{system_, coarse_, longest_, &slow_};
};

TEST_P(HandlerClockTest, ASlowOneIsCountedWithItsFullLength) {
  batch(5 * ms, 10);
  EXPECT_EQ(slow_.get(), 1U);
  EXPECT_NEAR(static_cast<double>(longest_.get()), 5.0 * ms, 1.0);
  EXPECT_EQ(coarse_.tick(), CoarseClock::tick_of(now_ns));
}

TEST_P(HandlerClockTest, TheMeanCountsHandlersThatAreNotSlow) {
  batch(1'000, 10);
  EXPECT_EQ(slow_.get(), 0U);
  EXPECT_NEAR(static_cast<double>(longest_.get()), 100.0, 1.0);
}

TEST_P(HandlerClockTest, OneBatchBeginsWhereTheLastHasEnded) {
  std::uint64_t mark = clock_.begin();
  now_ns += 2 * ms;
  mark = clock_.end(mark, 1);
  now_ns += 3 * ms;
  static_cast<void>(clock_.end(mark, 1));
  EXPECT_GE(slow_.get(), 1U);
  EXPECT_GE(longest_.get(), static_cast<std::uint64_t>(2 * ms) - 1);
  EXPECT_LE(longest_.get(), static_cast<std::uint64_t>(3 * ms));
}

TEST_P(HandlerClockTest, TheirStartsAreStampedByTheLastLook) {
  batch(1'000);
  now_ns += 100 * ms;  // asleep
  if (GetParam()) {    // and the ticks went on: more than were ever fresh
    const std::uint64_t asleep = os::ticks() + 1'000'000;
    while (os::ticks() < asleep) {
    }
  }
  static_cast<void>(clock_.begin());
  EXPECT_EQ(coarse_.tick(), CoarseClock::tick_of(now_ns));
}

TEST_P(HandlerClockTest, AHandlerAsShortAsTheOthersNeedsNoLook) {
  batch(900'000);  // the longest
  if (!GetParam()) {
    EXPECT_EQ(looks, 2U) << "without ticks the clock is all there is";
    return;
  }
  for (;;) {  // until one is shorter than all before: preemption may come in between
    const std::uint64_t begin = clock_.begin();
    const unsigned before = looks;
    static_cast<void>(clock_.end(begin, 1));
    if (looks == before) break;
  }
  EXPECT_EQ(slow_.get(), 0U);
}

// A preemption makes a tick look longer than it is.
TEST_P(HandlerClockTest, TheShortestTickSeenIsTheirRate) {
  if (!GetParam()) {
    EXPECT_EQ(clock_.ns_between(3, 10), 7) << "without ticks the marks are nanoseconds";
    return;
  }
  const auto look_after = [&](std::int64_t ns) {
    const std::uint64_t then = os::ticks() + 1'000'000;
    while (os::ticks() < then) {
    }
    now_ns += ns;
    static_cast<void>(clock_.begin());
    return clock_.ns_between(0, 1'000'000);
  };
  static_cast<void>(clock_.begin());
  const std::int64_t preempted = look_after(900'000 * ms);
  const std::int64_t found = look_after(5 * ms);
  EXPECT_GT(found, 0);
  EXPECT_LT(found, preempted);
  EXPECT_EQ(look_after(900'000 * ms), found);
}

TEST_P(HandlerClockTest, KnowsBriefHandlers) {
  static_cast<void>(clock_.begin());
  EXPECT_FALSE(clock_.were_brief(0, 0)) << "nothing is known yet";
  now_ns += 100 * 16'000;
  if (GetParam()) {
    const std::uint64_t then = os::ticks() + 1'000'000;
    while (os::ticks() < then) {
    }
  }
  static_cast<void>(clock_.begin());
  EXPECT_EQ(clock_.were_brief(0, 9'999), GetParam()) << "a hundredth of what has passed";
  EXPECT_FALSE(clock_.were_brief(0, ~std::uint64_t{0}));
}

INSTANTIATE_TEST_SUITE_P(Core, HandlerClockTest, testing::Bool(),
                         [](const auto& each) { return each.param ? "by_ticks" : "by_the_clock"; });

}  // namespace
}  // namespace baton
