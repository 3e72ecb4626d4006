// The part of the slot table that waits.
#include "capi/slots.hpp"

#include <thread>

namespace baton::capi {

void SlotTable::wait_for_readers(const Slot& slot) noexcept {
  while (slot.readers.load(std::memory_order_seq_cst) != 0) std::this_thread::yield();
}

}  // namespace baton::capi
