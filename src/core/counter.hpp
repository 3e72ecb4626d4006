// Counter: written by one thread at a time (its owner, or the holder of a lock), read by any. A
// plain add and a plain store, no read-modify-write: counting costs what a local variable costs.
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

  /// Of two that make one number, which is not negative, this one taken from, and perhaps below
  /// zero. Another thread may see one change and not the other.
  [[nodiscard]] std::uint64_t sum_with(const Counter& added_to) const noexcept {
    const auto sum = static_cast<std::int64_t>(get() + added_to.get());
    return sum > 0 ? static_cast<std::uint64_t>(sum) : 0;
  }

 private:
  std::atomic<std::uint64_t> value_{0};
};

}  // namespace baton
