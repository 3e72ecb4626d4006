// Shared by the rivals that measure themselves: rounds, their median, and the one line of JSON
// that bench/compare.py reads, as bench/scenarios/scenario.hpp has them for Baton's.
//
//   <program> [--rounds N]
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "write_out.hpp"

namespace rival {

using Clock = std::chrono::steady_clock;

inline double ns_since(Clock::time_point start) {
  return std::chrono::duration<double, std::nano>(Clock::now() - start).count();
}

/// The nanoseconds of `work`, for each of so many.
template <typename Work>
double ns_each(std::size_t count, Work&& work) {
  const auto start = Clock::now();
  work();
  return ns_since(start) / static_cast<double>(count);
}

/// xorshift64: the same row in every run.
inline std::uint64_t random_number() {
  static std::uint64_t state = 7007;
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state;
}

class Report {
 public:
  Report(const char* program, int argc, char** argv, std::size_t rounds) : rounds_(rounds) {
    for (int i = 1; i + 1 < argc; ++i) {
      if (std::string_view(argv[i]) == "--rounds") rounds_ = std::strtoul(argv[i + 1], nullptr, 10);
    }
    rounds_ = std::max<std::size_t>(rounds_, 1);
    std::printf("{\"program\": \"%s\"", program);
  }
  ~Report() {
    std::printf("}\n");
    baton::bench::write_out();
  }
  Report(const Report&) = delete;
  Report& operator=(const Report&) = delete;

  /// `scenario` runs one round and returns its nanoseconds per operation. One more round than asked
  /// for comes first and warms up.
  template <typename Scenario>
  void measure(const char* name, Scenario&& scenario) {
    std::vector<double> times;
    scenario();
    for (std::size_t i = 0; i < rounds_; ++i) times.push_back(scenario());
    std::sort(times.begin(), times.end());
    std::printf(", \"%s\": {\"median_ns\": %.2f, \"least_ns\": %.2f}", name,
                times[times.size() / 2], times.front());
  }

 private:
  std::size_t rounds_;
};

}  // namespace rival
