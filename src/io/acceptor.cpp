// Listening sockets.
#include "baton/acceptor.hpp"

#include "io/native.hpp"
#include "os/remove_path.hpp"
#include "os/system.hpp"

namespace baton {
namespace {

std::error_code set_options(const os::System& system, int fd, const Endpoint& endpoint,
                            const ListenOptions& options) noexcept {
  using option::Name;
  const bool internet = endpoint.family() != AddressFamily::unix_domain;
  if (internet && options.reuse_address) {
    if (auto error = detail::set_option(system, fd, Name::reuse_address, 1)) return error;
  }
  if (internet && options.reuse_port) {
    if (auto error = detail::set_option(system, fd, Name::reuse_port, 1)) return error;
  }
  // Set in any case: the default is a system-wide setting.
  if (endpoint.family() == AddressFamily::ipv6) {
    return detail::set_option(system, fd, Name::v6_only, options.v6_only ? 1 : 0);
  }
  return {};
}

}  // namespace

Result<Acceptor> Acceptor::listen(Proactor& proactor, const Endpoint& endpoint,
                                  ListenOptions options) noexcept {
  const os::System& system = proactor.system();
  const Result<int> fd = io::open_socket(system, endpoint.family(), SOCK_STREAM);
  if (!fd) return unexpected{fd.error()};
  io::Descriptor descriptor{system, *fd};
  if (auto error = set_options(system, *fd, endpoint, options)) return unexpected{error};
  if (auto error = io::bind(system, *fd, endpoint)) return unexpected{error};
  // Errnos: EADDRINUSE: returned to the caller.
  const bool listens = system.listen(*fd, options.backlog) == 0;
  Result<Acceptor> acceptor =
      listens ? made<Acceptor>(proactor, io::adopt_or_close(proactor, descriptor.release(),
                                                            HandleKind::listener, io::socket_flags,
                                                            options.home))
              : unexpected{io::last_error()};
  if (!acceptor) os::remove_path(system, endpoint.data(), endpoint.size());
  return acceptor;
}

Result<std::vector<Acceptor>> Acceptor::listen_each_lane(Proactor& proactor,
                                                         const Endpoint& endpoint,
                                                         ListenOptions options) {
  const os::System& system = proactor.system();
  options.reuse_port = true;
  Endpoint shared = endpoint;
  std::vector<Acceptor> acceptors;
  acceptors.reserve(proactor.lanes());
  for (std::uint32_t lane = 0; lane < proactor.lanes(); ++lane) {
    options.home.lane = lane;
    Result<Acceptor> acceptor = listen(proactor, shared, options);
    if (!acceptor) {
      // Only the first acceptor has taken the path.
      if (lane > 0) os::remove_path(system, endpoint.data(), endpoint.size());
      return unexpected{acceptor.error()};
    }
    if (lane == 0) {
      // With port 0 the first acceptor gets a port, and the others use the same.
      const Result<Endpoint> found = acceptor->local_endpoint();
      if (!found) {
        os::remove_path(system, endpoint.data(), endpoint.size());
        return unexpected{found.error()};
      }
      shared = *found;
    }
    acceptors.push_back(std::move(*acceptor));
  }
  return acceptors;
}

Result<Acceptor> Acceptor::adopt(Proactor& proactor, NativeHandle native, Ownership ownership,
                                 Home home) noexcept {
  return adopt_as<Acceptor>(proactor, native, HandleKind::listener, ownership, home);
}

Result<StreamSocket> Acceptor::take(Proactor& proactor, Operation& operation) noexcept {
  if (operation.failed()) return unexpected{operation.error()};
  // For any other operation accepted() would misinterpret a number.
  const bool is_accept =
      operation.kind() == OperationKind::accept && operation.state() == OperationState::completed;
  const int descriptor = is_accept ? operation.accepted() : -1;
  if (descriptor < 0) return unexpected{make_error_code(errc::handle_closed)};
  operation.set_bytes(static_cast<std::size_t>(-1));  // taken: accepted() returns none from now on
  auto socket = made<StreamSocket>(
      proactor, io::adopt_or_close(proactor, descriptor, HandleKind::stream_socket,
                                   io::socket_flags, Home{Home::by_policy}));
  // SO_LINGER is inherited.
  if (socket && operation.handle()->close_may_block()) {
    proactor.set_close_may_block(*socket->handle(), true);
  }
  return socket;
}

Result<Endpoint> Acceptor::local_endpoint() const noexcept { return io::local_endpoint(*this); }

}  // namespace baton
