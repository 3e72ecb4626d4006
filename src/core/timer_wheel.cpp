// The wheel but for what every timer goes through.
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

// A slot of a fine level is left when its many timers were put into finer ones, or when it is
// empty; so each timer goes down a level at a time, and each level once.
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

  // What was put off goes where it belongs, behind this slot; what is left keeps its order.
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

// The timers of one nanosecond, however many: those beyond the room of the row are not touched.
void TimerWheel::give_instant(Place place, TimerRow& row) noexcept {
  TimerSlot& slot = slot_at(place);
  base_ = prefix_of(place);
  while (slot.first != nullptr && row.size() < TimerRow::capacity) {
    Operation& timer = *slot.first;
    remove(timer);
    if (key_of(timer.deadline()) == base_) {
      row.add(timer);
    } else {
      add(timer);  // was put off
    }
    ++steps_;
  }
}

// All in the levels below that of the difference share the old base's digit there.
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

// No link is believed: what is not pending has been seen, so that a circle ends.
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
