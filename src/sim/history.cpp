// The history as text.
#include "sim/history.hpp"

#include <algorithm>

namespace baton::sim {

const char* to_string(Event event) noexcept {
  switch (event) {
    case Event::fiber_start:
      return "thread starts";
    case Event::fiber_end:
      return "thread ends";
    case Event::fiber_switch:
      return "switch";
    case Event::sleep:
      return "sleeps";
    case Event::wake:
      return "is woken";
    case Event::time_out:
      return "timed out";
    case Event::jump:
      return "no thread runs";
    case Event::call:
      return "call";
    case Event::submit:
      return "submit";
    case Event::perform:
      return "perform";
    case Event::engine_done:
      return "engine is done";
    case Event::engine_cancel:
      return "engine cancel";
    case Event::engine_wait:
      return "engine wait";
    case Event::interrupt:
      return "interrupt";
    case Event::arrive:
      return "arrive";
    case Event::reset:
      return "reset";
    case Event::start:
      return "start";
    case Event::refused:
      return "refused";
    case Event::complete:
      return "complete";
    case Event::act:
      break;
  }
  return "act";
}

std::string History::text_of(const Entry& entry) {
  char line[160];
  const int size =
      std::snprintf(line, sizeof(line), "%14.3f us  thread %2u  %-14s %lld, %lld\n",
                    static_cast<double>(entry.now_ns) / 1000.0, entry.fiber, to_string(entry.event),
                    static_cast<long long>(entry.a), static_cast<long long>(entry.b));
  return {line, static_cast<std::size_t>(std::max(size, 0))};
}

void History::print(const Entry& entry) { std::fputs(text_of(entry).c_str(), stderr); }

std::string History::last() const {
  std::string text;
  const std::uint64_t kept = std::min<std::uint64_t>(count_, last_.size());
  for (std::uint64_t i = count_ - kept; i < count_; ++i) text += text_of(last_[i % last_.size()]);
  return text;
}

std::uint64_t History::merge(std::uint64_t first, std::uint64_t second,
                             std::uint64_t seeds) noexcept {
  std::uint64_t factor = 1;
  for (std::uint64_t square = base; seeds != 0; seeds >>= 1, square *= square) {
    if ((seeds & 1) != 0) factor *= square;
  }
  return first * factor + second;
}

}  // namespace baton::sim
