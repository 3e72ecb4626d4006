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
    operation.previous_ = nullptr;
    operation.next_ = head_;
    (head_ != nullptr ? head_->previous_ : tail_) = &operation;
    head_ = &operation;
    ++size_;
  }
  /// REQUIRES: not empty.
  Operation& pop_front() noexcept {
    Operation& operation = *head_;
    head_ = operation.next_;
    (head_ != nullptr ? head_->previous_ : tail_) = nullptr;
    operation.next_ = nullptr;
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
    (operation.previous_ != nullptr ? operation.previous_->next_ : head_) = operation.next_;
    (operation.next_ != nullptr ? operation.next_->previous_ : tail_) = operation.previous_;
    operation.next_ = nullptr;
    operation.previous_ = nullptr;
    --size_;
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
  Operation* head_ = nullptr;
  Operation* tail_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace baton
