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

// One call for a borrowed socket in blocking mode. The send timeout of a socket bounds its connect,
// too. It is restored before the program can send, unless the program has set it meanwhile. A
// connection that takes longer goes on by itself, and a full backlog is tried again after a pause.
// Neither keeps a worker.
Outcome Performer::connect_bounded(Operation& operation) noexcept {
  const NativeHandle fd = operation.handle()->native();
  const auto get = [&](timeval& span) {
    socklen_t size = sizeof(span);
    return system_.getsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &span, &size) == 0;
  };
  const auto set = [&](const timeval& span) {
    return system_.setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &span, sizeof(span)) == 0;
  };
  timeval before{};
  timeval ours{};  // rounded up by the system
  const bool bounded = get(before) && set({.tv_sec = 0, .tv_usec = 1});
  const bool known = bounded && get(ours);
  const Outcome outcome = connect(operation);
  timeval now{};
  const bool changed =
      known && get(now) && (now.tv_sec != ours.tv_sec || now.tv_usec != ours.tv_usec);
  if (bounded && !changed) set(before);
  return outcome;
}

}  // namespace baton::engines::emulated
