// StreamSocket: a connected TCP or UNIX stream socket. Reading and writing come from Stream. A new
// one is made by an Acceptor, a Connector, pair() or adopt().
#pragma once

#include <system_error>
#include <utility>

#include "baton/endpoint.hpp"
#include "baton/export.hpp"
#include "baton/handle.hpp"
#include "baton/operation.hpp"
#include "baton/proactor.hpp"
#include "baton/result.hpp"
#include "baton/socket_options.hpp"
#include "baton/stream.hpp"

namespace baton {

class BATON_EXPORT StreamSocket : public Stream, public SocketOptions<StreamSocket> {
 public:
  StreamSocket() noexcept = default;  ///< closed

  /// From a descriptor (see Proactor::adopt). On failure the caller keeps it.
  static Result<StreamSocket> adopt(Proactor& proactor, NativeHandle native,
                                    Ownership ownership = Ownership::owned,
                                    Home home = {}) noexcept;
  /// Two UNIX sockets connected to each other. Errors: the system's, Proactor::adopt's.
  static Result<std::pair<StreamSocket, StreamSocket>> pair(Proactor& proactor,
                                                            Home home = {}) noexcept;

  /// Half close of the sending side, behind the writes started before: the peer reads the end of
  /// the stream. Result<void>.
  [[nodiscard]] auto shutdown() noexcept {
    return awaitable(request(OperationKind::shutdown), detail::NoBytes{});
  }
  template <detail::CachedHandler Handler>
  [[nodiscard]] std::error_code shutdown(Handler&& handler) noexcept {
    return start_cached(request(OperationKind::shutdown), std::forward<Handler>(handler));
  }
  template <detail::OwnedHandler Handler = detail::KeepHandler>
  [[nodiscard]] std::error_code shutdown(Operation& operation, Handler handler = {}) noexcept {
    return start_owned(operation, request(OperationKind::shutdown), handler);
  }

  /// Errors: the system's; errc::handle_closed.
  [[nodiscard]] Result<Endpoint> local_endpoint() const noexcept;
  [[nodiscard]] Result<Endpoint> remote_endpoint() const noexcept;  ///< the peer's address

 private:
  friend class IoObject;
  friend class Connector;
  using Stream::Stream;
};

}  // namespace baton
