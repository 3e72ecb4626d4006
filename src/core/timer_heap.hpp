// TimerHeap: deadlines in exact order, linked through three fields of the operation: a pairing heap
// (Fredman, Sedgewick, Sleator, Tarjan 1986). Adding is O(1). Removing a timer that never was on
// top is O(1) in practice. Taking the earliest is O(log n) amortised. A TimerQueue uses it for
// timers due before the base of the wheel.
#pragma once

#include <cstddef>

#include "baton/operation.hpp"

namespace baton {

class TimerHeap {
 public:
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  /// The earliest, or null.
  [[nodiscard]] Operation* top() const noexcept { return root_; }

  /// Uses operation.deadline().
  void add(Operation& operation) noexcept;
  /// REQUIRES: in this heap.
  void remove(Operation& operation) noexcept;
  /// Removes all and returns them in no order, linked by OperationAccess::sibling.
  [[nodiscard]] Operation* chain() noexcept;
  /// See TimerQueue.
  void take_apart(void (*end)(Operation&)) noexcept;

  // Visits all, in no order.
  [[nodiscard]] Operation* first() const noexcept { return root_; }
  [[nodiscard]] static Operation* next_in_tree(Operation& from) noexcept;

 private:
  static Operation* meld(Operation* a, Operation* b) noexcept;
  static Operation* meld_children(Operation& parent) noexcept;

  Operation* root_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace baton
