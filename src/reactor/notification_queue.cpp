// The queue of notifications and its reserve of nodes.
#include "reactor/notification_queue.hpp"

#include "base/assert.hpp"

namespace baton::reactor {

Notifications NotificationQueue::node() {
  Notifications one;
  if (reserve_.empty()) {
    one.emplace_back();
  } else {
    one.splice(one.end(), reserve_, reserve_.begin());
  }
  return one;
}

Notifications NotificationQueue::pop() noexcept {
  BATON_ASSERT(!waiting_.empty());
  Notifications one;
  one.splice(one.end(), waiting_, waiting_.begin());
  return one;
}

void NotificationQueue::keep(Notifications& one) noexcept {
  if (reserve_.size() < reserve_max) reserve_.splice(reserve_.end(), one);
}

std::size_t NotificationQueue::purge(const EventHandler* handler, Interest which,
                                     Notifications& purged) noexcept {
  std::size_t count = 0;
  for (auto at = waiting_.begin(); at != waiting_.end();) {
    const auto here = at++;
    if (handler != nullptr && here->handler != handler) continue;
    here->as = here->as - which;
    if (any(here->as)) continue;
    purged.splice(purged.end(), waiting_, here);
    ++count;
  }
  return count;
}

}  // namespace baton::reactor
