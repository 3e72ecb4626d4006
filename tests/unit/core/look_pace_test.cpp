// How often the standby looks.
#include "core/look_pace.hpp"

#include <gtest/gtest.h>

namespace baton {
namespace {

using std::chrono::milliseconds;

constexpr int many = 10'000;

void all_moved(LookPace& pace, int looks) {
  for (int i = 0; i < looks; ++i) pace.all_moved();
}

TEST(LookPace, BeginsAtTheConfiguredPace) {
  const LookPace pace{milliseconds{3}};
  EXPECT_EQ(pace.now(), milliseconds{3});
  EXPECT_EQ(pace.shortest(), milliseconds{3});
}

TEST(LookPace, BecomesRarerWhileAllMovesUpToABound) {
  LookPace pace{milliseconds{1}};
  Duration before = pace.now();
  for (int i = 0; i < many; ++i) {
    pace.all_moved();
    EXPECT_GE(pace.now(), before);
    EXPECT_LE(pace.now(), before * 2) << "step by step";
    before = pace.now();
  }
  EXPECT_EQ(before, milliseconds{1} * LookPace::slowest);
  EXPECT_EQ(pace.shortest(), milliseconds{1});
}

TEST(LookPace, ReturnsToTheConfiguredPaceAfterAStuckHandler) {
  LookPace pace{milliseconds{1}};
  all_moved(pace, many);
  pace.was_stuck();
  EXPECT_EQ(pace.now(), milliseconds{1});
}

// A handler that blocks once a second is remembered.
TEST(LookPace, RemembersForAThousandLooks) {
  LookPace pace{milliseconds{1}};
  for (int i = 0; i < 3; ++i) {
    pace.was_stuck();
    all_moved(pace, 999);
    EXPECT_EQ(pace.now(), milliseconds{1});
  }
  all_moved(pace, 1);
  EXPECT_GT(pace.now(), milliseconds{1});
}

}  // namespace
}  // namespace baton
