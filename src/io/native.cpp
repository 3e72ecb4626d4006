// Sockets and addresses.
#include "io/native.hpp"

#include <errno.h>

namespace baton::io {
namespace {

using NameCall = int (*)(int fd, sockaddr* address, socklen_t* size);

Result<Endpoint> endpoint_by(NameCall os::System::* call, const IoObject& object) noexcept {
  if (!object.is_open()) return unexpected{make_error_code(errc::handle_closed)};
  Endpoint endpoint;
  endpoint.set_size(static_cast<std::uint32_t>(Endpoint::capacity));
  // Errnos: ENOTCONN, EINVAL (the peer is gone) are results; the others would be bugs.
  if ((object.proactor().system().*call)(object.native(), static_cast<sockaddr*>(endpoint.data()),
                                         endpoint.size_pointer()) != 0) {
    return unexpected{last_error()};
  }
  return endpoint;
}

}  // namespace

std::error_code last_error() noexcept { return {errno, std::system_category()}; }

Result<int> open_socket(const os::System& system, AddressFamily family, int type) noexcept {
  int domain = AF_UNSPEC;
  switch (family) {
    case AddressFamily::ipv4:
      domain = AF_INET;
      break;
    case AddressFamily::ipv6:
      domain = AF_INET6;
      break;
    case AddressFamily::unix_domain:
      domain = AF_UNIX;
      break;
    case AddressFamily::unspecified:
      return unexpected{std::make_error_code(std::errc::address_family_not_supported)};
  }
  // Errnos: EMFILE, ENFILE, ENOBUFS, ENOMEM, EAFNOSUPPORT, EACCES: all of them are
  // returned to the caller.
  const int fd = system.socket(domain, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return unexpected{last_error()};
  return fd;
}

std::error_code bind(const os::System& system, int fd, const Endpoint& endpoint) noexcept {
  // Errnos: EADDRINUSE, EADDRNOTAVAIL, EACCES, and those of paths: returned to the caller.
  if (system.bind(fd, static_cast<const sockaddr*>(endpoint.data()), endpoint.size()) != 0) {
    return last_error();
  }
  return {};
}

Result<Handle*> adopt_or_close(Proactor& proactor, int fd, HandleKind kind, int flags,
                               Home home) noexcept {
  Descriptor descriptor{proactor.system(), fd};
  Result<Handle*> handle = proactor.adopt_opened(fd, kind, flags, home);
  if (handle) descriptor.release();
  return handle;
}

Result<Endpoint> local_endpoint(const IoObject& object) noexcept {
  return endpoint_by(&os::System::getsockname, object);
}

Result<Endpoint> remote_endpoint(const IoObject& object) noexcept {
  return endpoint_by(&os::System::getpeername, object);
}

}  // namespace baton::io
