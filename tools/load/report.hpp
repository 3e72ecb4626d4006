// The result of a network load run, for people and as one JSON object.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "errors.hpp"
#include "histogram.hpp"
#include "options.hpp"
#include "worker.hpp"

namespace baton::tools {

// A generator thread that is busy for more than this share of the time limits the measurement.
inline constexpr double generator_busy_max = 0.95;

struct LoadReport {
  std::uint64_t messages = 0;
  std::uint64_t messages_total = 0;
  std::uint64_t bytes = 0;
  double elapsed_s = 0;
  double messages_per_s = 0;
  double megabytes_per_s = 0;  // received; as much was sent
  Histogram round_trips;
  // Sessions with fewest messages that are reported apart, if requested; round_trips then has only
  // the others.
  struct Apart {
    std::size_t sessions = 0;
    std::uint64_t messages = 0;
    Histogram round_trips;
  } apart;
  DatagramCounts datagrams;
  double jain = 0;  // Jain's fairness index of the sessions' messages: 1 all equal, 1/n one has all
  std::uint64_t session_min = 0;
  std::uint64_t session_max = 0;
  std::size_t silent = 0;
  std::size_t wrong = 0;
  double generator_cpu_s = 0;
  double generator_busy = 0;  // of the busiest thread, a share of one core
  LoadErrors errors;

  void add(const WorkerResult& worker);
  void compute(std::size_t sessions_apart = 0);

  bool passed() const { return errors.count() == 0 && silent == 0 && wrong == 0; }
  bool generator_was_bottleneck() const { return generator_busy > generator_busy_max; }

  std::string text(const LoadOptions& options) const;
  std::string json(const LoadOptions& options) const;

 private:
  void tell_apart(std::size_t count);

  std::vector<std::uint64_t> session_messages_;
  std::vector<Histogram> session_round_trips_;
};

}  // namespace baton::tools
