// HandlerClock: measures how long the handlers of a lane take (Statistics::handler_ns_max,
// slow_handlers) and sets the CoarseClock for what they start. It hardly ever reads the system's
// clock: otherwise a lane with short handlers would spend a tenth of its instructions on that.
//
// A few handlers are timed together. If a batch was slow, nearly always one handler was the cause,
// so it counts as one slow handler.
//
// Between readings of the clock it counts the processor's ticks. It need not know their rate in
// advance. Each reading shows that so many ticks took no longer than so many nanoseconds; from then
// on a batch of as many ticks, or fewer, needs no reading. Only a longer batch is measured, by its
// share of the ticks and nanoseconds since the last reading. Without ticks every batch is measured.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/assert.hpp"
#include "core/coarse_clock.hpp"
#include "core/counter.hpp"
#include "os/system.hpp"
#include "os/ticks.hpp"

namespace baton {

class HandlerClock {
 public:
  /// Handlers that take longer count as slow.
  static constexpr std::uint64_t slow_ns = 1'000'000;
  /// At most so many are timed together.
  static constexpr std::size_t handlers_max = 32;

  /// `slow`: counts slow handlers; null if the caller counts them itself.
  HandlerClock(const os::System& system, CoarseClock& coarse, Counter& longest_ns,
               Counter* slow) noexcept
      : system_(system), coarse_(coarse), longest_ns_(longest_ns), slow_(slow) {}
  HandlerClock(const HandlerClock&) = delete;
  HandlerClock& operator=(const HandlerClock&) = delete;

  /// Call before handlers. Returns a mark for end().
  [[nodiscard, gnu::always_inline]] std::uint64_t begin() noexcept {
    const std::uint64_t now = this->now();
    return BATON_LIKELY(now - looked_ <= fresh_) ? now : look(now);
  }
  /// Call after `handlers` of them, at least one. Returns the mark for the handlers that follow at
  /// once.
  [[gnu::always_inline]] std::uint64_t end(std::uint64_t begin, std::size_t handlers) noexcept {
    return end(begin, now(), handlers);
  }
  /// The same for handlers that returned at `now`.
  [[gnu::always_inline]] std::uint64_t end(std::uint64_t begin, std::uint64_t now,
                                           std::size_t handlers) noexcept {
    return BATON_LIKELY(now - begin <= short_) ? now : measure(begin, now, handlers);
  }
  /// Any thread.
  [[nodiscard]] std::uint64_t now() const noexcept {
    return BATON_LIKELY(has_ticks_) ? os::ticks()
                                    : static_cast<std::uint64_t>(system_.monotonic_ns());
  }
  /// The time between two marks. 0 until the rate of ticks is known.
  [[nodiscard]] std::int64_t ns_between(std::uint64_t begin, std::uint64_t end) const noexcept {
    const std::uint64_t span = end - begin;
    return static_cast<std::int64_t>(has_ticks_ ? span * ns_per_lot_ / lot : span);
  }
  /// True if less than about 16 us passed between two marks. Always false without ticks.
  [[nodiscard]] bool were_brief(std::uint64_t begin, std::uint64_t end) const noexcept {
    return end - begin < brief_;
  }

 private:
  std::uint64_t look(std::uint64_t now) noexcept;
  std::uint64_t measure(std::uint64_t begin, std::uint64_t end, std::size_t handlers) noexcept;
  [[nodiscard]] std::int64_t ns_at(std::uint64_t count) const noexcept;
  std::uint64_t looked_at(std::uint64_t count, std::int64_t ns) noexcept;
  void learn_rate(std::uint64_t ticks, std::int64_t ns) noexcept;

  static constexpr std::uint64_t lot = std::uint64_t{1} << 20;

  const os::System& system_;
  CoarseClock& coarse_;
  Counter& longest_ns_;
  Counter* const slow_;
  const bool has_ticks_ = system_.has_ticks;
  std::uint64_t fresh_ = 0;  // ticks since the last reading for which the coarse clock is right
  std::uint64_t short_ = 0;  // ticks of a batch known to be neither slow nor the longest
  std::uint64_t brief_ = 0;  // ticks in about 16 us
  std::uint64_t ns_per_lot_ = 0;  // nanoseconds for `lot` ticks
  std::uint64_t looked_ = 0;      // the last reading: ticks
  std::int64_t looked_ns_ = 0;    // and nanoseconds
};

}  // namespace baton
