// What a soak looks at from outside while it runs: resident memory, descriptors, and whether
// anything moves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace baton::soak {

struct Sample {
  double seconds = 0;
  std::uint64_t resident_bytes = 0;
  std::size_t descriptors = 0;
  std::uint64_t completed = 0;
};

/// Of this process, now.
std::uint64_t resident_bytes();
std::size_t count_descriptors();

/// How memory grows: a line through the samples behind the warm-up, by least squares.
struct Growth {
  /// A shorter run says nothing about an hour.
  static constexpr double judged_from_s = 60;
  /// The first part of a run is left out: tables, caches and the allocator's arenas fill.
  static constexpr double warm_up_share = 0.2;
  /// What a flat line may be wrong by: a page here and there, of several arenas.
  static constexpr double noise_mb = 1;
  static constexpr double mb_per_hour_max = 1;

  bool judged = false;
  double mb_per_hour = 0;
  double hours = 0;

  /// Fits a line that grows by no more than mb_per_hour_max, and noise_mb over all?
  [[nodiscard]] bool flat() const {
    return mb_per_hour * hours <= mb_per_hour_max * hours + noise_mb;
  }
};

Growth growth_of(const std::vector<Sample>& samples);

}  // namespace baton::soak
