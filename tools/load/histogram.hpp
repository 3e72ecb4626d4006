// A histogram of durations with a bounded relative error.
//
// Values below 64 ns have a bucket each. Above, every power of two is cut into 64 equal buckets. So
// a percentile of any size is off by at most 1/64 (1.6 %), with a fixed 18 KiB of counters and no
// allocation while recording. This is the idea of HdrHistogram with one fixed precision.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace baton::tools {

class Histogram {
 public:
  void record(std::uint64_t nanoseconds) {
    ++counts_[index_of(nanoseconds)];
    ++count_;
    max_ = std::max(max_, nanoseconds);
  }

  void merge(const Histogram& other) {
    for (std::size_t i = 0; i < counts_.size(); ++i) counts_[i] += other.counts_[i];
    count_ += other.count_;
    max_ = std::max(max_, other.max_);
  }

  std::uint64_t count() const { return count_; }
  std::uint64_t max() const { return max_; }

  // The quantile of `fraction` (0..1), as the upper end of its bucket; 0 if nothing was recorded.
  std::uint64_t percentile(double fraction) const {
    if (count_ == 0) return 0;
    const double exact = fraction * static_cast<double>(count_);
    const auto wanted = std::max<std::uint64_t>(1, static_cast<std::uint64_t>(exact + 0.999999));
    std::uint64_t seen = 0;
    for (std::size_t i = 0; i < counts_.size(); ++i) {
      seen += counts_[i];
      if (seen >= wanted) return std::min(upper_of(i), max_);
    }
    return max_;
  }

 private:
  static constexpr unsigned sub_bits = 6;
  static constexpr std::uint64_t sub_count = std::uint64_t{1} << sub_bits;
  static constexpr unsigned value_bits_max = 40;  // about 18 minutes; longer ones are clamped
  static constexpr std::size_t bucket_count = (value_bits_max - sub_bits + 1) * sub_count;

  static std::size_t index_of(std::uint64_t value) {
    value = std::min(value, (std::uint64_t{1} << value_bits_max) - 1);
    if (value < sub_count) return static_cast<std::size_t>(value);
    // The value's top sub_bits + 1 bits are 1xxxxxx: xxxxxx chooses the bucket in its power of two.
    const unsigned shift = static_cast<unsigned>(std::bit_width(value)) - (sub_bits + 1);
    return static_cast<std::size_t>((shift + 1) * sub_count + ((value >> shift) - sub_count));
  }

  static std::uint64_t upper_of(std::size_t index) {
    if (index < sub_count) return index;
    const std::uint64_t shift = index / sub_count - 1;
    const std::uint64_t mantissa = sub_count + index % sub_count;
    return ((mantissa + 1) << shift) - 1;
  }

  std::array<std::uint64_t, bucket_count> counts_{};
  std::uint64_t count_ = 0;
  std::uint64_t max_ = 0;
};

}  // namespace baton::tools
