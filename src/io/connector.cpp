// Opens connections.
#include "baton/connector.hpp"

#include "io/native.hpp"
#include "os/system.hpp"

namespace baton {

std::error_code detail::fill_connect(Proactor& proactor, Operation& operation, Endpoint& endpoint,
                                     Home home) noexcept {
  const Result<int> fd = io::open_socket(proactor.system(), endpoint.family(), SOCK_STREAM);
  if (!fd) return fd.error();
  const Result<Handle*> handle =
      io::adopt_or_close(proactor, *fd, HandleKind::stream_socket, io::socket_flags, home);
  if (!handle) return handle.error();
  operation.prepare(OperationKind::connect, *handle);  // from here on: take, or undo
  operation.set_endpoint(&endpoint);
  return {};
}

void detail::undo_connect(Proactor& proactor, Operation& operation) noexcept {
  proactor.close_detached(*operation.handle());
  operation.prepare_closed();  // its handle is free for others
}

Result<StreamSocket> Connector::take(Proactor& proactor, Operation& operation) noexcept {
  // The handle of any other operation belongs to another object.
  const bool is_connect =
      operation.kind() == OperationKind::connect && operation.state() == OperationState::completed;
  Handle* const handle = operation.handle();
  if (is_connect && handle != nullptr) {
    operation.prepare_closed();  // taken: the operation no longer names it
    if (!operation.failed()) return StreamSocket{proactor, *handle};
    proactor.close_detached(*handle);
  }
  // Also for a connect that was not started: the socket could not be opened, or is closed already.
  if (operation.failed()) return unexpected{operation.error()};
  return unexpected{make_error_code(errc::handle_closed)};
}

Task<Result<StreamSocket>> Connector::connect_any(std::vector<Endpoint> endpoints,
                                                  AnyDuration attempt_timeout,
                                                  CancellationToken token) {
  // Copied: the connector may be destroyed while the first attempt is suspended.
  Connector connector = *this;
  std::error_code last = std::make_error_code(std::errc::invalid_argument);
  for (const Endpoint& endpoint : endpoints) {
    auto peer = co_await connector.connect(endpoint).timeout(attempt_timeout).cancel_with(token);
    if (peer) co_return std::move(*peer);
    last = peer.error();
    if (last == std::errc::operation_canceled || last == errc::stopped) break;
  }
  co_return unexpected{last};
}

}  // namespace baton
