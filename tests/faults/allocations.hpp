// Replaces the program's operator new: counts living allocations, and fails the n-th one.
#pragma once

#include <cstddef>

namespace baton::faults {

/// Allocations of all threads that are not freed yet.
long alive() noexcept;

/// While one of these lives, allocations are counted, and the n-th fails, with `times` - 1 after
/// it. One at a time, process-wide.
class FailingAllocations {
 public:
  /// 0: none fails.
  explicit FailingAllocations(std::size_t nth, std::size_t times = 1) noexcept;
  ~FailingAllocations() { end(); }
  FailingAllocations(const FailingAllocations&) = delete;
  FailingAllocations& operator=(const FailingAllocations&) = delete;

  void end() noexcept;
  [[nodiscard]] std::size_t count() const noexcept;
  [[nodiscard]] bool hit() const noexcept;
};

/// The calling thread's allocations are the test's own: neither counted nor failed.
class Exempt {
 public:
  Exempt() noexcept;
  ~Exempt();
  Exempt(const Exempt&) = delete;
  Exempt& operator=(const Exempt&) = delete;
};

}  // namespace baton::faults
