// TimerQueue: deadlines in order, intrusive, without allocation: a pairing heap through three
// pointers of the operation (Fredman, Sedgewick, Sleator, Tarjan 1986). Adding is O(1), removing a
// timer that never came to the top O(1) in practice, taking the earliest O(log n) amortised; the
// order is exact, nothing fires early.
//
// Guarded as the lane it belongs to.
#pragma once

#include <cstddef>

#include "baton/deadline.hpp"
#include "baton/operation.hpp"

namespace baton {

class TimerQueue {
 public:
  [[nodiscard]] bool empty() const noexcept { return root_ == nullptr; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  /// never() when empty.
  [[nodiscard]] Deadline nearest() const noexcept {
    return root_ != nullptr ? root_->deadline() : Deadline::never();
  }

  /// Uses operation.deadline(). REQUIRES: not in a queue.
  void add(Operation& operation) noexcept;
  /// REQUIRES: in this queue.
  void remove(Operation& operation) noexcept;
  /// One that is wanted, or null; looks at every timer.
  [[nodiscard]] Operation* find(bool (*wanted)(const Operation&)) const noexcept;
  /// Calls visit(const Operation&) for at most so many, in no order; how many.
  template <class Visit>
  std::size_t for_each(std::size_t visits_max, Visit&& visit) const noexcept {
    std::size_t visits = 0;
    Operation* timer = root_;
    for (; timer != nullptr && visits < visits_max; timer = next_in_tree(*timer), ++visits) {
      visit(*timer);
    }
    return visits;
  }
  /// The earliest if it is due at `now`, removed; else null.
  Operation* pop_due(Deadline now) noexcept;
  /// For a forked child, where a thread of the parent may have been in the midst of a change: calls
  /// `end` once for each pending operation that can be found; it must leave them not pending. The
  /// queue is empty then.
  void take_apart(void (*end)(Operation&)) noexcept;

 private:
  static Operation* next_in_tree(Operation& from) noexcept;
  static Operation* meld(Operation* a, Operation* b) noexcept;
  static Operation* meld_children(Operation& parent) noexcept;

  Operation* root_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace baton
