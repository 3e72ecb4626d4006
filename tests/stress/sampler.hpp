// What a soak looks at from outside: memory and descriptors.
#pragma once

#include <cstddef>
#include <cstdint>

namespace baton::soak {

/// Of this process, now.
std::uint64_t resident_bytes();
std::size_t count_descriptors();
/// What the program has allocated and not freed. A sanitizer's allocator tells it as well.
std::uint64_t allocated_bytes();

/// What a round has left behind, between two moments in which nothing is under way. Counted for
/// each operation, so that it says the same on every machine.
struct Growth {
  /// What tables, caches and the allocator's own lists may have grown by in a longer round.
  static constexpr double noise_bytes = 1 << 20;
  static constexpr double bytes_per_operation_max = 0.05;

  double bytes = 0;
  double operations = 0;

  [[nodiscard]] double bytes_per_operation() const {
    return operations > 0 ? bytes / operations : 0;
  }
  [[nodiscard]] bool flat() const {
    return bytes <= bytes_per_operation_max * operations + noise_bytes;
  }
};

}  // namespace baton::soak
