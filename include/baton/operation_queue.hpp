// OperationList, an intrusive FIFO of operations with O(1) removal from the middle (P-21), and
// OperationQueue, one that also counts them: the per-handle queues of engines, and deferred or
// complete operations. Not thread-safe: each has one owner or one lock.
#pragma once

#include <cstddef>

#include "baton/operation.hpp"

namespace baton {

/// A FIFO of operations by their own links.
class OperationList {
 public:
  OperationList() noexcept = default;
  OperationList(const OperationList&) = delete;
  OperationList& operator=(const OperationList&) = delete;

  /// Whether it has none.
  [[nodiscard]] bool empty() const noexcept { return head_ == nullptr; }
  /// Whether it has two or more.
  [[nodiscard]] bool has_several() const noexcept { return head_ != tail_; }
  /// The oldest; null if empty.
  [[nodiscard]] Operation* front() const noexcept { return head_; }
  /// The operation behind `operation`, or null.
  [[nodiscard]] static Operation* next(const Operation& operation) noexcept {
    return operation.next_;
  }

  /// Adds the newest. REQUIRES: in no list.
  void push_back(Operation& operation) noexcept {
    operation.next_ = nullptr;
    operation.previous_ = tail_;
    (tail_ != nullptr ? tail_->next_ : head_) = &operation;
    tail_ = &operation;
  }
  /// Adds one before the oldest. REQUIRES: in no list.
  void push_front(Operation& operation) noexcept {
    operation.next_ = head_;
    (head_ != nullptr ? head_->previous_ : tail_) = &operation;
    head_ = &operation;
  }
  /// Into an empty list. REQUIRES: it is one.
  void push_only(Operation& operation) noexcept {
    operation.next_ = nullptr;
    head_ = tail_ = &operation;
  }
  /// REQUIRES: not empty.
  Operation& pop_front() noexcept {
    Operation& operation = *head_;
    head_ = operation.next_;
    if (head_ == nullptr) tail_ = nullptr;
    return operation;
  }
  /// The only one. REQUIRES: there is one, and no other.
  Operation& pop_last() noexcept {
    Operation& operation = *head_;
    head_ = tail_ = nullptr;
    return operation;
  }
  /// REQUIRES: `operation` is in this list.
  void erase(Operation& operation) noexcept {
    const bool first = head_ == &operation;
    (first ? head_ : operation.previous_->next_) = operation.next_;
    if (operation.next_ != nullptr) {
      operation.next_->previous_ = operation.previous_;
    } else {
      tail_ = first ? nullptr : operation.previous_;
    }
  }
  /// Moves all of `other` behind the last of this list, in order.
  void splice_back(OperationList& other) noexcept {
    if (other.empty()) return;
    other.head_->previous_ = tail_;
    (tail_ != nullptr ? tail_->next_ : head_) = other.head_;
    tail_ = other.tail_;
    other.head_ = other.tail_ = nullptr;
  }
  /// Moves `first`, and all that is behind it, to `other`. REQUIRES: `first` is in this list;
  /// `other` is empty.
  void split_off(Operation& first, OperationList& other) noexcept {
    other.head_ = &first;
    other.tail_ = tail_;
    tail_ = head_ == &first ? nullptr : first.previous_;
    (tail_ != nullptr ? tail_->next_ : head_) = nullptr;
  }

 private:
  // The back link of the first one has no meaning.
  Operation* head_ = nullptr;
  Operation* tail_ = nullptr;
};

/// A list with a count.
class OperationQueue : private OperationList {
 public:
  OperationQueue() noexcept = default;
  OperationQueue(OperationQueue&& other) noexcept { splice_back(other); }

  using OperationList::empty;  ///< whether it has none
  using OperationList::front;  ///< the oldest; null if empty
  using OperationList::next;
  /// Number of operations.
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

  /// As OperationList::push_back.
  void push_back(Operation& operation) noexcept {
    OperationList::push_back(operation);
    ++size_;
  }
  /// As OperationList::push_front.
  void push_front(Operation& operation) noexcept {
    OperationList::push_front(operation);
    ++size_;
  }
  /// REQUIRES: not empty.
  Operation& pop_front() noexcept {
    --size_;
    return OperationList::pop_front();
  }
  /// REQUIRES: `operation` is in this queue.
  void erase(Operation& operation) noexcept {
    OperationList::erase(operation);
    --size_;
  }
  /// Moves `first`, and all that is behind it, to `other`. REQUIRES: `first` and what is behind it
  /// are `count`; `other` is empty.
  void split_off(Operation& first, std::size_t count, OperationQueue& other) noexcept {
    OperationList::split_off(first, other);
    other.size_ = count;
    size_ -= count;
  }
  /// Moves all of `other` behind the last of this queue, in order.
  void splice_back(OperationQueue& other) noexcept {
    OperationList::splice_back(other);
    size_ += other.size_;
    other.size_ = 0;
  }

 private:
  std::size_t size_ = 0;
};

}  // namespace baton
