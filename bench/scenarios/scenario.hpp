// Shared by the micro benchmarks: rounds, their median and the one line of JSON that
// bench/compare.py reads. The rivals in bench/rivals/ print the same form on their own.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "baton/config.hpp"
#include "write_out.hpp"

namespace baton::bench {

// The value of an option `--name value`, or `otherwise`.
inline std::string option(int argc, char** argv, std::string_view name, std::string otherwise) {
  for (int i = 1; i + 1 < argc; ++i) {
    if (name == argv[i]) return argv[i + 1];
  }
  return otherwise;
}

// One processor, one thread in run(), the given mode; the rest as BATON in the environment says.
inline Result<Config, Failure> one_thread_config(const std::string& mode) {
  Config base;
  base.processors.resize(1);
  base.processors[0].threads = 1;
  const auto config = Config::parse_environment(base);
  return config ? Config::parse("mode=" + mode, *config) : config;
}

inline double ns_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count();
}

class Report {
 public:
  Report(std::string_view program, std::size_t rounds)
      : rounds_(std::max<std::size_t>(rounds, 1)),
        text_("{\"program\": \"" + std::string(program) + "\"") {}

  // `scenario` runs one round and returns its nanoseconds per operation. One more round than asked
  // for comes first and warms up.
  template <typename Scenario>
  void measure(std::string_view name, Scenario&& scenario) {
    std::vector<double> times;
    scenario();
    for (std::size_t i = 0; i < rounds_; ++i) times.push_back(scenario());
    std::sort(times.begin(), times.end());
    char numbers[96];
    std::snprintf(numbers, sizeof numbers, "{\"median_ns\": %.2f, \"least_ns\": %.2f}",
                  times[times.size() / 2], times.front());
    text_ += ", \"" + std::string(name) + "\": " + numbers;
  }

  void print() const {
    std::printf("%s}\n", text_.c_str());
    write_out();
  }

 private:
  std::size_t rounds_;
  std::string text_;
};

}  // namespace baton::bench
