// From a completed operation to the array of the waiting caller.
//
// Handlers run on the thread that drives the proactor, one at a time. So the completion function
// writes straight into the array of the baton_wait that this thread is in. There is no queue in
// between that could overflow. While baton_close ends everything, no wait collects completions, and
// they are dropped.
#include <algorithm>
#include <cstring>

#include "capi/addresses.hpp"
#include "capi/proactor.hpp"
#include "capi/structs.hpp"
#include "capi/thread.hpp"
#include "os/system.hpp"

namespace baton::capi {
namespace {

std::int64_t result_of(const Operation& operation) noexcept {
  if (operation.kind() != OperationKind::accept) {
    return static_cast<std::int64_t>(operation.bytes());
  }
  return operation.failed() ? -1 : operation.accepted();
}

/// The block that a pooled read has taken, or null. Without a block the size is 0, whatever the
/// pointer says.
void* block_of(const Slot& slot) noexcept {
  if (slot.pool == nullptr || slot.operation.buffer().size == 0) return nullptr;
  return slot.operation.buffer().data;
}

void store_peer(const Slot& slot) noexcept {
  copy(slot.operation.failed() ? Endpoint{} : slot.endpoint, *slot.endpoint_out);
}

/// Makes the connection of an accept a handle, where memory may be allocated for it.
void adopt_accepted(Instance& self, const Handle& listener, baton_completion& completion) noexcept {
  const int error =
      adopt_or_close(self, static_cast<int>(completion.result), HandleKind::stream_socket,
                     Home{Home::by_policy}, completion.handle);
  if (error == 0 && listener.close_may_block()) {  // SO_LINGER is inherited
    const PinnedHandle pinned{self.handles, completion.handle};
    self.proactor.set_close_may_block(*pinned.get(), true);
  }
  if (error == 0) return;
  completion.result = -1;
  completion.error = error;
}

/// All that a transfer between a stream and a buffer has.
[[gnu::always_inline]] inline void complete(const Slot& slot, baton_completion& out) noexcept {
  const Operation& operation = slot.operation;
  out = {.tag = slot.tag.load(std::memory_order_relaxed),
         .result = static_cast<std::int64_t>(operation.bytes()),
         .activation = slot.activation.load(std::memory_order_relaxed),
         .error = code_of(operation.error_value()),
         .kind = static_cast<std::uint16_t>(static_cast<int>(operation.kind()) + 1),
         .reserved = 0,
         .data = nullptr,
         .handle = 0};
}

/// What others have besides.
void complete_more(Instance& self, const Slot& slot, bool may_allocate,
                   baton_completion& out) noexcept {
  out.result = result_of(slot.operation);
  out.data = block_of(slot);
  if (out.data != nullptr) slot.pool->bring(out.data);
  if (slot.endpoint_out != nullptr) store_peer(slot);
  if (slot.adopts && out.error == 0 && may_allocate) {
    adopt_accepted(self, *slot.operation.handle(), out);
  }
}

/// Drops its result.
void drop(Instance& self, const Slot& slot) noexcept {
  const Operation& operation = slot.operation;
  if (operation.kind() == OperationKind::accept && !operation.failed()) {
    self.system.close(operation.accepted());
  }
  if (void* const block = block_of(slot)) slot.pool->blocks.give(block);
}

static_assert(sizeof(baton_completion) == 48);
/// Any request, and for a program that has the struct of another version. One built with an earlier
/// header has no room for later fields; in one built with a later header, fields that this library
/// does not know are zero.
[[gnu::noinline]] void deliver_any(Instance& self, Slot& slot, Collector* to) noexcept {
  if (to != nullptr) {
    baton_completion completion;
    complete(slot, completion);
    if (slot.has_more) complete_more(self, slot, to->may_allocate, completion);
    const std::size_t size = self.completion_size;
    std::byte* const out =
        reinterpret_cast<std::byte*>(to->out) + static_cast<std::size_t>(to->count++) * size;
    const std::size_t known = std::min(size, sizeof(completion));
    std::memcpy(out, &completion, known);
    std::memset(out + known, 0, size - known);
  } else {
    drop(self, slot);
  }
  slot.end_more();
  self.slots.give(slot);
}

}  // namespace

void deliver(Operation& operation) {
  auto& self = *static_cast<Instance*>(operation.context());
  // An operation is the first member of its slot.
  static_assert(offsetof(Slot, operation) == 0);
  Slot& slot = *reinterpret_cast<Slot*>(&operation);
  BATON_ASSERT(SlotTable::number_of(slot.activation.load(std::memory_order_relaxed)) ==
               operation.activation());
  Collector* const to = collecting;
  BATON_ASSERT(to == nullptr || to->count < to->max);
  if (BATON_UNLIKELY(to == nullptr || slot.has_more ||
                     self.completion_size != sizeof(baton_completion))) {
    return deliver_any(self, slot, to);
  }
  complete(slot, to->out[to->count++]);
  self.slots.give(slot);
}

void woken(Operation& operation) {
  auto& self = *static_cast<Instance*>(operation.context());
  if (collecting != nullptr) collecting->woken = true;
  // Last: from here on the operation may be posted again.
  self.wake_asked.store(false, std::memory_order_release);
}

}  // namespace baton::capi
