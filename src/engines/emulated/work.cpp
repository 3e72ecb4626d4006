// The blocking calls that the emulated engine's workers make: files, connect and close.
#include <errno.h>

#include "base/assert.hpp"
#include "baton/endpoint.hpp"
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
      return operation.finish(connect_blocking(operation));
    case OperationKind::close:
      return operation.finish(close_by_call(system_, operation.handle()->native()));
    default:
      BATON_UNREACHABLE("a kind that is no work");
  }
}

// A borrowed socket in blocking mode. Its send timeout also bounds connect, so the worker can check
// for a cancel now and then; the timeout is restored before the program can send.
//   EINTR, EAGAIN            a signal; the time is up and the backlog of the UNIX listener is full
//   EINPROGRESS, EALREADY    the time is up and the connection is in progress
//   EISCONN                  connected since the first call
int Performer::connect_blocking(const Operation& operation) noexcept {
  const Endpoint* const peer = operation.endpoint();
  if (peer == nullptr) return EDESTADDRREQ;
  const NativeHandle fd = operation.handle()->native();
  const timeval look{.tv_sec = 0, .tv_usec = 50'000};
  timeval before{};
  socklen_t size = sizeof(before);
  const bool bounded = system_.getsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &before, &size) == 0 &&
                       system_.setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &look, sizeof(look)) == 0;
  int error = EINTR;
  for (bool begun = false;
       error == EINTR || error == EAGAIN || error == EINPROGRESS || (error == EALREADY && begun);) {
    if (operation.cancel_asked()) {
      error = ECANCELED;
      break;
    }
    begun = begun || error == EINPROGRESS;
    const auto* const address = static_cast<const sockaddr*>(peer->data());
    error = system_.connect(fd, address, peer->size()) == 0 ? 0 : errno;
    if (error == EISCONN && begun) error = 0;
  }
  if (bounded) system_.setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &before, sizeof(before));
  return error;
}

}  // namespace baton::engines::emulated
