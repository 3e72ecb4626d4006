// TakenBatch: results that a thread has taken out of the queue to run their handlers one after the
// other without the mutex in between. A thread does so where nobody could help it, or nobody need
// (Dispatcher::batch_serves); whoever comes to share the work recalls what is not begun yet.
//
// The owner's next() and another thread's recall() keep out of each other's way as in Dekker's
// algorithm: the owner says that it is taking and then looks whether the batch was recalled, the
// other recalls it and then waits until the owner is not taking. Both are sequentially consistent,
// so that at least one of the two sees the other. The owner takes for a few instructions at a time.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>

#include "base/assert.hpp"
#include "baton/operation_queue.hpp"
#include "core/access.hpp"
#include "os/system.hpp"

namespace baton {

class TakenBatch {
 public:
  /// How many handlers run before the owner comes back to the mutex.
  static constexpr std::size_t capacity = 32;

  // -- with the mutex held ------------------------------------------------------------------------

  /// Taken and not yet given back: its owner is on its way without the mutex.
  [[nodiscard]] bool out() const noexcept { return out_; }
  /// Takes all of `queue`. From here on the owner calls next() without the mutex. REQUIRES: not
  /// out.
  void take(OperationQueue& queue) noexcept {
    queue_.splice_back(queue);
    recalled_.store(false, std::memory_order_relaxed);
    out_ = true;
  }
  /// By any thread but an owner inside next(): what was not begun is in front of `queue` again.
  /// `returned` is called with each handle whose handler has returned. How many were begun that
  /// count in the statistics.
  template <typename Returned>
  std::size_t recall(const os::System& system, OperationQueue& queue, Returned returned) noexcept {
    recalled_.store(true, std::memory_order_seq_cst);
    while (taking_.load(std::memory_order_seq_cst)) system.yield();
    queue_.splice_back(queue);
    queue.splice_back(queue_);
    for (std::size_t i = 0; i < returned_count_; ++i) returned(*returned_[i]);
    const std::size_t counted = counted_;
    counted_ = returned_count_ = 0;
    out_ = false;
    return counted;
  }
  /// For a forked child, where the owner does not exist: what was not begun.
  template <typename Visit>
  void for_each(Visit visit) const noexcept {
    for (Operation* operation = queue_.front(); operation != nullptr;) {
      Operation* next = OperationQueue::next(*operation);
      visit(*operation);
      operation = next;
    }
  }

  // -- by the owner, without the mutex ------------------------------------------------------------

  /// `returned`: the handle of the handler that has just returned, or null. The next operation
  /// whose handler runs now, which `arrives(operation)` says; or null when there is none or the
  /// batch was recalled: then `returned` is not noted. REQUIRES: at most `capacity` calls for one
  /// batch.
  template <typename Arrives>
  [[nodiscard]] Operation* next(Handle* returned, Arrives arrives) noexcept {
    taking_.store(true, std::memory_order_seq_cst);
    Operation* operation = nullptr;
    if (!recalled_.load(std::memory_order_seq_cst)) {
      while (operation == nullptr && !queue_.empty()) {
        operation = &queue_.pop_front();
        if (!operation->has(Operation::internal)) ++counted_;
        if (BATON_UNLIKELY(!arrives(*operation))) operation = nullptr;
      }
    }
    if (operation != nullptr && returned != nullptr) returned_[returned_count_++] = returned;
    // release: who recalls sees what was taken.
    taking_.store(false, std::memory_order_release);
    return operation;
  }

 private:
  std::atomic<bool> taking_{false};
  std::atomic<bool> recalled_{false};
  bool out_ = false;
  OperationQueue queue_;
  std::size_t counted_ = 0;
  std::size_t returned_count_ = 0;
  std::array<Handle*, capacity> returned_{};
};

}  // namespace baton
