// Mailbox: operations from other threads, handed over in order. Any thread pushes, and the owner
// takes everything at once. It is a Treiber stack that the consumer reverses. Single nodes are
// never popped, so there is no ABA. The owner closes an empty mailbox when it will not look again.
//
// A template over what is atomic, so that tests/model/relacy runs this very source under every
// order that the memory model allows.
#pragma once

#include <atomic>
#include <cstdint>

namespace baton {

/// Links: next(node), and set_next(node, next), of a link that belongs to the node's holder.
template <class Node, class Links, template <class> class Atomic = std::atomic>
class BasicMailbox {
 public:
  enum class Pushed {
    first,  ///< it was empty, and the owner may have to be woken
    more,
    refused  ///< it is closed
  };
  /// `opens`: into a closed one as well, which is open again then.
  Pushed push(Node& node, bool opens) noexcept {
    Node* head = head_.load(std::memory_order_relaxed);
    do {
      const bool is_closed = head == closed();
      if (is_closed && !opens) return Pushed::refused;
      Links::set_next(node, is_closed ? nullptr : head);
      // release: the node's content travels with it. seq_cst: ordered before the reading of the
      // owner's sleep word that follows (SleepWord::notify).
    } while (!head_.compare_exchange_weak(head, &node, std::memory_order_seq_cst,
                                          std::memory_order_relaxed));
    return is_empty(head) ? Pushed::first : Pushed::more;
  }
  /// True: it was empty. Into a closed one as well.
  bool push(Node& node) noexcept { return push(node, true) == Pushed::first; }
  [[nodiscard]] bool empty() const noexcept {
    return is_empty(head_.load(std::memory_order_seq_cst));
  }
  /// False: it is not empty. Owner only.
  bool close() noexcept {
    Node* head = nullptr;
    while (!head_.compare_exchange_weak(head, closed(), std::memory_order_seq_cst,
                                        std::memory_order_relaxed)) {
      if (head != nullptr) return head == closed();
    }
    return true;
  }
  /// Everything, in the order of pushing. Owner only.
  Node* take_all() noexcept {
    if (head_.load(std::memory_order_relaxed) == closed()) return nullptr;
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
  /// An address that no node has.
  [[nodiscard]] static Node* closed() noexcept {
    return reinterpret_cast<Node*>(std::uintptr_t{1});
  }
  /// Null or closed.
  [[nodiscard]] static bool is_empty(const Node* head) noexcept {
    return reinterpret_cast<std::uintptr_t>(head) <= 1;
  }

  Atomic<Node*> head_{nullptr};
};

}  // namespace baton
