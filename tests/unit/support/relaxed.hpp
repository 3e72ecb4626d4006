// Relaxed: a number that one thread writes and others see sooner or later. Tests use it to control
// a faulty system-call table. Copies like a plain number.
#pragma once

#include <atomic>

namespace baton::test {

template <class T>
class Relaxed {
 public:
  Relaxed(T value = T{}) noexcept : value_(value) {}  // NOLINT: as the number itself
  Relaxed(const Relaxed& other) noexcept : value_(other.get()) {}
  Relaxed& operator=(const Relaxed& other) noexcept { return *this = other.get(); }
  Relaxed& operator=(T value) noexcept {
    value_.store(value, std::memory_order_relaxed);
    return *this;
  }

  [[nodiscard]] T get() const noexcept { return value_.load(std::memory_order_relaxed); }
  operator T() const noexcept { return get(); }  // NOLINT: as the number itself
  /// The new value.
  T operator++() noexcept { return value_.fetch_add(1, std::memory_order_relaxed) + 1; }
  T operator--() noexcept { return value_.fetch_sub(1, std::memory_order_relaxed) - 1; }
  T operator+=(T more) noexcept { return value_.fetch_add(more, std::memory_order_relaxed) + more; }

 private:
  std::atomic<T> value_;
};

}  // namespace baton::test
