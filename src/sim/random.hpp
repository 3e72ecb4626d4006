// Random: the only source of chance in a simulation. All choices are drawn from it, one after the
// other, so the seed alone determines the whole history.
//
// The generator is wyrand (Wang Yi, 2019): one multiplication for each number, and every 64-bit
// value is a good seed.
#pragma once

#include <cstdint>

namespace baton::sim {

class Random {
 public:
  explicit Random(std::uint64_t seed = 0) noexcept : state_(seed * 0x9e37'79b9'7f4a'7c15U) {
    next();
    next();
  }

  std::uint64_t next() noexcept {
    state_ += 0xa076'1d64'78bd'642fU;
    __extension__ using Wide = unsigned __int128;
    const Wide product = static_cast<Wide>(state_) * (state_ ^ 0xe703'7ed1'a0b4'28dbU);
    return static_cast<std::uint64_t>(product >> 64) ^ static_cast<std::uint64_t>(product);
  }
  /// 0 to bound - 1. REQUIRES: bound > 0.
  std::uint32_t below(std::uint32_t bound) noexcept {
    return static_cast<std::uint32_t>(((next() >> 32) * bound) >> 32);
  }
  /// least to most, both included.
  std::int64_t between(std::int64_t least, std::int64_t most) noexcept {
    const auto span = static_cast<std::uint64_t>(most - least) + 1;
    return least + static_cast<std::int64_t>(next() % span);
  }
  /// True in `of_65536` of 65,536 cases. 0 draws no number.
  bool chance(std::uint32_t of_65536) noexcept {
    return of_65536 != 0 && (next() >> 48) < of_65536;
  }
  bool coin() noexcept { return (next() >> 63) != 0; }
  template <class T, std::size_t Count>
  const T& one_of(const T (&values)[Count]) noexcept {
    return values[below(static_cast<std::uint32_t>(Count))];
  }

 private:
  std::uint64_t state_;
};

}  // namespace baton::sim
