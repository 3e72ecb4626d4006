// Cancels one operation, some, or all.
#include "capi/proactor.hpp"
#include "capi/structs.hpp"

using baton::capi::find;
using baton::capi::Inside;
using baton::capi::Instance;
using baton::capi::PinnedHandle;
using baton::capi::Slot;
using baton::capi::SlotReader;
using baton::capi::SlotTable;

namespace {

int answer(baton::CancelResult result) noexcept {
  return result == baton::CancelResult::requested ? 0 : ENOENT;
}

int cancel(Instance& self, baton_activation activation) noexcept {
  Slot* slot = self.slots.find(activation);
  if (slot == nullptr) return ENOENT;
  return answer(self.proactor.cancel(slot->operation, SlotTable::number_of(activation)));
}

}  // namespace

int baton_cancel(baton_proactor* proactor, baton_activation activation) {
  Instance* const self = find(proactor);
  if (self == nullptr) return EINVAL;
  const Inside inside;
  return cancel(*self, activation);
}

int baton_cancel_wait(baton_proactor* proactor, baton_activation activation,
                      std::int64_t deadline_ns) {
  Instance* const self = find(proactor);
  if (self == nullptr) return EINVAL;
  const Inside inside;
  if (deadline_ns < 0) return EINVAL;
  Slot* slot = self->slots.find(activation);
  if (slot == nullptr) return ENOENT;
  // While it is read, the slot is not taken for another operation.
  const SlotReader reader{*slot, activation};
  if (!reader) return ENOENT;
  switch (self->proactor.cancel_wait(slot->operation, SlotTable::number_of(activation),
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
  Instance* const self = find(proactor);
  if (self == nullptr) return EINVAL;
  const Inside inside;
  if (deadline_ns <= 0) return EINVAL;
  if (self->per_thread) return BATON_NOT_SUPPORTED;
  Slot* slot = self->slots.find(activation);
  if (slot == nullptr) return ENOENT;
  const SlotReader reader{*slot, activation};
  // The slot is named before its operation is started. Until then the operation shows its last use.
  if (!reader || slot->operation.activation() != SlotTable::number_of(activation)) return ENOENT;
  const baton::Deadline deadline = baton::Deadline::at_ns(deadline_ns);
  return self->proactor.move_deadline(slot->operation, deadline) ? 0 : ENOENT;
}

int baton_cancel_handle(baton_proactor* proactor, baton_handle handle) {
  Instance* const self = find(proactor);
  if (self == nullptr) return EINVAL;
  const Inside inside;
  const PinnedHandle pinned{self->handles, handle};
  if (pinned.get() == nullptr) return ENOENT;
  return answer(self->proactor.cancel(*pinned.get()));
}

int baton_cancel_tag(baton_proactor* proactor, std::uint64_t tag) {
  Instance* const self = find(proactor);
  if (self == nullptr) return EINVAL;
  const Inside inside;
  int result = ENOENT;
  for (std::uint32_t i = 0; i < self->slots.count(); ++i) {
    Slot& slot = self->slots[i];
    const baton_activation activation = slot.activation.load(std::memory_order_acquire);
    if (activation == 0 || slot.tag.load(std::memory_order_relaxed) != tag) continue;
    // If the slot has been reused meanwhile, the name is no longer valid.
    if (cancel(*self, activation) == 0) result = 0;
  }
  return result;
}

int baton_cancel_all(baton_proactor* proactor) {
  Instance* const self = find(proactor);
  if (self == nullptr) return EINVAL;
  const Inside inside;
  self->proactor.cancel_all();
  return 0;
}
