// The part of the slot table that waits.
#include "capi/slots.hpp"

#include <thread>

namespace baton::capi {

void SlotTable::withdraw(Slot& slot) noexcept {
  // seq_cst, both: see the head of slots.hpp.
  slot.activation.store(0, std::memory_order_seq_cst);
  while (slot.readers.load(std::memory_order_seq_cst) != 0) std::this_thread::yield();
}

}  // namespace baton::capi
