// TimersByHandler: the timers of each handler as a list of their own, so that all timers of a
// handler are cancelled without visiting others. A hash table of the lists, through links in the
// timers. Guarded by the reactor's mutex.
#pragma once

#include <cstddef>
#include <vector>

#include "baton/event_handler.hpp"

namespace baton::reactor {

struct ReactorTimer;

class TimersByHandler {
 public:
  /// In each timer.
  struct Links {
    ReactorTimer* next = nullptr;      // of the same handler
    ReactorTimer* previous = nullptr;  // null: the first of its handler
    ReactorTimer* other = nullptr;     // in a first one: that of another handler in the same bucket
  };

  /// Throws std::bad_alloc.
  TimersByHandler() : buckets_(buckets_min) {}

  /// Null: none.
  [[nodiscard]] ReactorTimer* first(const EventHandler& handler) const noexcept;
  /// REQUIRES: not in it.
  void add(ReactorTimer& timer) noexcept;
  /// REQUIRES: in it.
  void remove(ReactorTimer& timer) noexcept;
  /// As many as the most handlers that it has had at once, rounded up to a power of two; 64 at
  /// least.
  [[nodiscard]] std::size_t buckets() const noexcept { return buckets_.size(); }

 private:
  static constexpr std::size_t buckets_min = 64;  // numbers of buckets are powers of two

  static std::size_t place(const EventHandler* handler, std::size_t buckets) noexcept;
  void grow() noexcept;

  std::vector<ReactorTimer*> buckets_;
  std::size_t handlers_ = 0;
};

}  // namespace baton::reactor
