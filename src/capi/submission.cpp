// Starts: a request is checked, copied into a slot, and started.
#include "capi/submission.hpp"

#include "capi/addresses.hpp"
#include "capi/kinds.hpp"
#include "capi/structs.hpp"

namespace baton::capi {
namespace {

static_assert(sizeof(baton_buffer) == sizeof(MutableBuffer));
static_assert(sizeof(baton_operation) == 80);

Notify level_of(std::uint32_t notify) noexcept {
  switch (notify) {
    case BATON_NOTIFY_STRONG:
      return Notify::strong;
    case BATON_NOTIFY_FOLLOWER:
      return Notify::follower;
    default:
      return Notify::none;
  }
}

void fill_address(Slot& slot, Address use, baton_endpoint* given) noexcept {
  slot.endpoint_out = nullptr;
  if (use == Address::none || given == nullptr) return;
  if (use == Address::stored) {
    slot.endpoint = Endpoint{};
    slot.endpoint_out = given;
  } else {
    copy(*given, slot.endpoint);
  }
  slot.operation.set_endpoint(&slot.endpoint);
}

void fill(Slot& slot, const KindFacts& facts, const baton_operation& from,
          Handle* handle) noexcept {
  Operation& operation = slot.operation;
  // The engine does not use it.
  slot.adopts = (from.flags & BATON_ADOPT) != 0;
  operation.prepare(facts.kind, handle,
                    static_cast<std::uint16_t>(from.flags & ~std::uint16_t{BATON_ADOPT}));
  operation.set_deadline(facts.deadline != Use::none ? deadline_of(from.deadline_ns)
                                                     : Deadline::never());
  if (operation.has(Operation::pooled)) {
    slot.enter_pool(*static_cast<baton_pool*>(from.data));
    operation.set_pool(&slot.pool->blocks);
  } else if (facts.buffer != Use::none) {
    operation.set_buffer(MutableBuffer{from.data, from.length});
  }
  if (facts.at_offset) operation.set_offset(from.offset);
  if (operation.has(Operation::until)) {
    slot.delimiter = {static_cast<const char*>(from.delimiter), from.delimiter_size};
    operation.set_until(&slot.delimiter, static_cast<std::size_t>(from.offset));
  }
  fill_address(slot, facts.address, from.endpoint);
}

/// Starts what is in the slot.
std::error_code start_filled(Instance& self, Slot& slot, std::uint32_t notify) noexcept {
  if (slot.operation.kind() == OperationKind::user) {
    return self.proactor.post(slot.operation, level_of(notify));
  }
  return self.proactor.start(slot.operation);
}

/// The handle, if there is one, is pinned or, for a close, held by begin_close.
int start_in_slot(Instance& self, Slot& slot, const KindFacts& facts, const baton_operation& from,
                  Handle* handle, baton_activation* activation) noexcept {
  fill(slot, facts, from, handle);
  slot.operation.set_completion(deliver, &self);
  slot.tag.store(from.tag, std::memory_order_relaxed);
  slot.operation.set_tag(static_cast<std::uint32_t>(from.tag));
  const baton_activation name = self.slots.name_next(slot);
  // Both before the start: the completion may be faster than this function.
  slot.activation.store(name, std::memory_order_seq_cst);
  if (activation != nullptr) *activation = name;
  if (const std::error_code error = start_filled(self, slot, from.notify)) {
    slot.activation.store(0, std::memory_order_seq_cst);
    slot.leave_pool();
    if (activation != nullptr) *activation = 0;  // the name goes to another operation
    return code_of(error);
  }
  return 0;
}

/// What `from` names. Null: `error` says why.
Handle* hold(Instance& self, const KindFacts& facts, const baton_operation& from,
             int& error) noexcept {
  // The only reason to refuse the close of an open handle. It is checked first: while the close is
  // being refused, the handle must not look closed to others, not even for a moment.
  const bool closes = facts.kind == OperationKind::close;
  if (closes && self.is_inherited()) {
    error = BATON_AFTER_FORK;
    return nullptr;
  }
  Handle* const handle =
      closes ? self.handles.begin_close(from.handle) : self.handles.pin(from.handle);
  if (handle == nullptr) error = BATON_HANDLE_CLOSED;
  return handle;
}

}  // namespace

int start(Instance& self, const baton_operation& from, baton_activation* activation) noexcept {
  const KindFacts* const facts = facts_of(from.kind);
  if (facts == nullptr) return EINVAL;
  if (const int error = check(*facts, from)) return error;
  // Their results are in fields that earlier headers did not have.
  constexpr std::uint16_t later = BATON_POOLED | BATON_ADOPT;
  if ((from.flags & later) != 0 && self.completion_size < sizeof(baton_completion)) return EINVAL;
  Slot* const slot = self.slots.take();
  if (slot == nullptr) return EAGAIN;
  int error = 0;
  Handle* const handle = facts->handle != Use::none ? hold(self, *facts, from, error) : nullptr;
  if (BATON_LIKELY(error == 0)) {
    error = start_in_slot(self, *slot, *facts, from, handle, activation);
    const bool closes = facts->kind == OperationKind::close;
    BATON_ASSERT(error == 0 || !closes);
    if (handle != nullptr && !closes) self.handles.unpin(from.handle);
  }
  if (BATON_UNLIKELY(error != 0)) self.slots.give(*slot);
  return error;
}

}  // namespace baton::capi

int baton::capi::start_all(Instance& self, const baton_operation* operations, int count,
                           baton_activation* activations, int& why_not) noexcept {
  why_not = count < 0 || (operations == nullptr && count > 0) ? EINVAL : 0;
  int taken = 0;
  // All elements of an array have the size that the first one names.
  const std::size_t stride = why_not == 0 && count > 0 ? operations->size : 0;
  const auto* bytes = reinterpret_cast<const std::byte*>(operations);
  while (why_not == 0 && taken < count) {
    baton_operation operation;
    why_not = copy_in(bytes + static_cast<std::size_t>(taken) * stride, stride, operation);
    if (why_not == 0 && operation.size != stride) why_not = EINVAL;
    if (why_not == 0) {
      why_not = start(self, operation, activations != nullptr ? activations + taken : nullptr);
    }
    if (why_not == 0) ++taken;
  }
  return taken;
}

int baton_start(baton_proactor* proactor, const baton_operation* operations, int count,
                baton_activation* activations, int* why_not) {
  baton::capi::Instance* const self = baton::capi::find(proactor);
  const baton::capi::Inside inside;
  int error = EINVAL;
  const int taken = self != nullptr ? start_all(*self, operations, count, activations, error) : 0;
  if (why_not != nullptr) *why_not = error;
  return taken;
}
