// Lists of timers, hashed by handler.
#include "reactor/timers_by_handler.hpp"

#include <cstdint>
#include <new>

#include "base/assert.hpp"
#include "reactor/timer_table.hpp"

namespace baton::reactor {

// Mixed, because the low bits of an address are equal by its alignment.
std::size_t TimersByHandler::place(const EventHandler* handler, std::size_t buckets) noexcept {
  constexpr std::uint64_t golden_ratio = 0x9e37'79b9'7f4a'7c15;
  const std::uint64_t mixed = reinterpret_cast<std::uintptr_t>(handler) * golden_ratio;
  return static_cast<std::size_t>(mixed >> 32) & (buckets - 1);
}

ReactorTimer* TimersByHandler::first(const EventHandler& handler) const noexcept {
  ReactorTimer* timer = buckets_[place(&handler, buckets_.size())];
  while (timer != nullptr && timer->handler != &handler) timer = timer->links.other;
  return timer;
}

void TimersByHandler::add(ReactorTimer& timer) noexcept {
  timer.links = {};
  if (ReactorTimer* const head = first(*timer.handler)) {
    timer.links.previous = head;
    timer.links.next = head->links.next;
    if (timer.links.next != nullptr) timer.links.next->links.previous = &timer;
    head->links.next = &timer;
    return;
  }
  if (handlers_ == buckets_.size()) grow();
  ReactorTimer*& bucket = buckets_[place(timer.handler, buckets_.size())];
  timer.links.other = bucket;
  bucket = &timer;
  ++handlers_;
}

void TimersByHandler::remove(ReactorTimer& timer) noexcept {
  ReactorTimer* const next = timer.links.next;
  if (next != nullptr) next->links.previous = timer.links.previous;
  if (timer.links.previous != nullptr) {
    timer.links.previous->links.next = next;
    return;
  }
  ReactorTimer** at = &buckets_[place(timer.handler, buckets_.size())];
  while (*at != &timer) {
    BATON_ASSERT(*at != nullptr);
    at = &(*at)->links.other;
  }
  if (next != nullptr) {
    next->links.other = timer.links.other;
    *at = next;
  } else {
    *at = timer.links.other;
    --handlers_;
  }
}

// Without memory the table stays as it is, with longer lists in its buckets.
void TimersByHandler::grow() noexcept try {
  std::vector<ReactorTimer*> more(2 * buckets_.size());
  for (ReactorTimer* timer : buckets_) {
    while (timer != nullptr) {
      ReactorTimer* const other = timer->links.other;
      ReactorTimer*& bucket = more[place(timer->handler, more.size())];
      timer->links.other = bucket;
      bucket = timer;
      timer = other;
    }
  }
  buckets_.swap(more);
} catch (const std::bad_alloc&) {
}

}  // namespace baton::reactor
