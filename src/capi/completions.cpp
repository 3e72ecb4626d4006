// Completions: waiting for them, ending a wait, and the state of one.
#include <utility>

#include "capi/proactor.hpp"
#include "capi/structs.hpp"
#include "capi/submission.hpp"
#include "os/no_allocation.hpp"

using baton::Deadline;
using baton::Operation;
using baton::OperationKind;
using baton::OperationState;
using baton::capi::Collector;
using baton::capi::find;
using baton::capi::Inside;
using baton::capi::Instance;
using baton::capi::Slot;
using baton::capi::SlotReader;
using baton::capi::SlotTable;

namespace {

/// Whether driving may allocate, as it may not in a signal handler.
enum class Memory : bool { leave_alone, may_change };

/// Drives the proactor until there is a completion, nothing is left, or a wake came.
[[gnu::always_inline]] inline int bring(Instance& self, baton_completion* out, int max,
                                        Deadline deadline, Memory memory) noexcept {
  if (out == nullptr || max <= 0) return -EINVAL;
  Collector collector{out, max, memory == Memory::may_change};
  Collector* const outer = std::exchange(baton::capi::collecting, &collector);
  int error = 0;
  try {
    // Completions of the library's own operations do not end the wait.
    while (self.proactor.handle_events(deadline, static_cast<std::size_t>(max)) > 0) {
      if (BATON_LIKELY(collector.count > 0) || collector.woken) break;
    }
  } catch (...) {
    error = baton::capi::code_of_exception();
  }
  baton::capi::collecting = outer;
  if (collector.count > 0 || collector.woken) return collector.count;
  if (error != 0) return -error;
  return self.proactor.stopped() ? -BATON_STOPPED : 0;
}

Deadline deadline_after(const Instance& self, std::int64_t timeout_ns) noexcept {
  if (timeout_ns < 0) return Deadline::never();
  if (timeout_ns == 0) return Deadline::immediately();
  return Deadline::after(baton::Duration{timeout_ns}, self.proactor.now());
}

int wait(Instance& self, baton_completion* out, int max, std::int64_t timeout_ns) noexcept {
  const Deadline deadline = deadline_after(self, timeout_ns);
  self.drivers.fetch_add(1, std::memory_order_acquire);
  const int count = bring(self, out, max, deadline, Memory::may_change);
  self.drivers.fetch_sub(1, std::memory_order_release);
  return count;
}

}  // namespace

int baton_wait(baton_proactor* proactor, baton_completion* out, int max, std::int64_t timeout_ns) {
  Instance* const self = find(proactor);
  if (self == nullptr) return -EINVAL;
  const Inside inside;
  return wait(*self, out, max, timeout_ns);
}

int baton_exchange(baton_proactor* proactor, baton_batch* batch, baton_completion* out, int max,
                   std::int64_t timeout_ns) {
  Instance* const self = find(proactor);
  if (self == nullptr) return -EINVAL;
  const Inside inside;
  if (batch == nullptr || out == nullptr || max <= 0) return -EINVAL;
  if (const int error = baton::capi::check_in<baton_batch>(batch, batch->size)) return -error;
  batch->taken = baton::capi::start_all(*self, batch->operations, batch->count, batch->activations,
                                        batch->why_not);
  // Completions free slots. The caller has to see every other refusal.
  const bool may_wait = batch->why_not == 0 || batch->why_not == EAGAIN;
  return wait(*self, out, max, may_wait ? timeout_ns : 0);
}

int baton_poll(baton_proactor* proactor, baton_completion* out, int max) {
  Instance* const self = find(proactor);
  if (self == nullptr) return -EINVAL;
  if (self->driving_allocates) return -BATON_NOT_SUPPORTED;
  // Inside a function of the library this thread may hold the lock that driving needs.
  if (Inside::now()) return -EBUSY;
  std::uint32_t expected = 0;
  if (!self->drivers.compare_exchange_strong(expected, 1, std::memory_order_acquire,
                                             std::memory_order_relaxed)) {
    return -EBUSY;
  }
  const int saved_errno = errno;
  const Inside inside;
  const baton::os::NoAllocation no_allocation;
  const int count = bring(*self, out, max, Deadline::immediately(), Memory::leave_alone);
  self->drivers.fetch_sub(1, std::memory_order_release);
  errno = saved_errno;
  return count;
}

void baton_wake(baton_proactor* proactor) {
  Instance* const self = find(proactor);
  if (self == nullptr) return;
  const Inside inside;
  // acquire: the thread that ran the last wake is done with the operation.
  if (self->wake_asked.exchange(true, std::memory_order_acq_rel)) return;
  self->wake.prepare(OperationKind::user, nullptr);
  if (self->proactor.post(self->wake)) self->wake_asked.store(false);
}

int baton_status(const baton_proactor* proactor, baton_activation activation, baton_state* out) {
  Instance* const self = find(proactor);
  if (self == nullptr) return EINVAL;
  if (out == nullptr) return EINVAL;
  if (const int error = baton::capi::check_size(out->size, sizeof(baton_state))) return error;
  Slot* slot = self->slots.find(activation);
  if (slot == nullptr) return ENOENT;
  const SlotReader reader{*slot, activation};
  if (!reader) return ENOENT;
  const Operation& operation = slot->operation;
  const OperationState state = operation.state();
  out->result = 0;
  out->error = 0;
  out->reserved = 0;
  out->state = BATON_PENDING;
  // The slot is named before its operation is started. Until then the operation shows its last use.
  if (operation.activation() != SlotTable::number_of(activation)) return 0;
  if (state != OperationState::result_ready && state != OperationState::completed) {
    return 0;
  }
  out->state = state == OperationState::completed ? BATON_DELIVERED : BATON_DONE;
  const bool accepted = operation.kind() == OperationKind::accept;
  out->result = accepted && operation.failed() ? -1 : static_cast<std::int64_t>(operation.bytes());
  out->error = baton::capi::code_of(operation.error_value());
  return 0;
}
