// LookPace: how long the standby sleeps between two looks. A look costs a timer, two context
// switches and the wake-up of an idle core. On a busy machine that takes some hundred microseconds
// of the leader's time (docs/decisions/0007-rarer-looks.md). So looks become rarer while each finds
// that everything moves, and return to the shortest interval when something was stuck. Not
// thread-safe.
#pragma once

#include <cstdint>

#include "baton/deadline.hpp"

namespace baton {

class LookPace {
 public:
  /// The longest sleep, as a multiple of the shortest.
  static constexpr std::int64_t slowest = 8;

  explicit LookPace(Duration shortest) noexcept : shortest_(shortest), now_(shortest) {}

  [[nodiscard]] Duration shortest() const noexcept { return shortest_; }
  [[nodiscard]] Duration now() const noexcept { return now_; }

  /// A look found that everything moves.
  void all_moved() noexcept {
    if (++moved_ < patience_ || now_ >= shortest_ * slowest) return;
    moved_ = 0;
    patience_ = looks_each;
    now_ *= 2;
  }
  /// A leader was stuck in a handler, or results had become old. It may happen again soon.
  void was_stuck() noexcept {
    moved_ = 0;
    patience_ = looks_after_stuck;
    now_ = shortest_;
  }

 private:
  static constexpr std::uint32_t looks_each = 4;
  static constexpr std::uint32_t looks_after_stuck = 1'000;

  Duration shortest_;
  Duration now_;
  std::uint32_t moved_ = 0;
  std::uint32_t patience_ = looks_each;
};

}  // namespace baton
