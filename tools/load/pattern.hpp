// The bytes a session sends and expects back, a function of the session's number and the offset
// in its stream alone.
//
// There is one table of random bytes with a prime period. A session starts at its own phase and
// goes through the table again and again. So the data to send and the expected data are always a
// contiguous piece of the table: sending copies nothing and checking is one memcmp. No buffer size
// is a multiple of the prime period, so a lost, repeated or swapped piece is visible. Sixteen
// random bytes identify their place, by which `find` can describe the fault.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace baton::tools {

class Pattern {
 public:
  static constexpr std::size_t period = 65'521;
  static constexpr std::size_t piece_bytes_max = std::size_t{256} * 1024;

  Pattern();

  // The place in the table where the given session's stream starts.
  static std::size_t phase_of(std::size_t session) {
    // Neighbours lie far apart, and any two of the first 65,521 sessions start differently:
    // the multiplier is prime to the period.
    return (session * 40'503) % period;
  }

  // The piece of a stream from `offset` on. REQUIRES: size <= piece_bytes_max.
  std::span<const std::byte> piece(std::size_t phase, std::uint64_t offset, std::size_t size) const;

  // The place of these bytes in the period, if they are part of the pattern. Slow; for the error
  // message. At least 8 bytes are needed.
  std::optional<std::size_t> find(std::span<const std::byte> bytes) const;

 private:
  std::vector<std::byte> table_;
};

// The first eight, for the error message.
std::string byte_row(std::span<const std::byte> bytes);

}  // namespace baton::tools
