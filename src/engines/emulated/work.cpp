// The blocking calls that the emulated engine's workers make: files, connect and close.
#include "base/assert.hpp"
#include "engines/common/closer.hpp"
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
    case OperationKind::connect:
      progress(operation).goes_on = connect_bounded(operation) != Outcome::done;
      return;
    case OperationKind::close:
      return operation.finish(close_by_call(system_, operation.handle()->native()));
    default:
      BATON_UNREACHABLE("a kind that is no work");
  }
}

// The first call for a borrowed socket in blocking mode. The socket's send timeout also bounds
// connect; it is restored before the program can send. A connection that takes longer goes on by
// itself, and a full backlog is tried again after a pause: neither keeps a worker.
Outcome Performer::connect_bounded(Operation& operation) noexcept {
  const NativeHandle fd = operation.handle()->native();
  const timeval least{.tv_sec = 0, .tv_usec = 1};
  timeval before{};
  socklen_t size = sizeof(before);
  const bool bounded = system_.getsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &before, &size) == 0 &&
                       system_.setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &least, sizeof(least)) == 0;
  const Outcome outcome = connect(operation);
  if (bounded) system_.setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &before, sizeof(before));
  return outcome;
}

}  // namespace baton::engines::emulated
