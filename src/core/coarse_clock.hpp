// CoarseClock: what time it was when a loop last looked. Operations are stamped with it, so that a
// report can tell their age and a start reads no clock: loops set it every few milliseconds at
// least, between batches.
//
// A tick is 2^24 ns, about 17 ms: a shift, no division, and 32 bits of it last for 2.3 years. An
// operation is therefore told older than it is, by a tick and by the time since its batch began.
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
  /// How long ago `tick` was at `now`, another tick; modulo 2^32, half of it is the future.
  [[nodiscard]] static Duration age(std::uint32_t tick, std::uint32_t now) noexcept {
    const auto ticks = static_cast<std::int32_t>(now - tick);
    return Duration{std::int64_t{std::max(ticks, 0)} << tick_bits};
  }

  /// By the loop; relaxed, for a stamp orders nothing.
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
