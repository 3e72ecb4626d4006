// Opening a proactor, with each allocation failing in turn, on every combination of parts. The open
// succeeds or reports the failure, and nothing leaks. (tests/unit/startup tests system calls that
// fail during an open.)
#include <new>
#include <string>

#include "../support/failing_system.hpp"
#include "allocations.hpp"
#include "world.hpp"

namespace baton::faults {
namespace {

using test::Held;

class Opening : public testing::TestWithParam<conformance::Combination> {
 protected:
  void SetUp() override {
    // Twice before the count: objects that are made once for the process stay.
    for (int i = 0; i < 2; ++i) {
      World world(GetParam(), 2, {});
      const std::string reason = world.open_as_named();
      if (!reason.empty()) GTEST_SKIP() << reason;
      world.run();
      world.expect_works();
    }
  }

  /// How many allocations an opening makes.
  std::size_t allocations() {
    World world(GetParam(), 2, {});
    FailingAllocations counting(0);
    EXPECT_EQ(world.open(), "");
    counting.end();
    const std::size_t count = counting.count();
    world.run();
    world.expect_works();
    return count;
  }

  /// Opens with the fault; whether there was one.
  bool try_with(std::size_t nth, std::size_t times) {
    const std::string what = GetParam().name() + ", opening, allocation " + std::to_string(nth) +
                             (times > 1 ? " and later" : "");
    SCOPED_TRACE(what);
    now_trying(what);
    Held before = test::held_now();
    bool hit = false;
    {
      World world(GetParam(), 2, {});
      bool opened = false;
      {
        FailingAllocations failing(nth, times);
        try {
          opened = world.open().empty();
        } catch (const std::bad_alloc&) {
          // says why
        }
        failing.end();
        hit = failing.hit();
      }
      if (opened) {
        world.run();
        world.expect_works();
        before.blocked_signals.clear();  // strategies by signal block theirs for good
      }
    }
    Held after = test::held_now();
    if (before.blocked_signals.empty()) after.blocked_signals.clear();
    EXPECT_EQ(after, before) << "left behind";
    return hit;
  }
};

TEST_P(Opening, each_allocation_fails_in_turn) {
  // A part of them, another one for each combination.
  const std::size_t step = full() ? 1 : 11;
  ASSERT_GT(allocations(), step) << "each part has something in it";
  for (const std::size_t times : {std::size_t{1}, std::size_t{1'000'000}}) {
    bool hit = true;
    for (std::size_t nth = 1 + hash(GetParam().name()) % step; hit; nth += step) {
      expect_no_leak([&] { hit = try_with(nth, times); });
      if (HasFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(every, Opening, testing::ValuesIn(conformance::combinations()),
                         conformance::combination_name);

}  // namespace
}  // namespace baton::faults
