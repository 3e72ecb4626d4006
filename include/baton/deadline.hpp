// Points in time. The library knows one clock, the monotonic one (CLOCK_MONOTONIC, which
// std::chrono::steady_clock is on Linux): wall-clock jumps never disturb a timer.
//
// Timeouts always round up: a wait may end late, never early.
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <limits>
#include <ratio>
#include <type_traits>

namespace baton {

/// A length of time.
using Duration = std::chrono::nanoseconds;

/// A length of time as a parameter: from every std::chrono duration. A span that nanoseconds cannot
/// hold saturates (292 years and more are as good as never), and fractions are rounded up.
class AnyDuration {
 public:
  template <class Rep, class Period>
  constexpr AnyDuration(
      std::chrono::duration<Rep, Period> span) noexcept  // NOLINT: as chrono's own
      : span_(saturated(span)) {}
  /// In nanoseconds.
  constexpr operator Duration() const noexcept { return span_; }  // NOLINT

 private:
  template <class Rep, class Period>
  static constexpr Duration saturated(std::chrono::duration<Rep, Period> span) noexcept {
    if constexpr (std::is_same_v<std::chrono::duration<Rep, Period>, Duration>) {
      return span;
    } else {
      const auto wide = std::chrono::duration<long double, std::nano>(span).count();
      if (!(wide > static_cast<long double>(Duration::min().count()))) return Duration::min();
      if (wide >= static_cast<long double>(Duration::max().count())) return Duration::max();
      return std::chrono::ceil<Duration>(span);
    }
  }
  Duration span_;
};

/// An absolute point of the monotonic clock in nanoseconds, or never, or "immediately" (already
/// past). A value type; saturates instead of overflowing.
class Deadline {
 public:
  constexpr Deadline() noexcept = default;  ///< never

  /// No deadline.
  static constexpr Deadline never() noexcept { return Deadline{}; }
  /// Always past.
  static constexpr Deadline immediately() noexcept { return at_ns(0); }
  /// By the monotonic clock.
  static constexpr Deadline at_ns(std::int64_t monotonic_ns) noexcept {
    Deadline deadline;
    deadline.ns_ = monotonic_ns;
    return deadline;
  }
  /// From a point of std::chrono's clock.
  static constexpr Deadline at(std::chrono::steady_clock::time_point when) noexcept {
    return at_ns(std::chrono::duration_cast<Duration>(when.time_since_epoch()).count());
  }
  /// `from` plus `length`, saturating at never(); `from` itself when the length is negative.
  static constexpr Deadline after(AnyDuration length, Deadline from) noexcept {
    const Duration span = length;
    if (from.is_never()) return never();
    if (span.count() <= 0) return from;
    if (from.ns_ > 0 && span.count() > never_ns - from.ns_) return never();
    return at_ns(from.ns_ + span.count());
  }
  /// `span` from now by the system's clock. Under a simulated clock use Proactor::now().
  static Deadline after(AnyDuration span) noexcept {
    return after(span, at(std::chrono::steady_clock::now()));
  }

  /// Whether there is no deadline.
  [[nodiscard]] constexpr bool is_never() const noexcept { return ns_ == never_ns; }
  /// By the monotonic clock.
  [[nodiscard]] constexpr std::int64_t ns() const noexcept { return ns_; }
  /// The time left at `now`: zero when past. REQUIRES: not never().
  [[nodiscard]] constexpr Duration remaining(Deadline now) const noexcept {
    return Duration{ns_ > now.ns_ ? ns_ - now.ns_ : 0};
  }

  friend constexpr auto operator<=>(Deadline, Deadline) noexcept = default;

 private:
  static constexpr std::int64_t never_ns = std::numeric_limits<std::int64_t>::max();
  std::int64_t ns_ = never_ns;
};

}  // namespace baton
