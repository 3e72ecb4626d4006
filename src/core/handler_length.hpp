// HandlerLength: an estimate of how long the handlers of a shared queue take, from a sample, and
// what follows from it for the threads that share the queue. A leader runs short handlers itself,
// because waking another thread costs more than they do. A long queue makes up for short handlers.
// Guarded like the queue: by Ledger::mutex, or by the mutex of a Reactor.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace baton {

class HandlerLength {
 public:
  /// At least one handler in so many is measured. Odd, because reads and writes often alternate.
  static constexpr std::uint32_t one_in = 5;
  /// Call before a handler. True: measure this one.
  [[nodiscard]] bool is_due() noexcept {
    if (--until_due_ != 0) return false;
    until_due_ = one_in;
    return true;
  }

  /// Set if the leader does the work that handlers start (not EngineInfo::works_in_submit), so that
  /// threads contend there. Handlers must then take longer before a second thread gains anything.
  void leader_works_for_all() noexcept { short_ns_ = short_apart_ns; }

  /// A handler took so long.
  void note(std::int64_t ns) noexcept {
    // About the plain mean of the first samples: a mean that starts at zero is wrong for long.
    if (count_ < most_of_mean) ++count_;
    mean_ns_ += (std::clamp<std::int64_t>(ns, 0, most_ns) - mean_ns_) / count_;
  }
  /// A handler took long enough to be worth a second thread.
  void note_long() noexcept { mean_ns_ = most_ns; }
  /// True: a second thread at the queue gains nothing, however much is queued.
  [[nodiscard]] bool is_short() const noexcept { return mean_ns_ < short_ns_; }
  /// True: the queued handlers would keep one thread busy so long that a second one pays.
  [[nodiscard]] bool worth_a_thread(std::size_t queued) const noexcept {
    return !is_short() && static_cast<std::int64_t>(queued) * mean_ns_ >= wake_ns;
  }
  /// True: an idle thread should lead instead of waiting for the end of the leader's handler.
  [[nodiscard]] bool lasts() const noexcept { return mean_ns_ >= wake_ns; }

 private:
  // Measured with handlers that compute for 3 to 24 us (bench/rows.py --row "pool 40" has two). The
  // first is for operations done by the starting thread, the second for operations done by the
  // leader.
  static constexpr std::int64_t short_side_by_side_ns = 3'000;
  static constexpr std::int64_t short_apart_ns = 6'000;
  // Several times the cost of waking a thread: a system call, an interrupt of its core and two
  // context switches.
  static constexpr std::int64_t wake_ns = 20'000;
  // Limits one sample: a thread that was preempted in a handler must not make all handlers look
  // long.
  static constexpr std::int64_t most_ns = 4 * wake_ns;
  // The mean covers about so many samples. With 8 it crossed the limit all the time, because every
  // other handler does next to nothing, and threads were woken in vain. With 64 two threads did 1.5
  // times the work of one.
  static constexpr std::int64_t most_of_mean = 64;

  std::int64_t short_ns_ = short_side_by_side_ns;
  std::int64_t mean_ns_ = 0;
  std::uint32_t until_due_ = one_in;
  std::int64_t count_ = 7;  // as if 7 samples had been 0: the first one may be an outlier
};

}  // namespace baton
