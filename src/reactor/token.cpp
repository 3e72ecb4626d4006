// The token that is handed on in the order of asking.
#include "reactor/token.hpp"

namespace baton::reactor {

void FifoToken::acquire(void (*interrupt)(void*), void* context) noexcept {
  Waiter me;
  {
    const os::LockGuard lock(mutex_, system_);
    if (!held_) {
      held_ = true;
      return;
    }
    (last_ != nullptr ? last_->next : first_) = &me;
    last_ = &me;
  }
  if (interrupt != nullptr) interrupt(context);
  static_cast<void>(me.slot.park(system_, Deadline::never()));
}

// Handed to the first in line: it stays held. Under the lock, for the waiter leaves once unparked.
void FifoToken::release() noexcept {
  const os::LockGuard lock(mutex_, system_);
  Waiter* const next = first_;
  if (next == nullptr) {
    held_ = false;
    return;
  }
  first_ = next->next;
  if (first_ == nullptr) last_ = nullptr;
  next->slot.unpark(system_);
}

}  // namespace baton::reactor
