// The resources that a soak measures: memory and descriptors.
#pragma once

#include <cstddef>
#include <cstdint>

namespace baton::soak {

/// Of this process, now.
std::uint64_t resident_bytes();
std::size_t count_descriptors();
/// Bytes that the program has allocated and not freed, also with a sanitizer's allocator.
std::uint64_t allocated_bytes();

/// Resources that a round has leaked, between two moments with nothing in flight. Counted for each
/// operation, so that it says the same on every machine.
struct Growth {
  /// The growth of tables, caches and the allocator's own lists that is allowed in a longer round.
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
