// TimerHeap: deadlines in exact order, through three links of the operation: a pairing heap
// (Fredman, Sedgewick, Sleator, Tarjan 1986). Adding is O(1), removing a timer that never came to
// the top O(1) in practice, taking the earliest O(log n) amortised. In a TimerQueue it has what was
// added before the base of the wheel.
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
  /// All, in no order, linked by OperationAccess::sibling; the heap is empty then.
  [[nodiscard]] Operation* chain() noexcept;
  /// See TimerQueue.
  void take_apart(void (*end)(Operation&)) noexcept;

  // A walk over all, in no order.
  [[nodiscard]] Operation* first() const noexcept { return root_; }
  [[nodiscard]] static Operation* next_in_tree(Operation& from) noexcept;

 private:
  static Operation* meld(Operation* a, Operation* b) noexcept;
  static Operation* meld_children(Operation& parent) noexcept;

  Operation* root_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace baton
