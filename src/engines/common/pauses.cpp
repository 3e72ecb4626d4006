// Whether anything can follow a fruitless try.
#include "engines/common/pauses.hpp"

#include "engines/common/look.hpp"

namespace baton::engines {

bool writes_to_closed_terminal(const os::System& system, const Operation& operation) noexcept {
  // A pipe answers EPIPE at the next try.
  if (operation.kind() != OperationKind::write_stream || !operation.handle()->is_terminal()) {
    return false;
  }
  // With no events asked for, only a hang-up or an error is reported.
  return ready_now(system, operation.handle()->native(), 0);
}

bool reads_what_is_shut(const os::System& system, const Operation& operation) noexcept {
  if (operation.kind() != OperationKind::read_datagram) return false;
  const timespec at_once{};
  const int found = look(system, operation.handle()->native(), POLLRDHUP, &at_once);
  return found > 0 && (found & POLLRDHUP) != 0;
}

}  // namespace baton::engines
