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
  if (slot.endpoint_out == nullptr) return;
  copy(slot.operation.failed() ? Endpoint{} : slot.endpoint, *slot.endpoint_out);
}

static_assert(sizeof(baton_completion) == 48);
void collect(Collector& collector, const baton_completion& completion) noexcept {
  BATON_ASSERT(collector.count < collector.max);
  std::byte* out = collector.out + static_cast<std::size_t>(collector.count) * collector.stride;
  if (BATON_LIKELY(collector.stride == sizeof(completion))) {
    std::memcpy(out, &completion, sizeof(completion));
  } else {
    // A program built with an earlier header has no room for later fields; in one built with a
    // later header, fields that this library does not know are zero.
    const std::size_t known = std::min(collector.stride, sizeof(completion));
    std::memcpy(out, &completion, known);
    std::memset(out + known, 0, collector.stride - known);
  }
  ++collector.count;
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

baton_completion completion_of(Instance& self, const Slot& slot, bool may_allocate) noexcept {
  const Operation& operation = slot.operation;
  baton_completion completion{};
  completion.tag = slot.tag.load(std::memory_order_relaxed);
  completion.result = result_of(operation);
  completion.activation = slot.activation.load(std::memory_order_relaxed);
  completion.error = code_of(operation.error_value());
  completion.kind = static_cast<std::uint16_t>(static_cast<int>(operation.kind()) + 1);
  completion.data = block_of(slot);
  if (completion.data != nullptr) slot.pool->bring(completion.data);
  if (slot.adopts && completion.error == 0 && may_allocate) {
    adopt_accepted(self, *operation.handle(), completion);
  }
  return completion;
}

/// Drops its result.
void drop(Instance& self, const Slot& slot) noexcept {
  const Operation& operation = slot.operation;
  if (operation.kind() == OperationKind::accept && !operation.failed()) {
    self.system.close(operation.accepted());
  }
  if (void* const block = block_of(slot)) slot.pool->blocks.give(block);
}

}  // namespace

Inside::Inside() noexcept { inside_depth = inside_depth + 1; }
Inside::~Inside() { inside_depth = inside_depth - 1; }
bool Inside::now() noexcept { return inside_depth != 0; }

void deliver(Operation& operation) {
  auto& self = *static_cast<Instance*>(operation.context());
  // An operation is the first member of its slot.
  static_assert(offsetof(Slot, operation) == 0);
  Slot& slot = *reinterpret_cast<Slot*>(&operation);
  BATON_ASSERT(SlotTable::number_of(slot.activation.load(std::memory_order_relaxed)) ==
               operation.activation());
  if (collecting != nullptr) {
    store_peer(slot);
    collect(*collecting, completion_of(self, slot, collecting->may_allocate));
  } else {
    drop(self, slot);
  }
  slot.leave_pool();
  self.slots.give(slot);
}

void woken(Operation& operation) {
  auto& self = *static_cast<Instance*>(operation.context());
  if (collecting != nullptr) collecting->woken = true;
  // Last: from here on the operation may be posted again.
  self.wake_asked.store(false, std::memory_order_release);
}

void drive(Instance& self, Collector& collector, Deadline deadline) {
  struct Collecting {
    Collector* const outer = collecting;
    ~Collecting() { collecting = outer; }
  } const restore;
  collecting = &collector;
  // Completions of the library's own operations do not end the wait.
  const auto room = static_cast<std::size_t>(collector.max);
  BATON_ASSERT(collector.max > 0);
  while (collector.count == 0 && !collector.woken) {
    if (self.proactor.handle_events(deadline, room) == 0) break;
  }
}

}  // namespace baton::capi
