// HandlerLength: how long the handlers of a shared queue last, by a few of them, and what follows
// from that for the threads that share it. A leader runs short handlers itself, for to wake another
// thread costs more than they do; how many are queued makes up for how short they are. Guarded as
// the queue: by Ledger::mutex, or by the mutex of a Reactor.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace baton {

class HandlerLength {
 public:
  /// At least one in so many is measured. Odd, for reads and writes often take turns.
  static constexpr std::uint32_t one_in = 5;
  /// A handler begins: the next of these is due.
  [[nodiscard]] bool is_due() noexcept {
    if (--until_due_ != 0) return false;
    until_due_ = one_in;
    return true;
  }

  /// The leader carries out what handlers start, so threads meet there (not
  /// EngineInfo::works_in_submit). Handlers have to last longer before a second thread gains
  /// anything.
  void leader_works_for_all() noexcept { short_ns_ = short_apart_ns; }

  /// A handler lasted so long.
  void note(std::int64_t ns) noexcept {
    // Nearly the plain mean of the first ones, for one that begins at nothing is wrong for long.
    if (count_ < most_of_mean) ++count_;
    mean_ns_ += (std::clamp<std::int64_t>(ns, 0, most_ns) - mean_ns_) / count_;
  }
  /// One has lasted longer than any that would not be worth a thread.
  void note_long() noexcept { mean_ns_ = most_ns; }
  /// Two threads at one queue gain nothing, however much is queued.
  [[nodiscard]] bool is_short() const noexcept { return mean_ns_ < short_ns_; }
  /// What is queued would keep one thread for so long that a second pays.
  [[nodiscard]] bool worth_a_thread(std::size_t queued) const noexcept {
    return !is_short() && static_cast<std::int64_t>(queued) * mean_ns_ >= wake_ns;
  }
  /// A thread with nothing else to do leads, rather than wait for the end of a leader's handler.
  [[nodiscard]] bool lasts() const noexcept { return mean_ns_ >= wake_ns; }

 private:
  // Measured with handlers that compute for 3 to 24 us (bench/rows.py --row "pool 40" has two):
  // with operations done by the starting thread, and with all of them done by the leader.
  static constexpr std::int64_t short_side_by_side_ns = 3'000;
  static constexpr std::int64_t short_apart_ns = 6'000;
  // Several times what a thread costs to wake: a system call, an interrupt of its core, two
  // switches.
  static constexpr std::int64_t wake_ns = 20'000;
  // A thread that lost its core in a handler must not make all handlers look long.
  static constexpr std::int64_t most_ns = 4 * wake_ns;
  // The mean of about so many. With eight it fell below the limit and rose above it all the time,
  // for every other handler does next to nothing: others were woken for nothing, where with 64 two
  // threads did 1.5 times the work of one.
  static constexpr std::int64_t most_of_mean = 64;

  std::int64_t short_ns_ = short_side_by_side_ns;
  std::int64_t mean_ns_ = 0;
  std::uint32_t until_due_ = one_in;
  std::int64_t count_ = 7;  // as if so many had taken no time: the first may be an outlier, too
};

}  // namespace baton
