// Names of the C interface for handles, their pins, and the close that waits for them.
#include "capi/handles.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <thread>

#include "support/patience.hpp"

namespace baton::test {
namespace {

class HandleName : public testing::Test {
 protected:
  Handle handle;
  capi::HandleNames names{os::real_system()};
  const baton_handle name = names.add(handle);

  /// The handle that the name names for a moment.
  Handle* pinned(baton_handle one) const { return capi::PinnedHandle{names, one}.get(); }
};

TEST_F(HandleName, IsPinnedUntilItIsClosed) {
  ASSERT_NE(name, 0U);
  EXPECT_EQ(pinned(name), &handle);
  EXPECT_EQ(names.begin_close(name), &handle);
  EXPECT_EQ(pinned(name), nullptr);
  EXPECT_EQ(names.begin_close(name), nullptr) << "closed twice";
  EXPECT_EQ(names.begin_close(0), nullptr);
  EXPECT_EQ(pinned(0), nullptr);
}

TEST_F(HandleName, OfAnEarlierHandleNamesNoLaterOne) {
  ASSERT_EQ(names.begin_close(name), &handle);
  const baton_handle next = names.add(handle);
  EXPECT_NE(next, name);
  EXPECT_EQ(pinned(name), nullptr);
  EXPECT_EQ(names.begin_close(name), nullptr);
  EXPECT_EQ(pinned(next), &handle);
}

// A close that goes on while a call still uses the handle frees its record under that call.
TEST_F(HandleName, IsClosedAfterTheLastCallThatUsesIt) {
  constexpr int rounds = 100;
  baton_handle now = name;
  for (int i = 0; i < rounds; ++i) {
    std::optional<capi::PinnedHandle> used_here{std::in_place, names, now};
    ASSERT_EQ(used_here->get(), &handle);
    std::atomic<bool> used{true};
    std::atomic<bool> overtaken{false};
    std::thread closer{[&] {
      EXPECT_EQ(names.begin_close(now), &handle);
      overtaken = used.load();
    }};
    const Deadline limit = at_last();
    while (pinned(now) != nullptr && is_ahead(limit)) std::this_thread::yield();
    // The closer is past its mark: a chance to overtake.
    for (int j = 0; j < 100; ++j) std::this_thread::yield();
    used = false;
    used_here.reset();
    closer.join();
    ASSERT_FALSE(overtaken);
    now = names.add(handle);
  }
}

// After a fork the threads that had pinned it are not there.
TEST_F(HandleName, IsGoneAfterAFork) {
  const capi::PinnedHandle of_a_thread_that_is_gone{names, name};
  ASSERT_EQ(of_a_thread_that_is_gone.get(), &handle);
  names.reset();
  EXPECT_EQ(pinned(name), nullptr);
  EXPECT_EQ(names.begin_close(name), nullptr);
  const baton_handle next = names.add(handle);
  EXPECT_EQ(names.begin_close(next), &handle) << "no pin is left to wait for";
}

}  // namespace
}  // namespace baton::test
