// TimerWheel: deadlines from a moving base on, roughly sorted. It is a hierarchical wheel (Varghese
// and Lauck 1987) over the whole range of the clock, with 64 slots a level. A bit marks each slot
// that is in use, so two instructions find the first one. Adding and removing are O(1) however many
// timers there are. The far part of a TimerQueue.
//
// A deadline is compared with the base in digits to the base 64. The highest digit that differs
// determines its level, and the value of that digit its slot (as in the buckets of a radix heap:
// Ahuja, Mehlhorn, Orlin, Tarjan 1990). So everything in a lower level comes before everything in a
// higher one, and slots of a level are in the order of time. The base is not a clock. It moves up
// to a slot that is to be emptied, and down when timers come that are nearer than all others.
//
// A timer may be postponed in place. Its deadline is then later than its slot, which is noticed
// when the slot comes up.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/assert.hpp"
#include "baton/operation.hpp"
#include "core/access.hpp"
#include "core/timer_row.hpp"

namespace baton {

/// A slot of a wheel: its timers in the order in which they were added.
struct TimerSlot {
  Operation* first = nullptr;
  Operation* last = nullptr;
};

class TimerWheel {
 public:
  /// A deadline as an unsigned number, in the same order.
  using Key = std::uint64_t;
  [[nodiscard]] static Key key_of(Deadline deadline) noexcept {
    return static_cast<Key>(deadline.ns()) ^ (Key{1} << 63);
  }

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] bool empty() const noexcept { return levels_used_ == 0; }
  /// No timer in the wheel is earlier.
  [[nodiscard]] Key base() const noexcept { return base_; }
  /// REQUIRES: empty.
  void set_base(Key base) noexcept {
    BATON_ASSERT(empty());
    base_ = base;
  }
  /// Moves the base down. Timers in levels that are too fine for the distance move into one slot,
  /// list by list. REQUIRES: base <= base().
  void lower_base(Key base) noexcept;

  /// Uses operation.deadline(). REQUIRES: not earlier than base().
  void add(Operation& operation) noexcept;
  /// REQUIRES: in this wheel.
  void remove(Operation& operation) noexcept;

  /// The beginning of the first slot: no timer is earlier. REQUIRES: not empty.
  [[nodiscard]] Key first_begins() const noexcept;
  /// Moves the timers of the first slot to `row` if there is room for all, and the base to the last
  /// time of the slot. Of timers due at one nanosecond it moves as many as there is room for.
  /// Otherwise it moves them to finer slots. The row stays empty then, and also if all timers of
  /// the slot were postponed: call again, unless the wheel is empty. REQUIRES: not empty; `row` is
  /// empty.
  void give_first(TimerRow& row) noexcept;

  /// Timers that give_first has visited, counted each time.
  [[nodiscard]] std::uint64_t steps() const noexcept { return steps_; }

  /// See TimerQueue.
  void take_apart(void (*end)(Operation&)) noexcept;

  // Visits all, in no order.
  [[nodiscard]] Operation* first() const noexcept { return first_from(0); }
  [[nodiscard]] Operation* next(Operation& from) const noexcept;

 private:
  static constexpr unsigned digit_bits = 6;
  static constexpr unsigned slots_a_level = 1U << digit_bits;
  static constexpr unsigned levels = (64 + digit_bits - 1) / digit_bits;
  struct Place {
    unsigned level;
    unsigned digit;
  };
  [[nodiscard]] Place place_of(Key key) const noexcept {
    const Key differing = (key ^ base_) | 1;
    const unsigned level = (63U - static_cast<unsigned>(std::countl_zero(differing))) / digit_bits;
    return {level, static_cast<unsigned>(key >> (level * digit_bits)) % slots_a_level};
  }
  [[nodiscard]] Place first_place() const noexcept {
    const auto level = static_cast<unsigned>(std::countr_zero(levels_used_));
    return {level, static_cast<unsigned>(std::countr_zero(used_[level]))};
  }
  [[nodiscard]] TimerSlot& slot_at(Place place) noexcept {
    return slots_[place.level * slots_a_level + place.digit];
  }
  /// All digits of the slot's times down to the slot's own.
  [[nodiscard]] Key prefix_of(Place place) const noexcept {
    const Key above = base_ >> (place.level * digit_bits) >> digit_bits;
    return above << digit_bits | place.digit;
  }
  void note_used(Place place) noexcept {
    used_[place.level] |= std::uint64_t{1} << place.digit;
    levels_used_ |= 1U << place.level;
  }
  void note_empty(Place place) noexcept {
    used_[place.level] &= ~(std::uint64_t{1} << place.digit);
    if (used_[place.level] == 0) levels_used_ &= ~(1U << place.level);
  }
  void link(Operation& operation) noexcept;
  void give_instant(Place place, TimerRow& row) noexcept;
  [[nodiscard]] Operation* first_from(std::size_t index) const noexcept;

  Key base_ = 0;
  std::size_t size_ = 0;
  std::uint64_t steps_ = 0;
  std::uint32_t levels_used_ = 0;
  std::array<std::uint64_t, levels> used_{};
  std::array<TimerSlot, std::size_t{levels} * slots_a_level> slots_{};
};

// The fields of a timer: `slot` is its slot, `sibling` and `previous` are its neighbours there.

inline void TimerWheel::link(Operation& operation) noexcept {
  const Place place = place_of(key_of(operation.deadline()));
  TimerSlot& slot = slot_at(place);
  OperationAccess::slot(operation) = &slot;
  OperationAccess::sibling(operation) = nullptr;
  OperationAccess::previous(operation) = slot.last;
  if (slot.last != nullptr) {
    OperationAccess::sibling(*slot.last) = &operation;
  } else {
    slot.first = &operation;
    note_used(place);
  }
  slot.last = &operation;
}

inline void TimerWheel::add(Operation& operation) noexcept {
  BATON_ASSERT(key_of(operation.deadline()) >= base_);
  ++size_;
  link(operation);
}

inline void TimerWheel::remove(Operation& operation) noexcept {
  BATON_ASSERT(size_ > 0);
  --size_;
  TimerSlot& slot = *OperationAccess::slot(operation);
  Operation* const left = OperationAccess::previous(operation);
  Operation* const right = OperationAccess::sibling(operation);
  (left != nullptr ? OperationAccess::sibling(*left) : slot.first) = right;
  (right != nullptr ? OperationAccess::previous(*right) : slot.last) = left;
  if (slot.first != nullptr) return;
  const auto index = static_cast<unsigned>(&slot - slots_.data());
  note_empty({index / slots_a_level, index % slots_a_level});
}

}  // namespace baton
