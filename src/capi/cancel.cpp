// Cancels one operation, some, or all.
#include "capi/proactor.hpp"
#include "capi/structs.hpp"

using baton::capi::Inside;
using baton::capi::PinnedHandle;
using baton::capi::Slot;
using baton::capi::SlotReader;
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

int baton_cancel_wait(baton_proactor* proactor, baton_activation activation,
                      std::int64_t deadline_ns) {
  const Inside inside;
  if (deadline_ns < 0) return EINVAL;
  Slot* slot = proactor->slots.find(activation);
  if (slot == nullptr) return ENOENT;
  // While it is read, the slot is not taken for another operation.
  const SlotReader reader{*slot, activation};
  if (!reader) return ENOENT;
  switch (proactor->proactor.cancel_wait(slot->operation, SlotTable::number_of(activation),
                                         baton::capi::deadline_of(deadline_ns))) {
    case baton::CancelWait::cancelled:
      return 0;
    case baton::CancelWait::done:
      return ENOENT;
    case baton::CancelWait::still_running:
      break;
  }
  return BATON_TIMED_OUT;
}

int baton_move_deadline(baton_proactor* proactor, baton_activation activation,
                        std::int64_t deadline_ns) {
  const Inside inside;
  if (deadline_ns <= 0) return EINVAL;
  if (proactor->per_thread) return BATON_NOT_SUPPORTED;
  Slot* slot = proactor->slots.find(activation);
  if (slot == nullptr) return ENOENT;
  const SlotReader reader{*slot, activation};
  // The slot is named before its operation is started. Until then the operation shows its last use.
  if (!reader || slot->operation.activation() != SlotTable::number_of(activation)) return ENOENT;
  const baton::Deadline deadline = baton::Deadline::at_ns(deadline_ns);
  return proactor->proactor.move_deadline(slot->operation, deadline) ? 0 : ENOENT;
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
    // If the slot has been reused meanwhile, the name is no longer valid.
    if (baton_cancel(proactor, activation) == 0) result = 0;
  }
  return result;
}

int baton_cancel_all(baton_proactor* proactor) {
  const Inside inside;
  proactor->proactor.cancel_all();
  return 0;
}
