// Stream sockets.
#include "baton/stream_socket.hpp"

#include "io/native.hpp"
#include "os/system.hpp"

namespace baton {

Result<StreamSocket> StreamSocket::adopt(Proactor& proactor, NativeHandle native,
                                         Ownership ownership, Home home) noexcept {
  return adopt_as<StreamSocket>(proactor, native, HandleKind::stream_socket, ownership, home);
}

Result<std::pair<StreamSocket, StreamSocket>> StreamSocket::pair(Proactor& proactor,
                                                                 Home home) noexcept {
  const os::System& system = proactor.system();
  int fds[2];
  // Errnos: EMFILE, ENFILE, ENOMEM: returned to the caller.
  if (system.socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) != 0) {
    return unexpected{io::last_error()};
  }
  io::Descriptor second_fd{system, fds[1]};
  Result<StreamSocket> first = io::adopt_or_close<StreamSocket>(proactor, fds[0], home);
  if (!first) return unexpected{first.error()};
  Result<StreamSocket> second =
      io::adopt_or_close<StreamSocket>(proactor, second_fd.release(), home);
  if (!second) return unexpected{second.error()};
  return std::pair{std::move(*first), std::move(*second)};
}

Result<Endpoint> StreamSocket::local_endpoint() const noexcept { return io::local_endpoint(*this); }

Result<Endpoint> StreamSocket::remote_endpoint() const noexcept {
  return io::remote_endpoint(*this);
}

}  // namespace baton
