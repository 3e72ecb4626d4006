// Removal, and what a forked child does.
#include "core/timer_row.hpp"

#include <algorithm>

namespace baton {

using Access = OperationAccess;

// Finds it by the time under which it was filed, and among equal times by its address.
void TimerRow::remove(Operation& operation) noexcept {
  Access::clear(operation, Access::timer_next);
  Entry* const last = entries_.data() + end_;
  Entry* entry =
      std::lower_bound(entries_.data() + begin_, last, Access::filed_ns(operation),
                       [](const Entry& each, std::int64_t due_ns) { return each.due_ns < due_ns; });
  while (entry != last && entry->operation != &operation) ++entry;
  BATON_ASSERT(entry != last);
  entry->operation = nullptr;
  forget_one();
}

void TimerRow::take_apart(void (*end)(Operation&)) noexcept {
  for (Entry& entry : entries_) {
    if (entry.operation != nullptr && entry.operation->is_pending()) end(*entry.operation);
  }
  *this = TimerRow{};
}

}  // namespace baton
