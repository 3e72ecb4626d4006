// HandlerClock: how long the handlers of a lane take (Statistics::handler_ns_max, slow_handlers),
// and what time it is for what they start (CoarseClock), with next to no looks at the system's
// clock. A lane with short handlers would else spend a tenth of its instructions on them.
//
// A few handlers are timed together; if they were slow, it was one of them, as good as always.
//
// Between looks it counts the processor's ticks. Nothing needs to be known of their rate: each look
// shows that so many ticks were no longer than so many nanoseconds, and from then on as many, or
// fewer, need no look. Only a batch longer than any that was seen to be short is measured: by its
// share of the ticks, and of the nanoseconds, since the look before it. Without ticks every batch
// is measured.
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
  /// Handlers that take longer are counted one by one.
  static constexpr std::uint64_t slow_ns = 1'000'000;
  /// At most so many are timed together.
  static constexpr std::size_t handlers_max = 32;

  /// `slow`: counts slow handlers; null if the caller counts them itself.
  HandlerClock(const os::System& system, CoarseClock& coarse, Counter& longest_ns,
               Counter* slow) noexcept
      : system_(system), coarse_(coarse), longest_ns_(longest_ns), slow_(slow) {}
  HandlerClock(const HandlerClock&) = delete;
  HandlerClock& operator=(const HandlerClock&) = delete;

  /// Before handlers: a mark for end().
  [[nodiscard, gnu::always_inline]] std::uint64_t begin() noexcept {
    const std::uint64_t now = this->now();
    return BATON_LIKELY(now - looked_ <= fresh_) ? now : look(now);
  }
  /// After `handlers` of them, at least one: the mark for those that follow at once.
  [[gnu::always_inline]] std::uint64_t end(std::uint64_t begin, std::size_t handlers) noexcept {
    return end(begin, now(), handlers);
  }
  /// The same for handlers that have returned when it was `now`.
  [[gnu::always_inline]] std::uint64_t end(std::uint64_t begin, std::uint64_t now,
                                           std::size_t handlers) noexcept {
    return BATON_LIKELY(now - begin <= short_) ? now : measure(begin, now, handlers);
  }
  /// Any thread.
  [[nodiscard]] std::uint64_t now() const noexcept {
    return BATON_LIKELY(has_ticks_) ? os::ticks()
                                    : static_cast<std::uint64_t>(system_.monotonic_ns());
  }
  /// Of two marks, as far as the rate of ticks is known: 0 before the first long enough look.
  [[nodiscard]] std::int64_t ns_between(std::uint64_t begin, std::uint64_t end) const noexcept {
    const std::uint64_t span = end - begin;
    return static_cast<std::int64_t>(has_ticks_ ? span * ns_per_lot_ / lot : span);
  }
  /// Some 16 us have not passed between two marks. Without ticks it is never known.
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
  std::uint64_t fresh_ = 0;       // as many since the last look: the coarse clock is right
  std::uint64_t short_ = 0;       // as many for a batch: neither slow nor longer than another
  std::uint64_t brief_ = 0;       // as many, or nearly, in 16 us
  std::uint64_t ns_per_lot_ = 0;  // a lot of ticks takes so long
  std::uint64_t looked_ = 0;      // the last look: ticks,
  std::int64_t looked_ns_ = 0;    // and nanoseconds
};

}  // namespace baton
