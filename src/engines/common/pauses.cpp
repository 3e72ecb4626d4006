// Whether a fruitless write has anybody to wait for.
#include "engines/common/pauses.hpp"

#include "engines/common/look.hpp"

namespace baton::engines {

bool writes_to_nobody(const os::System& system, const Operation& operation) noexcept {
  if (operation.kind() != OperationKind::write_stream ||
      operation.handle()->kind() != HandleKind::pipe) {
    return false;
  }
  // Asked for nothing, it is told of a hang-up or an error only.
  return ready_now(system, operation.handle()->native(), 0);
}

}  // namespace baton::engines
