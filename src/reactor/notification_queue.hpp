// NotificationQueue: the notifications of a reactor, bounded and in order; they can be purged.
// Nodes are reused, so that a steady stream of notifications allocates nothing. Guarded by the
// reactor's mutex. The caller destroys the nodes that it takes out, without the mutex, because the
// destructors are the user's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>

#include "baton/event_handler.hpp"
#include "baton/interest.hpp"

namespace baton::reactor {

struct Notification {
  EventHandler* handler = nullptr;  // null: call `work`
  std::shared_ptr<EventHandler> kept;
  std::function<void()> work;
  Interest as = Interest::none;
};
using Notifications = std::list<Notification>;

class NotificationQueue {
 public:
  explicit NotificationQueue(std::uint32_t bound) noexcept : bound_(bound) {}

  [[nodiscard]] bool empty() const noexcept { return waiting_.empty(); }
  [[nodiscard]] std::size_t size() const noexcept { return waiting_.size(); }
  [[nodiscard]] bool full() const noexcept { return waiting_.size() >= bound_; }

  /// A node for one notification, from the reserve if it has one. Throws std::bad_alloc.
  Notifications node();
  void push(Notifications& one) noexcept { waiting_.splice(waiting_.end(), one); }
  /// REQUIRES: not empty.
  Notifications pop() noexcept;
  /// Keeps a node for reuse. REQUIRES: it was cleared before, without the mutex.
  void keep(Notifications& one) noexcept;

  /// Removes `which` from the notifications of `handler` (null: of all handlers). Notifications
  /// with nothing left are moved to `purged`; returns their number.
  std::size_t purge(const EventHandler* handler, Interest which, Notifications& purged) noexcept;

 private:
  static constexpr std::size_t reserve_max = 64;
  const std::uint32_t bound_;
  Notifications waiting_;
  Notifications reserve_;
};

}  // namespace baton::reactor
