// Runs seeds, one after the other, in one world.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "simulation/scenario.hpp"

namespace baton::tools::simulation {

struct SeedRange {
  std::uint64_t first = 1;
  std::uint64_t last = 1;  ///< included
  [[nodiscard]] std::uint64_t count() const noexcept { return last - first + 1; }
};

struct RunResult {
  std::uint64_t seeds = 0;
  std::uint64_t violations = 0;
  std::uint64_t history = 0;  ///< sim::History::combine over the seeds
  std::uint64_t started = 0;  ///< operations
  std::uint64_t events = 0;
};

struct Told {
  /// After each seed.
  std::function<void(std::uint64_t seed, const RunResult& so_far)> progress;
  /// A violation: its report, without the command.
  std::function<void(std::uint64_t seed, const std::string& report)> violation;
  /// The command to run a seed again, printed if the program dies in it; see sim::Options::replay.
  std::function<std::string(std::uint64_t seed)> replay;
};

/// `violations_max`: stops there; 0: never.
RunResult run_seeds(const SeedRange& range, const ProgramOptions& options, bool verbose,
                    std::uint64_t violations_max, const Told& told);

}  // namespace baton::tools::simulation
