// Counter: written by one thread at a time (its owner, or the holder of a lock) and read by any. It
// uses a plain add and a plain store instead of a read-modify-write, so counting costs as much as
// with a local variable.
#pragma once

#include <atomic>
#include <cstdint>

namespace baton {

class Counter {
 public:
  void add(std::uint64_t count = 1) noexcept {
    value_.store(value_.load(std::memory_order_relaxed) + count, std::memory_order_relaxed);
  }
  void sub(std::uint64_t count = 1) noexcept {
    value_.store(value_.load(std::memory_order_relaxed) - count, std::memory_order_relaxed);
  }
  void raise_to(std::uint64_t value) noexcept {
    if (value > value_.load(std::memory_order_relaxed)) {
      value_.store(value, std::memory_order_relaxed);
    }
  }
  [[nodiscard]] std::uint64_t get() const noexcept {
    return value_.load(std::memory_order_relaxed);
  }

  /// The sum of two counters that make up one number. This one is subtracted from and may be
  /// negative (wrapped); the sum is not. A reader may see one of two changes without the other, so
  /// a negative sum reads as 0.
  [[nodiscard]] std::uint64_t sum_with(const Counter& added_to) const noexcept {
    const auto sum = static_cast<std::int64_t>(get() + added_to.get());
    return sum > 0 ? static_cast<std::uint64_t>(sum) : 0;
  }

 private:
  std::atomic<std::uint64_t> value_{0};
};

}  // namespace baton
