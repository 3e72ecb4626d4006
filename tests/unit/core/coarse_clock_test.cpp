// The clock that stamps operations: ages are exact to a tick, even when its counter wraps around.
#include "core/coarse_clock.hpp"

#include <gtest/gtest.h>

namespace baton {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

Duration age_of(Duration started, Duration now) {
  CoarseClock clock;
  clock.set(started.count());
  return CoarseClock::age(clock.tick(), CoarseClock::tick_of(now.count()));
}

TEST(CoarseClock, AgesAreExactToATick) {
  for (const Duration age : {Duration{0}, Duration{milliseconds{100}}, Duration{seconds{5}},
                             Duration{hours{24L * 365}}}) {
    const Duration told = age_of(seconds{1'000}, Duration{seconds{1'000}} + age);
    EXPECT_LE(told, age + milliseconds{17}) << age.count();
    EXPECT_GE(told + milliseconds{17}, age) << age.count();
  }
}

TEST(CoarseClock, WrapsAroundUnnoticed) {
  const Duration end{std::int64_t{1} << 56};  // 2^32 ticks
  EXPECT_GE(age_of(end - seconds{2}, end + seconds{3}) + milliseconds{17}, seconds{5});
  EXPECT_LE(age_of(end - seconds{2}, end + seconds{3}), seconds{5} + milliseconds{17});
}

TEST(CoarseClock, OperationsStartedAfterTheQueryAreNew) {
  EXPECT_EQ(age_of(seconds{11}, seconds{10}), Duration{0});
}

}  // namespace
}  // namespace baton
