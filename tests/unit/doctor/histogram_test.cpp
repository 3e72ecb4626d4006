// Histograms of round trips.
#include "load/histogram.hpp"

#include <gtest/gtest.h>

namespace baton::tools {
namespace {

TEST(Histogram, NoQuantileIsLongerThanTheLongest) {
  Histogram times;
  EXPECT_EQ(times.percentile(0.5), 0U);
  for (const std::uint64_t each : {std::uint64_t{10}, std::uint64_t{1'000'003}}) times.record(each);
  EXPECT_EQ(times.percentile(0.5), 10U);
  EXPECT_EQ(times.percentile(0.999), 1'000'003U) << "and not the end of its bucket";
  EXPECT_EQ(times.max(), 1'000'003U);
}

}  // namespace
}  // namespace baton::tools
