// What the workers of the emulated engine do: files, and the blocking connect and close.
#include <errno.h>

#include "base/assert.hpp"
#include "baton/endpoint.hpp"
#include "engines/emulated/perform.hpp"
#include "engines/emulated/record.hpp"

namespace baton::engines::emulated {

void Performer::work(Operation& operation) noexcept {
  switch (operation.kind()) {
    case OperationKind::read_file:
    case OperationKind::write_file:
    case OperationKind::read_stream:
    case OperationKind::write_stream:
      return files_.transfer(operation, progress(operation).attempt);
    case OperationKind::sync_file:
      return files_.sync(operation);
    case OperationKind::connect: {
      const Endpoint& peer = *operation.endpoint();
      const bool connected =
          system_.connect(operation.handle()->native(), static_cast<const sockaddr*>(peer.data()),
                          peer.size()) == 0;
      return operation.finish(connected ? 0 : errno);
    }
    case OperationKind::close:
      return operation.finish(close_now(operation.handle()->native()));
    default:
      BATON_UNREACHABLE("a kind that is no work");
  }
}

// EINTR: the number is gone all the same (Linux); closing it again would hit somebody else's. EIO,
// ENOSPC, EDQUOT: late news of earlier writes, reported; the descriptor is closed. EBADF: not ours.
int Performer::close_now(NativeHandle fd) noexcept {
  if (system_.close(fd) == 0 || errno == EINTR) return 0;
  return errno;
}

}  // namespace baton::engines::emulated
