// Datagram sockets.
#include "baton/datagram_socket.hpp"

#include "io/native.hpp"
#include "os/remove_path.hpp"
#include "os/system.hpp"

namespace baton {

Result<DatagramSocket> DatagramSocket::bind(Proactor& proactor, const Endpoint& endpoint,
                                            BindOptions options) noexcept {
  using option::Name;
  const os::System& system = proactor.system();
  const Result<int> fd = io::open_socket(system, endpoint.family(), SOCK_DGRAM);
  if (!fd) return unexpected{fd.error()};
  io::Descriptor descriptor{system, *fd};
  const bool internet = endpoint.family() != AddressFamily::unix_domain;
  if (internet && options.reuse_address) {
    if (auto error = detail::set_option(system, *fd, Name::reuse_address, 1)) {
      return unexpected{error};
    }
  }
  if (internet && options.reuse_port) {
    if (auto error = detail::set_option(system, *fd, Name::reuse_port, 1)) return unexpected{error};
  }
  if (endpoint.family() == AddressFamily::ipv6) {
    const int only = options.v6_only ? 1 : 0;
    if (auto error = detail::set_option(system, *fd, Name::v6_only, only)) return unexpected{error};
  }
  if (auto error = io::bind(system, *fd, endpoint)) return unexpected{error};
  Result<DatagramSocket> socket = made<DatagramSocket>(
      proactor, io::adopt_or_close(proactor, descriptor.release(), HandleKind::datagram_socket,
                                   io::socket_flags, options.home));
  if (!socket) os::remove_path(system, endpoint.data(), endpoint.size());
  return socket;
}

Result<DatagramSocket> DatagramSocket::open(Proactor& proactor, AddressFamily family,
                                            Home home) noexcept {
  const Result<int> fd = io::open_socket(proactor.system(), family, SOCK_DGRAM);
  if (!fd) return unexpected{fd.error()};
  return made<DatagramSocket>(
      proactor,
      io::adopt_or_close(proactor, *fd, HandleKind::datagram_socket, io::socket_flags, home));
}

Result<DatagramSocket> DatagramSocket::adopt(Proactor& proactor, NativeHandle native,
                                             Ownership ownership, Home home) noexcept {
  return adopt_as<DatagramSocket>(proactor, native, HandleKind::datagram_socket, ownership, home);
}

std::error_code DatagramSocket::connect(const Endpoint& peer) noexcept {
  if (!is_open()) return make_error_code(errc::handle_closed);
  // Errnos: ECONNREFUSED and ENOENT (UNIX), ENETUNREACH, EACCES, EAFNOSUPPORT: returned to the
  // caller. EINTR and EINPROGRESS do not happen: nothing is waited for.
  if (proactor().system().connect(native(), static_cast<const sockaddr*>(peer.data()),
                                  peer.size()) != 0) {
    return io::last_error();
  }
  return {};
}

Result<Endpoint> DatagramSocket::local_endpoint() const noexcept {
  return io::local_endpoint(*this);
}

Result<Endpoint> DatagramSocket::remote_endpoint() const noexcept {
  return io::remote_endpoint(*this);
}

}  // namespace baton
