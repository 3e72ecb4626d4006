// The part of the slot table that waits.
#include "capi/slots.hpp"

#include <thread>

namespace baton::capi {

void SlotTable::withdraw(Slot& slot) noexcept {
  withdraw_name(slot.activation);
  while (is_looked_at(slot.readers)) std::this_thread::yield();
}

}  // namespace baton::capi
