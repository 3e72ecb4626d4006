// The list of directions that rest, under a clock that the test moves.
#include "engines/emulated/back_off.hpp"

#include <gtest/gtest.h>

#include "baton/limits.hpp"

namespace baton::test {
namespace {

using engines::emulated::BackOffs;
using engines::emulated::Direction;
using engines::emulated::Record;

constexpr std::int64_t ms = 1'000'000;
std::int64_t now_ns = 0;

class BackOffList : public testing::Test {
 protected:
  BackOffList() {
    now_ns = 77 * ms;
    system_.monotonic_ns = [] { return now_ns; };
    EXPECT_TRUE(records_.ensure(3));
    for (std::uint32_t i = 0; i < 4; ++i) records_[i].index = i;
  }

  void add(std::uint32_t index, std::uint32_t span_ms) {
    list.add(records_[index], records_[index].in, span_ms);
  }
  void remove(std::uint32_t index) { list.remove(records_[index], records_[index].in); }
  /// The index of one that is due, or -1.
  int take() {
    Record* record = nullptr;
    Direction* direction = nullptr;
    if (!list.take_due(record, direction)) return -1;
    EXPECT_EQ(direction, &record->in);
    return static_cast<int>(record->index);
  }
  /// From now until the list is to be looked at.
  std::int64_t left_ms() { return (list.next().ns() - now_ns) / ms; }

 private:
  os::System system_ = os::real_system();
  ChunkedTable<Record> records_{256};

 protected:
  BackOffs list{system_, records_, false};
};

TEST_F(BackOffList, ShortRestDoesNotWaitForALongerOne) {
  add(0, 500);
  EXPECT_EQ(left_ms(), 501) << "rounded up";
  add(1, 20);
  EXPECT_EQ(left_ms(), 21);
  now_ns += 20 * ms;
  EXPECT_EQ(take(), -1);
  now_ns += ms;
  EXPECT_EQ(take(), 1);
  EXPECT_EQ(take(), -1);
  EXPECT_EQ(left_ms(), 480) << "the longer one is still in the list";
  now_ns += 480 * ms;
  EXPECT_EQ(take(), 0);
  EXPECT_FALSE(list.any());
  EXPECT_TRUE(list.next().is_never());
}

TEST_F(BackOffList, LongRestDoesNotDelayAShorterOne) {
  add(0, 20);
  add(1, 500);
  EXPECT_EQ(left_ms(), 21);
  remove(0);
  EXPECT_TRUE(list.any());
  now_ns += 21 * ms;
  EXPECT_EQ(take(), -1);
  EXPECT_EQ(left_ms(), 480);
}

TEST_F(BackOffList, RestsThatAreDueTogetherAreAllTaken) {
  for (std::uint32_t i = 0; i < 4; ++i) add(i, 10 * i);
  remove(1);
  now_ns += 31 * ms;
  EXPECT_EQ(take() + take() + take(), 0 + 2 + 3);
  EXPECT_EQ(take(), -1);
}

}  // namespace
}  // namespace baton::test
