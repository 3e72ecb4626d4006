// TakenBatch: results that a thread has taken out of the queue to run their handlers one after the
// other without the mutex in between. A thread does so where nobody could help it, or nobody need
// (Dispatcher::batch_serves); whoever comes to share the work recalls what is not begun yet.
//
// The owner's next() and another thread's recall() keep out of each other's way by a TakingGate.
// The owner takes for a few instructions at a time.
#pragma once

#include <array>
#include <cstddef>

#include "base/handshake.hpp"
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
    gate_.open();
    out_ = true;
  }
  /// By any thread but an owner inside next(): what was not begun is in front of `queue` again.
  /// `returned` is called with each handle whose handler has returned. How many were begun that
  /// count in the statistics.
  template <typename Returned>
  std::size_t recall(const os::System& system, OperationQueue& queue, Returned returned) noexcept {
    gate_.close();
    while (gate_.busy()) system.yield();
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

  /// `returned`: the handle of the handler that has just returned, or null. The next operation; or
  /// null when there is none or the batch was recalled: then `returned` has not been noted.
  /// REQUIRES: at most `capacity` calls for one batch.
  [[nodiscard]] Operation* next(Handle* returned) noexcept {
    Operation* operation = nullptr;
    if (gate_.enter() && !queue_.empty()) {
      if (returned != nullptr) returned_[returned_count_++] = returned;
      operation = &queue_.pop_front();
      if (!operation->has(Operation::internal)) ++counted_;
    }
    gate_.leave();
    return operation;
  }

 private:
  TakingGate gate_;
  bool out_ = false;
  OperationQueue queue_;
  std::size_t counted_ = 0;
  std::size_t returned_count_ = 0;
  std::array<Handle*, capacity> returned_{};
};

}  // namespace baton
