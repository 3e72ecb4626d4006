// The pairing heap. In each node `child` is the first child and `sibling` the next sibling to the
// right. `previous` is the sibling to the left, the parent for a first child, or null for the root.
#include "core/timer_heap.hpp"

#include <utility>

#include "core/access.hpp"

namespace baton {

using Access = OperationAccess;

void TimerHeap::add(Operation& operation) noexcept {
  Access::child(operation) = nullptr;
  Access::sibling(operation) = nullptr;
  Access::previous(operation) = nullptr;
  root_ = meld(root_, &operation);
  ++size_;
}

void TimerHeap::remove(Operation& operation) noexcept {
  BATON_ASSERT(size_ > 0);
  --size_;
  if (&operation == root_) {
    root_ = meld_children(operation);
    return;
  }
  Operation& left = *Access::previous(operation);
  Operation* right = Access::sibling(operation);
  (Access::child(left) == &operation ? Access::child(left) : Access::sibling(left)) = right;
  if (right != nullptr) Access::previous(*right) = &left;
  root_ = meld(root_, meld_children(operation));
}

Operation* TimerHeap::next_in_tree(Operation& from) noexcept {
  Operation* node = &from;
  if (Access::child(*node) != nullptr) return Access::child(*node);
  // No child: on to the next sibling, of this node or of the nearest ancestor that has one.
  while (node != nullptr && Access::sibling(*node) == nullptr) {
    Operation* left = Access::previous(*node);
    while (left != nullptr && Access::child(*left) != node) {
      node = left;
      left = Access::previous(*node);
    }
    node = left;  // the parent
  }
  return node != nullptr ? Access::sibling(*node) : nullptr;
}

Operation* TimerHeap::chain() noexcept {
  Operation* chained = nullptr;
  Operation* stack = std::exchange(root_, nullptr);
  size_ = 0;
  if (stack != nullptr) Access::previous(*stack) = nullptr;
  while (stack != nullptr) {
    Operation& top = *std::exchange(stack, Access::previous(*stack));
    for (Operation* left : {Access::child(top), Access::sibling(top)}) {
      if (left != nullptr) Access::previous(*left) = std::exchange(stack, left);
    }
    Access::sibling(top) = std::exchange(chained, &top);
  }
  return chained;
}

// Does not trust links. Visited timers are no longer pending, so a cycle ends. The stack is linked
// by `previous`.
void TimerHeap::take_apart(void (*end)(Operation&)) noexcept {
  Operation* stack = nullptr;
  const auto push = [&](Operation* found) {
    if (found == nullptr || !found->is_pending()) return;
    end(*found);
    Access::previous(*found) = std::exchange(stack, found);
  };
  push(std::exchange(root_, nullptr));
  size_ = 0;
  while (stack != nullptr) {
    Operation& top = *std::exchange(stack, Access::previous(*stack));
    push(Access::child(top));
    push(Access::sibling(top));
  }
}

// Makes the later of two roots the first child of the earlier one. The order of equal deadlines is
// unspecified.
Operation* TimerHeap::meld(Operation* a, Operation* b) noexcept {
  if (a == nullptr) return b;
  if (b == nullptr) return a;
  if (b->deadline() < a->deadline()) std::swap(a, b);
  Operation* first = Access::child(*a);
  Access::sibling(*b) = first;
  Access::previous(*b) = a;
  if (first != nullptr) Access::previous(*first) = b;
  Access::child(*a) = b;
  return a;
}

// Two passes: pairs from left to right, then all pairs from right to left. Uses loops instead of
// recursion, because a root may have a million children.
Operation* TimerHeap::meld_children(Operation& parent) noexcept {
  Operation* child = Access::child(parent);
  Access::child(parent) = nullptr;
  Operation* pairs = nullptr;  // a stack linked by `sibling`
  while (child != nullptr) {
    Operation* first = child;
    Operation* second = Access::sibling(*first);
    child = second != nullptr ? Access::sibling(*second) : nullptr;
    Access::sibling(*first) = nullptr;
    Access::previous(*first) = nullptr;
    if (second != nullptr) {
      Access::sibling(*second) = nullptr;
      Access::previous(*second) = nullptr;
    }
    Operation* pair = meld(first, second);
    Access::sibling(*pair) = pairs;
    pairs = pair;
  }
  Operation* root = nullptr;
  while (pairs != nullptr) {
    Operation* pair = pairs;
    pairs = Access::sibling(*pair);
    Access::sibling(*pair) = nullptr;
    root = meld(root, pair);
  }
  return root;
}

}  // namespace baton
