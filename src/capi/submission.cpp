// Starts: a request is checked, copied into a slot, and started.
#include "capi/submission.hpp"

#include "capi/addresses.hpp"
#include "capi/kinds.hpp"
#include "capi/structs.hpp"

namespace baton::capi {
namespace {

static_assert(sizeof(baton_buffer) == sizeof(MutableBuffer));
static_assert(sizeof(baton_operation) == 80);

/// Of a transfer between a stream and one buffer.
constexpr KindFacts transfer{
    OperationKind::read_stream, HandleUse::pinned, true, false, Address::none, BATON_EXACTLY, 0, 0};

/// As check() would find.
bool is_transfer(const baton_operation& from) noexcept {
  return from.size == sizeof(from) && from.kind >= BATON_READ_STREAM &&
         from.kind <= BATON_WRITE_STREAM && (from.flags & ~transfer.flags) == 0 &&
         (from.data != nullptr || from.length == 0) && from.deadline_ns >= transfer.deadline_min;
}

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

/// What is more than a transfer between a stream and a buffer.
void fill_more(Slot& slot, const KindFacts& facts, const baton_operation& from) noexcept {
  Operation& operation = slot.operation;
  slot.has_more = true;
  slot.adopts = (from.flags & BATON_ADOPT) != 0;
  if (operation.has(Operation::pooled)) {
    slot.enter_pool(*static_cast<baton_pool*>(from.data));
    operation.set_pool(&slot.pool->blocks);
  }
  if (facts.at_offset) operation.set_offset(from.offset);
  if (operation.has(Operation::until)) {
    slot.delimiter = {static_cast<const char*>(from.delimiter), from.delimiter_size};
    operation.set_until(&slot.delimiter, static_cast<std::size_t>(from.offset));
  }
  fill_address(slot, facts.address, from.endpoint);
}

[[gnu::always_inline]] inline void fill(Slot& slot, const KindFacts& facts,
                                        const baton_operation& from, Handle* handle) noexcept {
  Operation& operation = slot.operation;
  // The engine does not use BATON_ADOPT.
  operation.prepare(static_cast<OperationKind>(from.kind - BATON_READ_STREAM), handle,
                    static_cast<std::uint16_t>(from.flags & ~std::uint16_t{BATON_ADOPT}));
  operation.set_deadline(facts.has_deadline() ? deadline_of(from.deadline_ns) : Deadline::never());
  if (facts.has_buffer) operation.set_buffer(MutableBuffer{from.data, from.length});
  if (&facts != &transfer) fill_more(slot, facts, from);
}

[[gnu::cold]] int refuse(Slot& slot, std::error_code error, baton_activation& activation) noexcept {
  slot.activation.store(0, std::memory_order_seq_cst);
  slot.end_more();
  activation = 0;  // the name goes to another operation
  return code_of(error);
}

/// The handle, if there is one, is pinned or, for a close, held by begin_close.
[[gnu::always_inline]] inline int start_in_slot(Instance& self, Slot& slot, const KindFacts& facts,
                                                const baton_operation& from, Handle* handle,
                                                baton_activation& activation) noexcept {
  fill(slot, facts, from, handle);
  slot.tag.store(from.tag, std::memory_order_relaxed);
  slot.operation.set_tag(static_cast<std::uint32_t>(from.tag));
  // Both before the start: the completion may be faster than this function.
  const baton_activation name = SlotTable::name_next(slot);
  // release: a thread that reads the name sees the request.
  slot.activation.store(name, std::memory_order_release);
  activation = name;
  const std::error_code error = facts.kind == OperationKind::user
                                    ? self.proactor.post(slot.operation, level_of(from.notify))
                                    : self.proactor.start(slot.operation);
  return BATON_LIKELY(!error) ? 0 : refuse(slot, error, activation);
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

/// Starts one checked request in a slot. 0, or the error: then no completion comes. Inlined, so
/// that a transfer meets no branch of another kind.
[[gnu::always_inline]] inline int start_checked(Instance& self, const KindFacts& facts,
                                                const baton_operation& from,
                                                baton_activation& activation) noexcept {
  Slot* const slot = self.slots.take();
  if (BATON_UNLIKELY(slot == nullptr)) return EAGAIN;
  const PinnedHandle pinned{self.handles, facts.handle == HandleUse::pinned ? from.handle : 0};
  Handle* handle = pinned.get();
  int error = 0;
  if (BATON_UNLIKELY(handle == nullptr)) error = hold(self, facts.handle, from.handle, handle);
  if (BATON_LIKELY(error == 0)) {
    error = start_in_slot(self, *slot, facts, from, handle, activation);
    BATON_ASSERT(error == 0 || facts.handle != HandleUse::closed);
  }
  if (BATON_UNLIKELY(error != 0)) self.slots.give(*slot);
  return error;
}

/// The same, not checked yet, and of any kind.
[[gnu::noinline]] int start_any(Instance& self, const baton_operation& from,
                                baton_activation& activation) noexcept {
  const KindFacts* const facts = check(from);
  if (facts == nullptr || from.size != sizeof(from)) return EINVAL;
  // Their results are in fields that earlier headers did not have.
  constexpr std::uint16_t later = BATON_POOLED | BATON_ADOPT;
  if ((from.flags & later) != 0 && self.completion_size < sizeof(baton_completion)) return EINVAL;
  return start_checked(self, *facts, from, activation);
}

/// The same with the struct of a later version.
[[gnu::noinline]] int start_later(Instance& self, const std::byte* from, std::size_t size,
                                  baton_activation& activation) noexcept {
  baton_operation operation;
  int error = copy_in(from, size, operation);
  if (error == 0 && operation.size != size) error = EINVAL;
  if (error != 0) return error;
  operation.size = sizeof(operation);
  return start_any(self, operation, activation);
}

[[gnu::always_inline]] inline int start(Instance& self, const std::byte* bytes, std::size_t size,
                                        baton_activation& activation) noexcept {
  if (BATON_UNLIKELY(size != sizeof(baton_operation))) {
    return start_later(self, bytes, size, activation);
  }
  const auto& from = *reinterpret_cast<const baton_operation*>(bytes);
  return BATON_LIKELY(is_transfer(from)) ? start_checked(self, transfer, from, activation)
                                         : start_any(self, from, activation);
}

}  // namespace
}  // namespace baton::capi

int baton::capi::start_all(Instance& self, const baton_operation* operations, int count,
                           baton_activation* activations, int& why_not) noexcept {
  why_not = count < 0 || (operations == nullptr && count > 0) ? EINVAL : 0;
  if (why_not != 0 || count == 0) return 0;
  // All elements of an array have the size that the first one names.
  const std::size_t size = operations->size;
  const auto* bytes = reinterpret_cast<const std::byte*>(operations);
  baton_activation unwanted = 0;
  baton_activation* activation = activations != nullptr ? activations : &unwanted;
  const std::ptrdiff_t step = activations != nullptr ? 1 : 0;
  int taken = 0;
  int error = 0;
  do {
    error = start(self, bytes, size, *activation);
    if (BATON_UNLIKELY(error != 0)) break;
    bytes += size;
    activation += step;
  } while (++taken < count);
  why_not = error;
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
