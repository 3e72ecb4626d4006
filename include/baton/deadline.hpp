// Points in time. The library knows one clock, the monotonic one (CLOCK_MONOTONIC, which
// std::chrono::steady_clock is on Linux): wall-clock jumps never disturb a timer.
//
// Time-outs always round up: a wait may end late, never early.
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <limits>

namespace baton {

using Duration = std::chrono::nanoseconds;

/// An absolute point of the monotonic clock in nanoseconds, or never, or "immediately" (already
/// past). A value type; saturates instead of overflowing.
class Deadline {
 public:
  constexpr Deadline() noexcept = default;  ///< never

  static constexpr Deadline never() noexcept { return Deadline{}; }
  static constexpr Deadline immediately() noexcept { return at_ns(0); }
  static constexpr Deadline at_ns(std::int64_t monotonic_ns) noexcept {
    Deadline deadline;
    deadline.ns_ = monotonic_ns;
    return deadline;
  }
  static constexpr Deadline at(std::chrono::steady_clock::time_point when) noexcept {
    return at_ns(std::chrono::duration_cast<Duration>(when.time_since_epoch()).count());
  }
  /// `from` plus `span`, saturating at never() (or at immediately() for negative spans).
  static constexpr Deadline after(Duration span, Deadline from) noexcept {
    if (from.is_never()) return never();
    if (span.count() <= 0) return from;
    if (span.count() > never_ns - from.ns_) return never();
    return at_ns(from.ns_ + span.count());
  }
  /// `span` from now by the system's clock. Under a simulated clock use Proactor::now().
  static Deadline after(Duration span) noexcept {
    return after(span, at(std::chrono::steady_clock::now()));
  }

  [[nodiscard]] constexpr bool is_never() const noexcept { return ns_ == never_ns; }
  [[nodiscard]] constexpr std::int64_t ns() const noexcept { return ns_; }
  /// What is left at `now`: zero when past. REQUIRES: not never().
  [[nodiscard]] constexpr Duration remaining(Deadline now) const noexcept {
    return Duration{ns_ > now.ns_ ? ns_ - now.ns_ : 0};
  }

  friend constexpr auto operator<=>(Deadline, Deadline) noexcept = default;

 private:
  static constexpr std::int64_t never_ns = std::numeric_limits<std::int64_t>::max();
  std::int64_t ns_ = never_ns;
};

}  // namespace baton
