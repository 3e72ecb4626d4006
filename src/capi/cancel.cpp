// The early end of one, of some, of all.
#include "capi/proactor.hpp"
#include "capi/structs.hpp"

using baton::capi::Inside;
using baton::capi::PinnedHandle;
using baton::capi::Slot;
using baton::capi::SlotTable;

namespace {

int answer(baton::CancelResult result) noexcept {
  return result == baton::CancelResult::requested ? 0 : ENOENT;
}

}  // namespace

int baton_cancel(baton_proactor* proactor, baton_activation activation) {
  const Inside inside;
  Slot* slot = proactor->slots.find(activation);
  if (slot == nullptr) return ENOENT;
  return answer(proactor->proactor.cancel(slot->operation, SlotTable::number_of(activation)));
}

int baton_cancel_handle(baton_proactor* proactor, baton_handle handle) {
  const Inside inside;
  const PinnedHandle pinned{proactor->handles, handle};
  if (pinned.get() == nullptr) return ENOENT;
  return answer(proactor->proactor.cancel(*pinned.get()));
}

int baton_cancel_tag(baton_proactor* proactor, std::uint64_t tag) {
  const Inside inside;
  int result = ENOENT;
  for (std::uint32_t i = 0; i < proactor->slots.count(); ++i) {
    Slot& slot = proactor->slots[i];
    const baton_activation activation = slot.activation.load(std::memory_order_acquire);
    if (activation == 0 || slot.tag.load(std::memory_order_relaxed) != tag) continue;
    // If the slot has changed hands since, this names nothing any more.
    if (baton_cancel(proactor, activation) == 0) result = 0;
  }
  return result;
}

int baton_cancel_all(baton_proactor* proactor) {
  const Inside inside;
  proactor->proactor.cancel_all();
  return 0;
}
