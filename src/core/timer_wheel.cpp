// The wheel, without what every timer goes through (see the header).
#include "core/timer_wheel.hpp"

#include <algorithm>
#include <utility>

#include "core/access.hpp"

namespace baton {

using Access = OperationAccess;

TimerWheel::Key TimerWheel::first_begins() const noexcept {
  const Place place = first_place();
  return prefix_of(place) << (place.level * digit_bits);
}

// Each call empties the first slot into the row or into lower levels. So a timer passes each level
// at most once, unless lower_base() moves it up.
void TimerWheel::give_first(TimerRow& row) noexcept {
  const Place place = first_place();
  if (place.level == 0) {
    give_instant(place, row);
    return;
  }
  const unsigned shift = place.level * digit_bits;
  const Key prefix = prefix_of(place);
  TimerSlot& slot = slot_at(place);
  Operation* timers = std::exchange(slot, TimerSlot{}).first;
  note_empty(place);

  // Postponed timers go to their right place, behind this slot. The others keep their order.
  Operation* due = nullptr;
  Operation** end = &due;
  std::size_t count = 0;
  while (timers != nullptr) {
    Operation& timer = *std::exchange(timers, Access::sibling(*timers));
    if (key_of(timer.deadline()) >> shift == prefix) {
      *end = &timer;
      end = &Access::sibling(timer);
      ++count;
    } else {
      link(timer);
    }
    ++steps_;
  }
  *end = nullptr;
  base_ = prefix << shift;
  if (count <= TimerRow::capacity) {
    base_ |= (Key{1} << shift) - 1;
    size_ -= count;
    for (; count > 0; --count) row.add(*std::exchange(due, Access::sibling(*due)));
  }
  while (due != nullptr) link(*std::exchange(due, Access::sibling(*due)));
}

// For a slot whose timers are all due at one nanosecond. Timers beyond the room of the row are not
// touched.
void TimerWheel::give_instant(Place place, TimerRow& row) noexcept {
  TimerSlot& slot = slot_at(place);
  base_ = prefix_of(place);
  while (slot.first != nullptr && row.size() < TimerRow::capacity) {
    Operation& timer = *slot.first;
    remove(timer);
    if (key_of(timer.deadline()) == base_) {
      row.add(timer);
    } else {
      add(timer);  // postponed
    }
    ++steps_;
  }
}

// Timers in levels below that of the difference share the digits of the old base from that level
// up. So they all belong in one slot of it.
void TimerWheel::lower_base(Key base) noexcept {
  BATON_ASSERT(base <= base_);
  const Key old = std::exchange(base_, base);
  const Place merged = place_of(old);
  for (unsigned level = 0; level < merged.level; ++level) {
    while (used_[level] != 0) {
      const Place place{level, static_cast<unsigned>(std::countr_zero(used_[level]))};
      Operation* timers = std::exchange(slot_at(place), TimerSlot{}).first;
      note_empty(place);
      while (timers != nullptr) link(*std::exchange(timers, Access::sibling(*timers)));
    }
  }
}

// Does not trust links. Visited timers are no longer pending, so a cycle ends.
void TimerWheel::take_apart(void (*end)(Operation&)) noexcept {
  for (TimerSlot& slot : slots_) {
    for (const bool forward : {true, false}) {
      Operation* timer = forward ? slot.first : slot.last;
      while (timer != nullptr && timer->is_pending()) {
        end(*timer);
        timer = forward ? Access::sibling(*timer) : Access::previous(*timer);
      }
    }
    slot = {};
  }
  used_ = {};
  levels_used_ = 0;
  size_ = 0;
}

Operation* TimerWheel::next(Operation& from) const noexcept {
  if (Operation* right = Access::sibling(from)) return right;
  return first_from(static_cast<std::size_t>(Access::slot(from) - slots_.data()) + 1);
}

Operation* TimerWheel::first_from(std::size_t index) const noexcept {
  while (index < slots_.size() && slots_[index].first == nullptr) ++index;
  return index < slots_.size() ? slots_[index].first : nullptr;
}

}  // namespace baton
