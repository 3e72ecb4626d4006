// Mailbox: operations from other threads, handed over in order. Any thread pushes, and the owner
// takes everything at once. It is a Treiber stack that the consumer reverses. Single nodes are
// never popped, so there is no ABA.
//
// A template over what is atomic, so that tests/model/relacy runs this very source under every
// order that the memory model allows.
#pragma once

#include <atomic>

namespace baton {

/// Links: next(node), and set_next(node, next), of a link that belongs to the node's holder.
template <class Node, class Links, template <class> class Atomic = std::atomic>
class BasicMailbox {
 public:
  /// True: it was empty, and the owner may have to be woken.
  bool push(Node& node) noexcept {
    Node* head = head_.load(std::memory_order_relaxed);
    do {
      Links::set_next(node, head);
      // release: the node's content travels with it. seq_cst: ordered before the reading of the
      // owner's sleep word that follows (SleepWord::notify).
    } while (!head_.compare_exchange_weak(head, &node, std::memory_order_seq_cst,
                                          std::memory_order_relaxed));
    return head == nullptr;
  }
  [[nodiscard]] bool empty() const noexcept {
    return head_.load(std::memory_order_seq_cst) == nullptr;
  }
  /// Everything, in the order of pushing. Owner only.
  Node* take_all() noexcept {
    Node* node = head_.exchange(nullptr, std::memory_order_acquire);
    Node* first = nullptr;
    while (node != nullptr) {
      Node* next = Links::next(*node);
      Links::set_next(*node, first);
      first = node;
      node = next;
    }
    return first;
  }

 private:
  Atomic<Node*> head_{nullptr};
};

}  // namespace baton
