// The token, which goes from thread to thread in the order of their calls.
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
    Line& line = interrupt != nullptr ? changers_ : leaders_;
    (line.last != nullptr ? line.last->next : line.first) = &me;
    line.last = &me;
  }
  if (interrupt != nullptr) interrupt(context);
  static_cast<void>(me.slot.park(system_, Deadline::never()));
}

// Handed to the first in line, so it stays held. Under the lock, because the waiter's slot is gone
// once it is unparked. Changers come before threads that want to lead, as in ACE: the holder was
// interrupted for the change, and the next leader would wait without knowing of it.
void FifoToken::release() noexcept {
  const os::LockGuard lock(mutex_, system_);
  Line& line = changers_.first != nullptr ? changers_ : leaders_;
  Waiter* const next = line.first;
  if (next == nullptr) {
    held_ = false;
    return;
  }
  line.first = next->next;
  if (line.first == nullptr) line.last = nullptr;
  next->slot.unpark(system_);
}

}  // namespace baton::reactor
