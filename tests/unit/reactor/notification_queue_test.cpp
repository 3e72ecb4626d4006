// The reserve of the queue of notifications: bounded, whatever a burst needed.
#include "reactor/notification_queue.hpp"

#include <gtest/gtest.h>

namespace baton::reactor {
namespace {

TEST(NotificationQueue, KeepsNoMoreThan64Nodes) {
  constexpr std::size_t burst = 200;
  NotificationQueue queue{burst};
  for (std::size_t i = 0; i < burst; ++i) {
    Notifications one = queue.node();
    queue.push(one);
  }
  EXPECT_TRUE(queue.full());
  std::size_t kept = 0;
  while (!queue.empty()) {
    Notifications one = queue.pop();
    queue.keep(one);
    if (one.empty()) ++kept;  // others are left to the caller, which destroys them
  }
  EXPECT_EQ(kept, 64U);
}

}  // namespace
}  // namespace baton::reactor
