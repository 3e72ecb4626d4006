// CoarseClock: the time at which a loop last read the clock. Operations are stamped with it, so a
// report can give their age and a start reads no clock. Loops set it between batches, every few
// milliseconds at least.
//
// A tick is 2^24 ns, about 17 ms: dividing is a shift, and 32 bits last for 2.3 years. An age is
// exact to one tick. It also includes the time between the start of the batch and the start of the
// operation.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "baton/deadline.hpp"

namespace baton {

class CoarseClock {
 public:
  [[nodiscard]] static std::uint32_t tick_of(std::int64_t monotonic_ns) noexcept {
    return static_cast<std::uint32_t>(monotonic_ns >> tick_bits);
  }
  /// The time from `tick` to `now`. Ticks wrap around: the later half of the range counts as the
  /// future.
  [[nodiscard]] static Duration age(std::uint32_t tick, std::uint32_t now) noexcept {
    const auto ticks = static_cast<std::int32_t>(now - tick);
    return Duration{std::int64_t{std::max(ticks, 0)} << tick_bits};
  }

  /// Called by the loop. relaxed: a stamp orders nothing.
  void set(std::int64_t monotonic_ns) noexcept {
    tick_.store(tick_of(monotonic_ns), std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint32_t tick() const noexcept {
    return tick_.load(std::memory_order_relaxed);
  }

 private:
  static constexpr int tick_bits = 24;
  std::atomic<std::uint32_t> tick_{0};
};

}  // namespace baton
