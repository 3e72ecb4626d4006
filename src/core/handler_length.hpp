// HandlerLength: how long the handlers of a shared queue last, by a few of them, and what follows
// from that for the threads that share it. A leader runs short handlers itself, for to wake another
// thread costs more than they do; how many are queued makes up for how short they are. Guarded by
// Ledger::mutex.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace baton {

class HandlerLength {
 public:
  /// At least one in so many is measured. Odd, for reads and writes often take turns.
  static constexpr std::uint64_t one_in = 5;

  /// A handler lasted so long.
  void note(std::int64_t ns) noexcept {
    mean_ns_ += (std::clamp<std::int64_t>(ns, 0, most_ns) - mean_ns_) / weight;
  }
  /// Two threads at one queue gain nothing, however much is queued.
  [[nodiscard]] bool is_short() const noexcept { return mean_ns_ < short_ns; }
  /// What is queued would keep one thread for so long that a second pays.
  [[nodiscard]] bool worth_a_thread(std::size_t queued) const noexcept {
    return !is_short() && static_cast<std::int64_t>(queued) * mean_ns_ >= wake_ns;
  }
  /// A thread with nothing else to do leads, rather than wait for the end of a leader's handler.
  [[nodiscard]] bool lasts() const noexcept { return mean_ns_ >= wake_ns; }

 private:
  // Measured: between threads that meet at the mutex twice a handler, handlers of 3 us are done
  // slower by two than by one, those of 8 us faster (bench/rows.py --row "pool 40").
  static constexpr std::int64_t short_ns = 6'000;
  // Several times what a thread costs to wake: a system call, an interrupt of its core, two
  // switches.
  static constexpr std::int64_t wake_ns = 20'000;
  // A thread that lost its core in a handler must not make all handlers look long.
  static constexpr std::int64_t most_ns = 4 * wake_ns;
  static constexpr std::int64_t weight = 8;  // of the latest: an eighth

  std::int64_t mean_ns_ = 0;
};

}  // namespace baton
