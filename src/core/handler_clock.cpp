// The slow paths of HandlerClock: those that read the system's clock.
#include "core/handler_clock.hpp"

#include <algorithm>

namespace baton {

namespace {

// A quarter of a tick of the coarse clock.
constexpr std::int64_t fresh_ns = 4'000'000;
constexpr std::int64_t brief_ns = 16'000;
// Within these bounds the rate of ticks is known within a few percent, and the product fits 64
// bits.
constexpr std::int64_t rate_least_ns = 4'000;
constexpr std::int64_t rate_most_ns = 1'000'000'000'000;

// The counters of all processors agree. If one were behind another, the span would not be used.
bool is_span(std::uint64_t ticks) noexcept { return static_cast<std::int64_t>(ticks) > 0; }

}  // namespace

std::int64_t HandlerClock::ns_at(std::uint64_t count) const noexcept {
  return has_ticks_ ? system_.monotonic_ns() : static_cast<std::int64_t>(count);
}

// Reads the ticks after the nanoseconds; measure() reads them before. A preemption between the two
// makes a span look longer, never shorter, as a preemption within the span does.
std::uint64_t HandlerClock::looked_at(std::uint64_t count, std::int64_t ns) noexcept {
  coarse_.set(ns);
  looked_ns_ = ns;
  looked_ = has_ticks_ ? os::ticks() : count;
  return looked_;
}

// A preemption between the two readings makes a tick look longer than it is. Nothing makes it look
// shorter, so the least value seen is the most accurate.
void HandlerClock::learn_rate(std::uint64_t ticks, std::int64_t ns) noexcept {
  if (!is_span(ticks) || ns < rate_least_ns || ns > rate_most_ns) return;
  const std::uint64_t found = static_cast<std::uint64_t>(ns) * lot / ticks;
  if (ns_per_lot_ == 0 || found < ns_per_lot_) ns_per_lot_ = found;
}

std::uint64_t HandlerClock::look(std::uint64_t now) noexcept {
  const std::int64_t ns = ns_at(now);
  const std::uint64_t passed = now - looked_;
  const std::int64_t passed_ns = ns - looked_ns_;
  if (looked_ns_ != 0) learn_rate(passed, passed_ns);
  if (has_ticks_ && passed_ns <= fresh_ns && is_span(passed)) {
    fresh_ = std::max(fresh_, passed);
    const auto spans = static_cast<std::uint64_t>(passed_ns / brief_ns);
    if (spans != 0) brief_ = passed / spans;
  }
  return looked_at(now, ns);
}

std::uint64_t HandlerClock::measure(std::uint64_t begin, std::uint64_t end,
                                    std::size_t handlers) noexcept {
  const std::int64_t ns = ns_at(end);
  const std::uint64_t ticks = end - begin;
  if (!is_span(ticks) || !is_span(end - looked_)) return looked_at(end, ns);
  learn_rate(end - looked_, ns - looked_ns_);
  // begin() has read the clock before, or found the last reading fresh.
  const auto passed_ns = static_cast<double>(ns - looked_ns_);
  const double share = static_cast<double>(ticks) / static_cast<double>(end - looked_);
  const auto took = static_cast<std::uint64_t>(passed_ns * share);
  if (took <= std::min(slow_ns, longest_ns_.get())) {
    if (has_ticks_) short_ = std::max(short_, ticks);
  } else {
    const bool is_slow = took > slow_ns;
    if (is_slow && slow_ != nullptr) slow_->add();
    longest_ns_.raise_to(is_slow ? took : took / handlers);
  }
  return looked_at(end, ns);
}

}  // namespace baton
