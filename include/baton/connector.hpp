// Connector: makes connections.
//
//   Connector connector{proactor};
//   auto peer = co_await connector.connect(Endpoint::loopback(7007)).timeout(2s);
//   const std::vector<Endpoint> where{v6, v4};
//   auto any = co_await connector.connect_any(where, 1s);   // a second each
#pragma once

#include <chrono>
#include <concepts>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

#include "baton/coro/cancellation.hpp"
#include "baton/coro/task.hpp"
#include "baton/deadline.hpp"
#include "baton/endpoint.hpp"
#include "baton/export.hpp"
#include "baton/io_object.hpp"
#include "baton/operation.hpp"
#include "baton/proactor.hpp"
#include "baton/result.hpp"
#include "baton/stream_socket.hpp"

namespace baton {

namespace detail {

/// Opens a socket and its handle when it is started. Where: Endpoint or Endpoint* (the caller's
/// own).
BATON_EXPORT std::error_code fill_connect(Proactor& proactor, Operation& operation,
                                          Endpoint& endpoint, Home home) noexcept;
BATON_EXPORT void undo_connect(Proactor& proactor, Operation& operation) noexcept;

template <class Where>
struct ConnectRequest {
  Proactor* proactor;
  Where where;
  Home home;

  std::error_code fill(Operation& operation) noexcept {
    if constexpr (std::is_pointer_v<Where>) {
      return fill_connect(*proactor, operation, *where, home);
    } else {
      return fill_connect(*proactor, operation, where, home);
    }
  }
  void store(CachedOperation& operation) const noexcept {
    operation.endpoint_storage = where;
    operation.set_endpoint(&operation.endpoint_storage);
  }
  void undo(Operation& operation) const noexcept { undo_connect(*proactor, operation); }
};

}  // namespace detail

class BATON_EXPORT Connector {
 public:
  /// `home`: of the sockets that it makes.
  explicit Connector(Proactor& proactor, Home home = {}) noexcept
      : proactor_(&proactor), home_(home) {}

  /// Where it makes connections.
  [[nodiscard]] Proactor& proactor() const noexcept { return *proactor_; }

  /// Opens a socket and connects it: Result<StreamSocket>. A start fails when no descriptor is
  /// left or the system lacks that family; ECONNREFUSED and similar errors are completions. A
  /// handler takes the socket by take(). If a handler of a cached operation does not take it, it is
  /// closed.
  [[nodiscard]] detail::Awaitable<detail::ConnectRequest<Endpoint>, Connector> connect(
      Endpoint endpoint) noexcept {
    return {proactor_, {proactor_, endpoint, home_}, *this};
  }
  template <detail::CachedHandler Handler>
  [[nodiscard]] std::error_code connect(Endpoint endpoint, Handler&& handler) noexcept {
    return detail::start_cached(
        proactor_, detail::ConnectRequest<Endpoint>{proactor_, endpoint, home_},
        detail::taking_back(std::forward<Handler>(handler), Take{proactor_}));
  }
  /// The endpoint must live until completion.
  template <detail::OwnedHandler Handler = detail::KeepHandler>
  [[nodiscard]] std::error_code connect(Operation& operation, Endpoint& endpoint,
                                        Handler handler = {}) noexcept {
    return detail::start_owned(proactor_, operation,
                               detail::ConnectRequest<Endpoint*>{proactor_, &endpoint, home_},
                               handler);
  }
  /// The socket of a complete connect, or its error; errc::handle_closed when it was taken before.
  /// An operation of the caller keeps the socket, also after an error, until it is taken.
  static Result<StreamSocket> take(Proactor& proactor, Operation& operation) noexcept;
  Result<StreamSocket> take(Operation& operation) const noexcept {
    return take(*proactor_, operation);
  }

  /// Tries the addresses one after the other, each for `attempt_timeout`, until one takes the
  /// connection: Result<StreamSocket>, with the last error if none does, EINVAL if there is none.
  /// Ends at once when cancelled or when the proactor stops.
  // Not an options struct: gcc 12 destroys a token in a braced argument of an await twice.
  [[nodiscard]] Task<Result<StreamSocket>> connect_any(
      std::vector<Endpoint> endpoints, AnyDuration attempt_timeout = std::chrono::seconds(10),
      CancellationToken token = {});
  /// The same with a callable void(Result<StreamSocket>), which may run inside this call if nothing
  /// could be started.
  template <std::invocable<Result<StreamSocket>> Handler>
  void connect_any(std::vector<Endpoint> endpoints, AnyDuration attempt_timeout,
                   CancellationToken token, Handler handler) {
    proactor_->spawn(report(connect_any(std::move(endpoints), attempt_timeout, std::move(token)),
                            std::move(handler)));
  }

  /// For the awaitable: the same as take().
  Result<StreamSocket> operator()(Operation& operation) const noexcept { return take(operation); }

 private:
  struct Take {
    Proactor* proactor;
    Result<StreamSocket> operator()(Operation& operation) const noexcept {
      return Connector::take(*proactor, operation);
    }
  };

  template <class Handler>
  static Task<void> report(Task<Result<StreamSocket>> attempts, Handler handler) {
    Result<StreamSocket> result = co_await std::move(attempts);
    handler(std::move(result));
  }

  Proactor* proactor_;
  Home home_;
};

}  // namespace baton
