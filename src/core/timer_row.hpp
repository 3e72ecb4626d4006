// TimerRow: the next timers, sorted, in an array; the nearest part of a TimerQueue. Popping touches
// only the timer that is due, and the next ones are prefetched. A removed timer leaves a gap. A
// postponed timer keeps its place and is moved when its turn comes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/assert.hpp"
#include "baton/operation.hpp"
#include "core/access.hpp"

namespace baton {

class TimerRow {
 public:
  static constexpr std::size_t capacity = 64;

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }

  /// Uses operation.deadline(). REQUIRES: fewer than `capacity` were added since the row was empty.
  void add(Operation& operation) noexcept {
    const std::int64_t due_ns = operation.deadline().ns();
    OperationAccess::set(operation, OperationAccess::timer_next);
    OperationAccess::filed_ns(operation) = due_ns;
    BATON_ASSERT(end_ < capacity);
    std::size_t at = end_++;
    for (; at > begin_ && entries_[at - 1].due_ns > due_ns; --at) entries_[at] = entries_[at - 1];
    entries_[at] = {due_ns, &operation};
    ++size_;
  }
  /// REQUIRES: in this row.
  void remove(Operation& operation) noexcept;

  /// No timer in the row is earlier. REQUIRES: not empty.
  [[nodiscard]] Deadline begins() const noexcept {
    return Deadline::at_ns(entries_[begin_].due_ns);
  }
  /// The first timer by the deadline it had when it was added; null when empty.
  [[nodiscard]] Operation* first() noexcept {
    if (size_ == 0) return nullptr;
    while (BATON_UNLIKELY(entries_[begin_].operation == nullptr)) ++begin_;
    return entries_[begin_].operation;
  }
  /// REQUIRES: `timer` is first().
  [[nodiscard]] static bool was_put_off(Operation& timer) noexcept {
    return timer.deadline().ns() != OperationAccess::filed_ns(timer);
  }
  /// REQUIRES: `timer` is first().
  void pop(Operation& timer) noexcept {
    OperationAccess::clear(timer, OperationAccess::timer_next);
    // Timers are scattered in memory, and completing one touches its first two cache lines.
    const Operation* const soon = entries_[begin_ + fetched_ahead].operation;
    __builtin_prefetch(soon, 1);
    // Computed as an integer, because `soon` may be null.
    const auto second_line = reinterpret_cast<std::uintptr_t>(soon) + 64;
    __builtin_prefetch(reinterpret_cast<const void*>(second_line), 1);
    entries_[begin_++].operation = nullptr;
    forget_one();
  }

  /// The first timer for which `is_it` is true, or null.
  template <class Predicate>
  [[nodiscard]] Operation* find(Predicate&& is_it) const noexcept {
    for (std::size_t i = begin_; i < end_; ++i) {
      Operation* const timer = entries_[i].operation;
      if (timer != nullptr && is_it(*timer)) return timer;
    }
    return nullptr;
  }
  /// See TimerQueue.
  void take_apart(void (*end)(Operation&)) noexcept;

 private:
  struct Entry {
    std::int64_t due_ns = 0;
    Operation* operation = nullptr;  // null: removed
  };
  static constexpr std::size_t fetched_ahead = 4;

  void forget_one() noexcept {
    if (--size_ == 0) begin_ = end_ = 0;
  }

  std::size_t size_ = 0;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::array<Entry, capacity + fetched_ahead> entries_{};
};

}  // namespace baton
