// The bytes a session sends and expects back, a function of the session's number and the offset
// in its stream alone.
//
// There is one table of random bytes with a prime period. A session starts at its own phase and
// walks through the table round and round, so both the data to send and the data to expect are
// always a contiguous piece of the table: sending copies nothing and checking is one memcmp. The
// prime period makes a piece that is lost, repeated or swapped visible whatever its size, for no
// buffer size is a multiple of it; the random bytes make sixteen of them name their place, which
// `find` uses to say what happened and not only that something did.
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

  // The place in the period where these bytes come from, if they are part of the pattern at all.
  // Slow; for the error message. At least 8 bytes are needed to be sure.
  std::optional<std::size_t> find(std::span<const std::byte> bytes) const;

 private:
  std::vector<std::byte> table_;
};

// The first eight, for the error message.
std::string byte_row(std::span<const std::byte> bytes);

}  // namespace baton::tools
