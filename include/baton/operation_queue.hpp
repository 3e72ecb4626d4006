// OperationQueue: an intrusive FIFO of operations with O(1) removal from the middle (P-21). Used
// for deferred operations, for the per-handle queues of engines and for completed results. Not
// thread-safe: each queue has one owner or one lock.
#pragma once

#include <cstddef>

#include "baton/operation.hpp"

namespace baton {

class OperationQueue {
 public:
  OperationQueue() noexcept = default;
  OperationQueue(const OperationQueue&) = delete;
  OperationQueue& operator=(const OperationQueue&) = delete;
  OperationQueue(OperationQueue&& other) noexcept { splice_back(other); }

  [[nodiscard]] bool empty() const noexcept { return head_ == nullptr; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] Operation* front() const noexcept { return head_; }
  /// The operation behind `operation`, or null.
  [[nodiscard]] static Operation* next(const Operation& operation) noexcept {
    return operation.next_;
  }

  void push_back(Operation& operation) noexcept {
    operation.next_ = nullptr;
    operation.previous_ = tail_;
    (tail_ != nullptr ? tail_->next_ : head_) = &operation;
    tail_ = &operation;
    ++size_;
  }
  void push_front(Operation& operation) noexcept {
    operation.next_ = head_;
    (head_ != nullptr ? head_->previous_ : tail_) = &operation;
    head_ = &operation;
    ++size_;
  }
  /// Into an empty queue. REQUIRES: it is one.
  void push_only(Operation& operation) noexcept {
    operation.next_ = nullptr;
    head_ = tail_ = &operation;
    size_ = 1;
  }
  /// REQUIRES: not empty.
  Operation& pop_front() noexcept {
    Operation& operation = *head_;
    head_ = operation.next_;
    if (head_ == nullptr) tail_ = nullptr;
    --size_;
    return operation;
  }
  /// The only one. REQUIRES: there is one, and no other.
  Operation& pop_last() noexcept {
    Operation& operation = *head_;
    head_ = tail_ = nullptr;
    size_ = 0;
    return operation;
  }
  /// REQUIRES: `operation` is in this queue.
  void erase(Operation& operation) noexcept {
    const bool first = head_ == &operation;
    (first ? head_ : operation.previous_->next_) = operation.next_;
    if (operation.next_ != nullptr) {
      operation.next_->previous_ = operation.previous_;
    } else {
      tail_ = first ? nullptr : operation.previous_;
    }
    --size_;
  }
  /// Moves `first`, and all that is behind it, to `other`. REQUIRES: `first` and what is behind it
  /// are `count`; `other` is empty.
  void split_off(Operation& first, std::size_t count, OperationQueue& other) noexcept {
    other.head_ = &first;
    other.tail_ = tail_;
    other.size_ = count;
    tail_ = head_ == &first ? nullptr : first.previous_;
    (tail_ != nullptr ? tail_->next_ : head_) = nullptr;
    size_ -= count;
  }
  /// Moves all of `other` behind the last of this queue, in order.
  void splice_back(OperationQueue& other) noexcept {
    if (other.empty()) return;
    other.head_->previous_ = tail_;
    (tail_ != nullptr ? tail_->next_ : head_) = other.head_;
    tail_ = other.tail_;
    size_ += other.size_;
    other.head_ = other.tail_ = nullptr;
    other.size_ = 0;
  }

 private:
  // The first one's link back is not kept.
  Operation* head_ = nullptr;
  Operation* tail_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace baton
