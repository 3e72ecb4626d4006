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
  operation.set_deadline(facts.has_deadline() ? deadline_of(from.deadline_ns) : Deadline::never());
  if (operation.has(Operation::pooled)) {
    slot.enter_pool(*static_cast<baton_pool*>(from.data));
    operation.set_pool(&slot.pool->blocks);
  } else if (facts.has_buffer) {
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

/// The handle of an operation that has none pinned.
int hold(Instance& self, HandleUse use, baton_handle name, Handle*& handle) noexcept {
  if (use == HandleUse::none) return 0;
  if (use == HandleUse::pinned) return BATON_HANDLE_CLOSED;  // it could not be pinned
  // The only reason to refuse the close of an open handle. It is checked first: while the close is
  // being refused, the handle must not look closed to others, not even for a moment.
  if (self.is_inherited()) return BATON_AFTER_FORK;
  handle = self.handles.begin_close(name);
  return handle != nullptr ? 0 : BATON_HANDLE_CLOSED;
}

/// Starts one request in a slot. 0, or the error: then no completion comes.
int start(Instance& self, const baton_operation& from, baton_activation* activation) noexcept {
  const KindFacts* const facts = check(from);
  if (facts == nullptr || from.size != sizeof(from)) return EINVAL;
  // Their results are in fields that earlier headers did not have.
  constexpr std::uint16_t later = BATON_POOLED | BATON_ADOPT;
  if ((from.flags & later) != 0 && self.completion_size < sizeof(baton_completion)) return EINVAL;
  Slot* const slot = self.slots.take();
  if (slot == nullptr) return EAGAIN;
  const PinnedHandle pinned{self.handles, facts->handle == HandleUse::pinned ? from.handle : 0};
  Handle* handle = pinned.get();
  int error = 0;
  if (BATON_UNLIKELY(handle == nullptr)) error = hold(self, facts->handle, from.handle, handle);
  if (BATON_LIKELY(error == 0)) {
    error = start_in_slot(self, *slot, *facts, from, handle, activation);
    BATON_ASSERT(error == 0 || facts->handle != HandleUse::closed);
  }
  if (BATON_UNLIKELY(error != 0)) self.slots.give(*slot);
  return error;
}

/// The same with the struct of a later version. By start_all, so that start() has one call and is
/// inlined there.
[[gnu::noinline]] int start_later(Instance& self, const std::byte* from, std::size_t size,
                                  baton_activation* activation) noexcept {
  baton_operation operation;
  int error = copy_in(from, size, operation);
  if (error == 0 && operation.size != size) error = EINVAL;
  if (error != 0) return error;
  operation.size = sizeof(operation);
  start_all(self, &operation, 1, activation, error);
  return error;
}

}  // namespace
}  // namespace baton::capi

int baton::capi::start_all(Instance& self, const baton_operation* operations, int count,
                           baton_activation* activations, int& why_not) noexcept {
  why_not = count < 0 || (operations == nullptr && count > 0) ? EINVAL : 0;
  int taken = 0;
  // All elements of an array have the size that the first one names.
  const std::size_t size = why_not == 0 && count > 0 ? operations->size : 0;
  const auto* bytes = reinterpret_cast<const std::byte*>(operations);
  for (; why_not == 0 && taken < count; bytes += size) {
    baton_activation* const activation = activations != nullptr ? activations + taken : nullptr;
    why_not = BATON_LIKELY(size == sizeof(baton_operation))
                  ? start(self, operations[taken], activation)
                  : start_later(self, bytes, size, activation);
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
