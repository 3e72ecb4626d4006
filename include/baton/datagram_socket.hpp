// DatagramSocket: UDP and UNIX datagrams. Each request has the three forms of io_object.hpp.
//
// Datagrams keep their boundaries; their order is not guaranteed. A datagram that is longer than
// the buffer is truncated; an empty one is a datagram like any other, not an end. A buffer of more
// bytes than memory has addresses may be refused by the system (EINVAL, EFAULT).
#pragma once

#include <cstddef>
#include <cstdint>
#include <system_error>
#include <utility>

#include "baton/buffer.hpp"
#include "baton/endpoint.hpp"
#include "baton/export.hpp"
#include "baton/handle.hpp"
#include "baton/io_object.hpp"
#include "baton/operation.hpp"
#include "baton/proactor.hpp"
#include "baton/result.hpp"
#include "baton/socket_options.hpp"

namespace baton {

/// How a datagram socket is bound.
struct BindOptions {
  bool reuse_address = false;  ///< bind although an earlier socket had the address
  bool reuse_port = false;     ///< several sockets share the port
  bool v6_only = false;        ///< an IPv6 socket takes no IPv4
  Home home{};                 ///< of the socket
};

class BATON_EXPORT DatagramSocket : public IoObject, public SocketOptions<DatagramSocket> {
 public:
  DatagramSocket() noexcept = default;  ///< closed

  /// Binds it to an address; port 0: any free one. Errors: the system's, Proactor::adopt's.
  static Result<DatagramSocket> bind(Proactor& proactor, const Endpoint& endpoint,
                                     BindOptions options = {}) noexcept;
  /// Not bound: the first send gives it an address.
  static Result<DatagramSocket> open(Proactor& proactor, AddressFamily family,
                                     Home home = {}) noexcept;
  /// From a descriptor (see Proactor::adopt). On failure the caller keeps it.
  static Result<DatagramSocket> adopt(Proactor& proactor, NativeHandle native,
                                      Ownership ownership = Ownership::owned,
                                      Home home = {}) noexcept;

  /// Fixes the peer: read and write work with it, datagrams of others are dropped. Does not wait.
  std::error_code connect(const Endpoint& peer) noexcept;

  /// Receives one datagram and stores its sender in `peer` (alive until completion):
  /// Result<std::size_t>.
  [[nodiscard]] auto receive_from(MutableBuffer buffer, Endpoint& peer) noexcept {
    return awaitable(receiving(buffer, &peer), detail::Bytes{});
  }
  template <detail::CachedHandler Handler>
  [[nodiscard]] std::error_code receive_from(MutableBuffer buffer, Endpoint& peer,
                                             Handler&& handler) noexcept {
    return start_cached(receiving(buffer, &peer), std::forward<Handler>(handler));
  }
  template <detail::OwnedHandler Handler = detail::KeepHandler>
  [[nodiscard]] std::error_code receive_from(Operation& operation, MutableBuffer buffer,
                                             Endpoint& peer, Handler handler = {}) noexcept {
    return start_owned(operation, receiving(buffer, &peer), handler);
  }

  /// One datagram to `peer`: Result<std::size_t>. With an operation of the caller the endpoint must
  /// live until completion; the other forms copy it.
  [[nodiscard]] auto send_to(ConstBuffer buffer, const Endpoint& peer) noexcept {
    return awaitable(detail::EndpointRequest{sending(buffer, nullptr), peer}, detail::Bytes{});
  }
  template <detail::CachedHandler Handler>
  [[nodiscard]] std::error_code send_to(ConstBuffer buffer, const Endpoint& peer,
                                        Handler&& handler) noexcept {
    return start_cached(detail::EndpointRequest{sending(buffer, nullptr), peer},
                        std::forward<Handler>(handler));
  }
  template <detail::OwnedHandler Handler = detail::KeepHandler>
  [[nodiscard]] std::error_code send_to(Operation& operation, ConstBuffer buffer, Endpoint& peer,
                                        Handler handler = {}) noexcept {
    return start_owned(operation, sending(buffer, &peer), handler);
  }

  /// One datagram of the connected peer.
  [[nodiscard]] auto read(MutableBuffer buffer) noexcept {
    return awaitable(receiving(buffer, nullptr), detail::Bytes{});
  }
  template <detail::CachedHandler Handler>
  [[nodiscard]] std::error_code read(MutableBuffer buffer, Handler&& handler) noexcept {
    return start_cached(receiving(buffer, nullptr), std::forward<Handler>(handler));
  }
  template <detail::OwnedHandler Handler = detail::KeepHandler>
  [[nodiscard]] std::error_code read(Operation& operation, MutableBuffer buffer,
                                     Handler handler = {}) noexcept {
    return start_owned(operation, receiving(buffer, nullptr), handler);
  }

  /// One datagram to the connected peer. ECONNREFUSED may be the answer to an earlier one.
  [[nodiscard]] auto write(ConstBuffer buffer) noexcept {
    return awaitable(sending(buffer, nullptr), detail::Bytes{});
  }
  template <detail::CachedHandler Handler>
  [[nodiscard]] std::error_code write(ConstBuffer buffer, Handler&& handler) noexcept {
    return start_cached(sending(buffer, nullptr), std::forward<Handler>(handler));
  }
  template <detail::OwnedHandler Handler = detail::KeepHandler>
  [[nodiscard]] std::error_code write(Operation& operation, ConstBuffer buffer,
                                      Handler handler = {}) noexcept {
    return start_owned(operation, sending(buffer, nullptr), handler);
  }

  /// One datagram in several pieces, to the connected peer and from it. The list must live until
  /// completion.
  [[nodiscard]] auto read_vectored(MutableBuffers list) noexcept {
    return awaitable(list_request(OperationKind::read_datagram, 0, list), detail::Bytes{});
  }
  template <detail::OwnedHandler Handler = detail::KeepHandler>
  [[nodiscard]] std::error_code read_vectored(Operation& operation, MutableBuffers list,
                                              Handler handler = {}) noexcept {
    return start_owned(operation, list_request(OperationKind::read_datagram, 0, list), handler);
  }
  template <detail::CachedHandler Handler>
  [[nodiscard]] std::error_code read_vectored(MutableBuffers list, Handler&& handler) noexcept {
    return start_cached(list_request(OperationKind::read_datagram, 0, list),
                        std::forward<Handler>(handler));
  }
  /// One datagram from several pieces. The list must live until completion.
  [[nodiscard]] auto write_vectored(ConstBuffers list) noexcept {
    return awaitable(list_request(OperationKind::write_datagram, 0, list), detail::Bytes{});
  }
  template <detail::CachedHandler Handler>
  [[nodiscard]] std::error_code write_vectored(ConstBuffers list, Handler&& handler) noexcept {
    return start_cached(list_request(OperationKind::write_datagram, 0, list),
                        std::forward<Handler>(handler));
  }
  template <detail::OwnedHandler Handler = detail::KeepHandler>
  [[nodiscard]] std::error_code write_vectored(Operation& operation, ConstBuffers list,
                                               Handler handler = {}) noexcept {
    return start_owned(operation, list_request(OperationKind::write_datagram, 0, list), handler);
  }

  /// Its own address. Errors: the system's; errc::handle_closed.
  [[nodiscard]] Result<Endpoint> local_endpoint() const noexcept;
  /// The peer of connect(). Errors: as local_endpoint().
  [[nodiscard]] Result<Endpoint> remote_endpoint() const noexcept;

 private:
  friend class IoObject;
  using IoObject::IoObject;

  [[nodiscard]] detail::Request receiving(MutableBuffer buffer, Endpoint* peer) const noexcept {
    detail::Request made = request(OperationKind::read_datagram, 0, buffer);
    made.extra = reinterpret_cast<std::uintptr_t>(peer);
    return made;
  }
  [[nodiscard]] detail::Request sending(ConstBuffer buffer, Endpoint* peer) const noexcept {
    detail::Request made = request(OperationKind::write_datagram, 0, buffer);
    made.extra = reinterpret_cast<std::uintptr_t>(peer);
    return made;
  }
};

}  // namespace baton
