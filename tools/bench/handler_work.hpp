// The work of an echo server's handler besides sending the message back, the same for Baton's
// servers and the rivals'. This file depends on none of them.
//
//   --delay-us D    each message: asleep, as in the papers' test
//   --random-us R   each message: computes for a random time below R; the times follow from the
//                   connection's number alone
//   --slow-us S     messages of the first connection: compute for so long
//
// A computation is a number of steps, not a loop until a time: otherwise a thread that has lost its
// core for a while would do less work. The number of steps in a microsecond is measured at the
// start.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <limits>
#include <thread>

namespace handler_work {

struct Options {
  std::uint32_t delay_us = 0;
  std::uint32_t random_us = 0;
  std::uint32_t slow_us = 0;
};

/// xorshift64: the draws and the computation.
inline std::uint64_t step(std::uint64_t x) {
  x ^= x << 13;
  x ^= x >> 7;
  return x ^ x << 17;
}

inline void compute(std::uint64_t steps) {
  std::uint64_t x = 7007;
  for (; steps > 0; --steps) x = step(x);
  asm volatile("" : : "r"(x));  // a use that the compiler cannot remove
}

/// The fastest of several tries, because it was not interrupted.
inline double steps_a_us() {
  using Clock = std::chrono::steady_clock;
  constexpr std::uint64_t steps = 20'000;
  double least_us = std::numeric_limits<double>::max();
  for (int i = 0; i < 50; ++i) {
    const auto start = Clock::now();
    compute(steps);
    const std::chrono::duration<double, std::micro> spent = Clock::now() - start;
    least_us = std::min(least_us, spent.count());
  }
  return static_cast<double>(steps) / least_us;
}

/// The work of one connection, whose handlers run one after the other.
class Work {
 public:
  Work() = default;
  Work(std::uint32_t delay_us, std::uint64_t random_steps, std::uint64_t steps, std::uint64_t seed)
      : wanted_(delay_us != 0 || random_steps != 0 || steps != 0),
        delay_us_(delay_us),
        random_steps_(random_steps),
        steps_(steps),
        state_(seed) {}

  /// Without work it costs one test, because the instructions of a message are counted.
  void operator()() {
    if (wanted_) work();
  }

 private:
  [[gnu::noinline]] void work() {
    if (delay_us_ != 0) std::this_thread::sleep_for(std::chrono::microseconds{delay_us_});
    std::uint64_t steps = steps_;
    if (random_steps_ != 0) {
      state_ = step(state_);
      steps += state_ % random_steps_;
    }
    compute(steps);
  }

  bool wanted_ = false;
  std::uint32_t delay_us_ = 0;
  std::uint64_t random_steps_ = 0;
  std::uint64_t steps_ = 0;
  std::uint64_t state_ = 1;
};

/// Makes the work of a server's connections; none without options.
class Plan {
 public:
  void set(const Options& options) {
    delay_us_ = options.delay_us;
    if (options.random_us == 0 && options.slow_us == 0) return;
    const double a_us = steps_a_us();
    random_steps_ = static_cast<std::uint64_t>(options.random_us * a_us);
    slow_steps_ = static_cast<std::uint64_t>(options.slow_us * a_us);
  }
  /// The work of the next connection; any thread.
  Work next() {
    const std::uint64_t number = next_.fetch_add(1, std::memory_order_relaxed);
    return {delay_us_, random_steps_, number == 0 ? slow_steps_ : 0,
            step((number + 1) * 0x9e3779b97f4a7c15u)};
  }

 private:
  std::uint32_t delay_us_ = 0;
  std::uint64_t random_steps_ = 0;
  std::uint64_t slow_steps_ = 0;
  std::atomic<std::uint64_t> next_{0};
};

}  // namespace handler_work
