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
  const auto made_of = [&](int fd) {
    return made<StreamSocket>(proactor, io::adopt_or_close(proactor, fd, HandleKind::stream_socket,
                                                           io::socket_flags, home));
  };
  Result<StreamSocket> first = made_of(fds[0]);
  if (!first) return unexpected{first.error()};
  Result<StreamSocket> second = made_of(second_fd.release());
  if (!second) return unexpected{second.error()};
  return std::pair{std::move(*first), std::move(*second)};
}

Result<Endpoint> StreamSocket::local_endpoint() const noexcept { return io::local_endpoint(*this); }

Result<Endpoint> StreamSocket::remote_endpoint() const noexcept {
  return io::remote_endpoint(*this);
}

}  // namespace baton
