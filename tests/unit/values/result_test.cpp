// Result and Deadline: the small values that all interfaces use.
#include "baton/result.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <limits>
#include <memory>
#include <string>

#include "baton/deadline.hpp"
#include "baton/error.hpp"

namespace baton {
namespace {

using namespace std::chrono_literals;

TEST(Result, HoldsAValue) {
  Result<int> result = 5;
  ASSERT_TRUE(result);
  EXPECT_EQ(*result, 5);
  EXPECT_EQ(result.value_or(7), 5);
  EXPECT_EQ(result.error(), std::error_code{});
}

TEST(Result, HoldsAnError) {
  const Result<int> result = unexpected{errc::stopped};
  EXPECT_FALSE(result.has_value());
  EXPECT_EQ(result.error(), errc::stopped);
  EXPECT_EQ(result.value_or(7), 7);
}

TEST(Result, MovesValuesThatCannotBeCopied) {
  Result<std::unique_ptr<int>> result = std::make_unique<int>(3);
  const std::unique_ptr<int> taken = std::move(result).value();
  EXPECT_EQ(*taken, 3);
}

TEST(Result, OfTheSameTypeTwice) {
  const Result<std::string, std::string> good = std::string("value");
  const Result<std::string, std::string> bad = unexpected{std::string("error")};
  EXPECT_EQ(*good, "value");
  EXPECT_EQ(bad.error(), "error");
}

TEST(Result, OfNothing) {
  const Result<void, Failure> good;
  EXPECT_TRUE(good.has_value());
  const Result<void, Failure> bad = unexpected{Failure{errc::unknown_name, "why"}};
  EXPECT_FALSE(bad);
  EXPECT_EQ(bad.error().reason, "why");
}

TEST(ResultDeathTest, TheValueOfAnErrorEndsTheProgram) {
  const Result<int> result = unexpected{errc::stopped};
  EXPECT_DEATH((void)result.value(), "");
  const Result<void> nothing = unexpected{errc::stopped};
  EXPECT_DEATH(nothing.value(), "");
}

TEST(Deadline, IsNeverByDefault) {
  EXPECT_TRUE(Deadline{}.is_never());
  EXPECT_EQ(Deadline{}, Deadline::never());
  EXPECT_FALSE(Deadline::immediately().is_never());
  EXPECT_LT(Deadline::immediately(), Deadline::after(0ns));
  EXPECT_LT(Deadline::after(1h), Deadline::never());
}

TEST(Deadline, TakesEveryDuration) {
  const Deadline from = Deadline::at_ns(1'000);
  EXPECT_TRUE(Deadline::after(std::chrono::hours::max(), from).is_never());
  EXPECT_TRUE(Deadline::after(std::chrono::seconds::max(), from).is_never());
  EXPECT_TRUE(Deadline::after(std::chrono::hours(24 * 365 * 300), from).is_never());
  EXPECT_TRUE(Deadline::after(std::chrono::duration<double>(1e300), from).is_never());
  EXPECT_EQ(Deadline::after(0.5s, from).ns(), 500'001'000);
  EXPECT_EQ(Deadline::after(std::chrono::duration<double, std::nano>(0.1), from).ns(), 1'001);
  EXPECT_EQ(Deadline::after(std::chrono::hours::min(), from), from);
  EXPECT_EQ(Deadline::after(std::chrono::duration<double>(-1e300), from), from);
  EXPECT_EQ(Deadline::after(-1s, from), from);
  // A clock that stands before the machine's start.
  EXPECT_EQ(Deadline::after(1s, Deadline::at_ns(-1)).ns(), 999'999'999);
  EXPECT_EQ(Deadline::after(Duration::max(), Deadline::at_ns(-1)).ns(),
            Duration::max().count() - 1);
}

TEST(Deadline, SaturatesInsteadOfOverflowing) {
  constexpr std::int64_t end = std::numeric_limits<std::int64_t>::max();
  const Deadline late = Deadline::at_ns(end - 10);
  EXPECT_EQ(Deadline::after(Duration{9}, late).ns(), end - 1);
  EXPECT_TRUE(Deadline::after(Duration{10}, late).is_never());
  EXPECT_TRUE(Deadline::after(Duration{11}, late).is_never());
  EXPECT_TRUE(Deadline::after(Duration{end}, late).is_never());
  EXPECT_TRUE(Deadline::after(1ns, Deadline::never()).is_never());
  EXPECT_TRUE(Deadline::after(Duration::max()).is_never());
}

TEST(Deadline, NegativeSpansAreOver) {
  const Deadline now = Deadline::at_ns(1'000);
  EXPECT_EQ(Deadline::after(-5ns, now), now);
  EXPECT_EQ(Deadline::after(Duration{std::numeric_limits<std::int64_t>::min()}, now), now);
}

TEST(Deadline, Remaining) {
  const Deadline now = Deadline::at_ns(1'000);
  EXPECT_EQ(Deadline::at_ns(1'500).remaining(now), 500ns);
  EXPECT_EQ(Deadline::at_ns(999).remaining(now), 0ns);
  EXPECT_EQ(now.remaining(now), 0ns);
}

}  // namespace
}  // namespace baton
