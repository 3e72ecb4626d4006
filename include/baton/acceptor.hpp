// Acceptor: a listening socket.
//
//   Acceptor acceptor = Acceptor::listen(proactor, Endpoint::any(80)).value();
//   while (auto peer = co_await acceptor.accept()) proactor.spawn(session(std::move(*peer)));
//
// An accept stays pending when descriptors or memory are exhausted, and when a connection was given
// up before it was accepted. It ends with a connection, a cancel or a close (contract.md, rule 11).
// A pending accept costs an operation; several may be pending at once.
#pragma once

#include <cstdint>
#include <system_error>
#include <utility>
#include <vector>

#include "baton/endpoint.hpp"
#include "baton/export.hpp"
#include "baton/handle.hpp"
#include "baton/io_object.hpp"
#include "baton/operation.hpp"
#include "baton/proactor.hpp"
#include "baton/result.hpp"
#include "baton/socket_options.hpp"
#include "baton/stream_socket.hpp"

namespace baton {

/// How a listener is opened.
struct ListenOptions {
  /// Largest number of connections that the kernel queues for accept; it may queue fewer
  /// (somaxconn).
  int backlog = 4'096;
  bool reuse_address = true;  ///< listen again at once after a restart; not for UNIX sockets
  bool reuse_port = false;    ///< several listeners share the port, and the kernel spreads
  bool v6_only = false;       ///< an IPv6 listener does not take IPv4
  Home home{};                ///< of the listener itself
};

class BATON_EXPORT Acceptor : public IoObject, public SocketOptions<Acceptor> {
 public:
  Acceptor() noexcept = default;  ///< closed

  /// Port 0 takes any free port, which local_endpoint() returns. Errors: the system's (EADDRINUSE,
  /// EACCES ...), Proactor::adopt's.
  static Result<Acceptor> listen(Proactor& proactor, const Endpoint& endpoint,
                                 ListenOptions options = {}) noexcept;
  /// A listener for each lane of the proactor, all on one port (SO_REUSEPORT): with
  /// AcceptPolicy::same_thread a connection is accepted and served by one thread. With one lane
  /// there is one listener. Throws std::bad_alloc.
  static Result<std::vector<Acceptor>> listen_each_lane(Proactor& proactor,
                                                        const Endpoint& endpoint,
                                                        ListenOptions options = {});
  /// From a descriptor that listens (see Proactor::adopt). On failure the caller keeps it.
  static Result<Acceptor> adopt(Proactor& proactor, NativeHandle native,
                                Ownership ownership = Ownership::owned, Home home = {}) noexcept;

  /// Waits for a connection: Result<StreamSocket>, whose home Config::accept_policy chooses. A
  /// handler takes the socket by take(). If a handler of a cached operation does not take it, it is
  /// closed.
  [[nodiscard]] auto accept() noexcept { return awaitable(accepting(nullptr), taking()); }
  template <detail::CachedHandler Handler>
  [[nodiscard]] std::error_code accept(Handler&& handler) noexcept {
    return start_cached(accepting(nullptr),
                        detail::taking_back(std::forward<Handler>(handler), taking()));
  }
  template <detail::OwnedHandler Handler = detail::KeepHandler>
  [[nodiscard]] std::error_code accept(Operation& operation, Handler handler = {}) noexcept {
    return start_owned(operation, accepting(nullptr), handler);
  }
  /// The same, and stores the peer's address, which must live until completion.
  [[nodiscard]] auto accept(Endpoint& peer) noexcept {
    return awaitable(accepting(&peer), taking());
  }
  template <detail::OwnedHandler Handler = detail::KeepHandler>
  [[nodiscard]] std::error_code accept(Operation& operation, Endpoint& peer,
                                       Handler handler = {}) noexcept {
    return start_owned(operation, accepting(&peer), handler);
  }

  /// The socket of a complete accept, or its error; errc::handle_closed when it was taken before.
  /// When the proactor cannot take one more handle, the connection is closed. An operation of the
  /// caller keeps the connection until it is taken.
  static Result<StreamSocket> take(Proactor& proactor, Operation& operation) noexcept;
  /// The same; errc::handle_closed if the acceptor was default-constructed.
  Result<StreamSocket> take(Operation& operation) const noexcept {
    if (proactor_if_any() == nullptr) return unexpected{make_error_code(errc::handle_closed)};
    return take(proactor(), operation);
  }

  /// The address that it listens on, with the port that the system chose. Errors: the system's;
  /// errc::handle_closed.
  [[nodiscard]] Result<Endpoint> local_endpoint() const noexcept;

 private:
  friend class IoObject;
  using IoObject::IoObject;

  /// Holds no reference to the acceptor, which may move or be destroyed while the accept is
  /// pending.
  struct Take {
    Proactor* proactor;
    Result<StreamSocket> operator()(Operation& operation) const noexcept {
      if (operation.failed()) return unexpected{operation.error()};
      return Acceptor::take(*proactor, operation);
    }
  };
  [[nodiscard]] Take taking() const noexcept { return {proactor_if_any()}; }
  [[nodiscard]] detail::Request accepting(Endpoint* peer) const noexcept {
    detail::Request made = request(OperationKind::accept);
    made.extra = reinterpret_cast<std::uintptr_t>(peer);
    return made;
  }
};

}  // namespace baton
