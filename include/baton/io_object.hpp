// IoObject: the common part of sockets, files and pipes, which own a handle. Each request has three
// forms:
//
//   co_await peer.read(buffer)                  // the operation lives in the awaitable
//   peer.read(buffer, handler)                  // the operation comes from the proactor's cache
//   peer.read(operation, buffer, handler)       // the operation is the caller's
//
// Only an empty cache allocates. The last two return a std::error_code: an error means that nothing
// was started and no handler will be called (see Proactor::start). A handler is a callable
// void(Operation&). One for the caller's own operation is stored by plain copy in two pointers;
// without one, `peer.read(operation, buffer)` keeps the handler that the operation has. One for a
// cached operation has room for limits::cached_handler_size bytes and is destroyed when it has run.
// Set the deadline of the caller's own operation before the start: operation.set_deadline(...).
//
// Objects are movable owners, also while operations are pending (those belong to the handle). They
// hold a reference to their proactor, which must outlive them. Several threads may start requests
// on one object at once. Closing, moving and destroying it need exclusive access, as with any other
// value.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <new>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>

#include "baton/coro/awaitable.hpp"
#include "baton/endpoint.hpp"
#include "baton/error.hpp"
#include "baton/export.hpp"
#include "baton/handle.hpp"
#include "baton/limits.hpp"
#include "baton/misuse.hpp"
#include "baton/operation.hpp"
#include "baton/proactor.hpp"
#include "baton/result.hpp"

namespace baton {

class IoObject;

namespace detail {

/// In place of a handler: the operation keeps the one it has.
struct KeepHandler {};

template <class T>
concept OwnedHandler = std::same_as<T, KeepHandler> || std::invocable<T&, Operation&>;
template <class T>
concept CachedHandler = std::invocable<std::decay_t<T>&, Operation&>;

/// Most requests, as plain data. `extra` is an offset or the address of an endpoint or of a
/// delimiter, by kind (see Operation).
struct Request {
  Handle* handle = nullptr;
  const void* data = nullptr;
  std::size_t size = 0;
  std::uint64_t extra = 0;
  OperationKind kind = OperationKind::user;
  std::uint16_t flags = 0;

  std::error_code fill(Operation& operation) const noexcept {
    if (handle == nullptr) return make_error_code(errc::handle_closed);
    operation.prepare(kind, handle, flags);
    operation.set_buffer(ConstBuffer{data, size});
    operation.set_offset(extra);
    return {};
  }
  void undo(Operation&) const noexcept {}
};

/// A request that carries its endpoint; it lives where the operation lives.
struct EndpointRequest {
  Request request;
  Endpoint endpoint;

  std::error_code fill(Operation& operation) noexcept {
    const std::error_code error = request.fill(operation);
    if (!error) operation.set_endpoint(&endpoint);
    return error;
  }
  void store(CachedOperation& operation) const noexcept {
    operation.endpoint_storage = endpoint;
    operation.set_endpoint(&operation.endpoint_storage);
  }
  void undo(Operation&) const noexcept {}
};

/// read_until carries its delimiter, and the number of bytes of the buffer that already hold data.
struct UntilRequest {
  Request request;
  std::string_view delimiter;
  std::size_t filled = 0;

  std::error_code fill(Operation& operation) const noexcept {
    const std::error_code error = request.fill(operation);
    if (!error) operation.set_until(&delimiter, filled);
    return error;
  }
  void store(CachedOperation& operation) const noexcept {
    // Its endpoint is not needed by a read of a stream: the view goes there.
    static_assert(sizeof(std::string_view) <= Endpoint::capacity);
    operation.set_until(::new (operation.endpoint_storage.data()) std::string_view(delimiter),
                        filled);
  }
  void undo(Operation&) const noexcept {}
};

/// Builds the usual request directly in its operation, so that nothing is written twice.
template <class Finish>
class [[nodiscard("nothing is started until it is awaited")]] Awaitable<Request, Finish> final
    : public AwaiterModifiers<Awaitable<Request, Finish>> {
  using Base = AwaiterModifiers<Awaitable>;

 public:
  Awaitable(Proactor* proactor, const Request& request, Finish finish) noexcept
      : Base(proactor),
        operation_(request.kind, request.handle, request.flags,
                   ConstBuffer{request.data, request.size}, request.extra),
        finish_(std::move(finish)) {}
  /// REQUIRES: `other` is not awaited yet.
  Awaitable(Awaitable&& other) noexcept
      : Base(std::move(other)),
        operation_(other.operation_.kind(), other.operation_.handle(), other.operation_.flags(),
                   ConstBuffer{other.operation_.buffer().data, other.operation_.buffer().size},
                   other.operation_.offset()),
        finish_(std::move(other.finish_)) {
    operation_.set_deadline(other.operation_.deadline());
  }

  /// Inline: the coroutine has just made the awaitable, so the compiler knows most of what is
  /// checked here. The rest is out of line, or its registers would be saved at each resumption.
  template <class Promise>
  [[gnu::always_inline]] bool await_suspend(std::coroutine_handle<Promise> waiter) {
    if (!this->may_begin()) return false;
    const TaskContext* const context = context_of(waiter);
    if (this->cancellable(context) || operation_.handle() == nullptr) [[unlikely]] {
      return await_generally(waiter);
    }
    this->count_start(waiter);
    const std::error_code error = this->start(operation_, waiter, context);
    // Without an error *this may be gone.
    return !error || not_started(error, waiter);
  }
  decltype(auto) await_resume() {
    using Outcome = decltype(finish_(operation_));
    if (this->was_refused()) return Outcome{unexpected{make_error_code(errc::operation_in_use)}};
    return finish_(operation_);
  }
  /// For the modifiers.
  [[nodiscard]] Operation& operation() noexcept { return operation_; }

 private:
  template <class Promise>
  [[gnu::noinline]] bool await_generally(std::coroutine_handle<Promise> waiter) {
    if (operation_.handle() == nullptr) {
      this->fail(operation_, make_error_code(errc::handle_closed));
      return false;
    }
    this->count_start(waiter);
    const auto outcome = this->begin_generally(operation_, waiter, context_of(waiter));
    if (outcome == Base::Begin::failed) this->count_refusal(operation_, waiter);
    return outcome == Base::Begin::suspended;
  }
  template <class Promise>
  [[gnu::cold, gnu::noinline]] bool not_started(std::error_code error,
                                                std::coroutine_handle<Promise> waiter) {
    this->fail(operation_, error);
    this->count_refusal(operation_, waiter);
    return false;
  }

  Operation operation_;
  [[no_unique_address]] Finish finish_;
};

template <class Request, OwnedHandler Handler>
[[nodiscard]] std::error_code start_owned(Proactor* proactor, Operation& operation, Request request,
                                          Handler handler) noexcept {
  if (operation.is_pending()) return make_error_code(errc::operation_in_use);
  if (const std::error_code error = request.fill(operation)) return error;
  if constexpr (!std::same_as<Handler, KeepHandler>) operation.set_handler(handler);
  const std::error_code error = proactor->start(operation);
  if (error) request.undo(operation);
  return error;
}

template <class Request, CachedHandler Handler>
[[nodiscard]] std::error_code start_cached(Proactor* proactor, Request request,
                                           Handler&& handler) noexcept {
  if (proactor == nullptr) return make_error_code(errc::handle_closed);
  CachedOperation* const operation = proactor->take_cached();
  if (operation == nullptr) return std::make_error_code(std::errc::not_enough_memory);
  if (const std::error_code error = request.fill(*operation)) {
    proactor->give_back(*operation);
    return error;
  }
  if constexpr (requires { request.store(*operation); }) request.store(*operation);
  operation->set_flag(Operation::cached);
  operation->emplace_handler(std::forward<Handler>(handler));
  const std::error_code error = proactor->start(*operation);
  if (error) {
    request.undo(*operation);
    operation->destroy_handler();
    proactor->give_back(*operation);
  }
  return error;
}

/// A handler of a cached operation whose result owns something: a socket, a block of a pool. A
/// result that the handler has not taken when it returns or throws is dropped here.
template <class Handler, class Take>
struct TakingBack {
  struct Guard {
    Operation& operation;
    Take& take;
    ~Guard() { static_cast<void>(take(operation)); }
  };
  void operator()(Operation& operation) {
    const Guard guard{operation, take};
    handler(operation);
  }

  Handler handler;
  Take take;
};
template <class Handler, class Take>
TakingBack<std::decay_t<Handler>, Take> taking_back(Handler&& handler, Take take) noexcept {
  check_that_storing_cannot_throw<Handler>();
  static_assert(sizeof(std::decay_t<Handler>) <= limits::cached_handler_size,
                "the handler is too large for a cached operation: capture a pointer");
  return {std::forward<Handler>(handler), take};
}

/// Takes the handle out of its object: from the start of the close on, the object has none.
class BATON_EXPORT CloseRequest {
 public:
  explicit CloseRequest(IoObject& object) noexcept : object_(&object) {}
  std::error_code fill(Operation& operation) noexcept;
  void undo(Operation& operation) noexcept;

 private:
  IoObject* object_;
};

}  // namespace detail

class BATON_EXPORT IoObject {
 public:
  IoObject() noexcept = default;  ///< closed
  IoObject(IoObject&& other) noexcept
      : proactor_(other.proactor_), handle_(std::exchange(other.handle_, nullptr)) {}
  IoObject& operator=(IoObject&& other) noexcept;
  /// Starts a close and does not wait for it. REQUIRES: the proactor is alive. If it is not, the
  /// program ends with a message, unless the proactor's memory was freed or reused.
  ~IoObject();

  /// Whether it has a handle that is not closed. False after its proactor's finish().
  [[nodiscard]] bool is_open() const noexcept { return native() != invalid_handle; }
  /// Null when closed by the object itself.
  [[nodiscard]] Handle* handle() const noexcept { return handle_; }
  /// The descriptor; invalid_handle when closed.
  [[nodiscard]] NativeHandle native() const noexcept {
    return handle_ != nullptr ? handle_->native() : invalid_handle;
  }
  /// REQUIRES: not default-constructed; else the program ends with a message.
  [[nodiscard]] Proactor& proactor() const noexcept {
    if (proactor_ == nullptr) {
      detail::misused("an object that was default-constructed has no proactor: open one first");
    }
    return *proactor_;
  }

  /// Requests the early end of everything that is pending on it. Any thread.
  CancelResult cancel() noexcept;

  /// Close as an operation: pending operations are cancelled and complete first, this one last. The
  /// object is closed as soon as it has started. Result<void>; errors: errc::handle_closed, what
  /// Proactor::close answers, and as a completion what close(2) reported.
  [[nodiscard]] auto close() noexcept {
    return awaitable(detail::CloseRequest{*this}, detail::NoBytes{});
  }
  template <detail::CachedHandler Handler>
  [[nodiscard]] std::error_code close(Handler&& handler) noexcept {
    return start_cached(detail::CloseRequest{*this}, std::forward<Handler>(handler));
  }
  template <detail::OwnedHandler Handler = detail::KeepHandler>
  [[nodiscard]] std::error_code close(Operation& operation, Handler handler = {}) noexcept {
    return start_owned(operation, detail::CloseRequest{*this}, handler);
  }
  /// Starts a close and does not wait for it. Does nothing when closed.
  void close_detached() noexcept;

  /// Gives the handle away without closing it; null when closed. Afterwards the object is closed.
  [[nodiscard]] Handle* release() noexcept { return std::exchange(handle_, nullptr); }

 protected:
  /// Takes over a handle of this proactor.
  IoObject(Proactor& proactor, Handle& handle) noexcept : proactor_(&proactor), handle_(&handle) {}

  /// Null when default-constructed.
  [[nodiscard]] Proactor* proactor_if_any() const noexcept { return proactor_; }

  [[nodiscard]] detail::Request request(OperationKind kind,
                                        std::uint16_t flags = 0) const noexcept {
    detail::Request request;
    request.handle = handle_;
    request.kind = kind;
    request.flags = flags;
    return request;
  }
  /// Reads of a MutableBuffer, writes of a ConstBuffer.
  template <class Buffer>
  [[nodiscard]] detail::Request request(OperationKind kind, std::uint16_t flags,
                                        Buffer buffer) const noexcept {
    detail::Request made = request(kind, flags);
    made.data = buffer.data;
    made.size = buffer.size;
    return made;
  }
  /// The same for a list of them, which must live as long as the buffers.
  template <class Buffers>
  [[nodiscard]] detail::Request list_request(OperationKind kind, std::uint16_t flags,
                                             Buffers list) const noexcept {
    detail::Request made = request(kind, static_cast<std::uint16_t>(flags | Operation::vectored));
    made.data = list.data();
    made.size = list.size();
    return made;
  }

  // The three forms of a start.
  template <class Request, class Finish>
  [[nodiscard]] detail::Awaitable<Request, Finish> awaitable(Request request,
                                                             Finish finish) const noexcept {
    return {proactor_, std::move(request), std::move(finish)};
  }
  template <class Request, class Handler>
  [[nodiscard]] std::error_code start_cached(Request request, Handler&& handler) const noexcept {
    return detail::start_cached(proactor_, std::move(request), std::forward<Handler>(handler));
  }
  template <class Request, class Handler>
  [[nodiscard]] std::error_code start_owned(Operation& operation, Request request,
                                            Handler handler) const noexcept {
    return detail::start_owned(proactor_, operation, std::move(request), handler);
  }

  template <class Object>
  static Result<Object> adopt_as(Proactor& proactor, NativeHandle native, HandleKind kind,
                                 Ownership ownership, Home home) noexcept {
    return made<Object>(proactor, proactor.adopt(native, kind, ownership, home));
  }
  /// The object of a handle that was just adopted.
  template <class Object>
  static Result<Object> made(Proactor& proactor, const Result<Handle*>& handle) noexcept {
    if (!handle) return unexpected{handle.error()};
    return Object{proactor, **handle};
  }

 private:
  friend class detail::CloseRequest;
  Proactor* proactor_ = nullptr;
  Handle* handle_ = nullptr;
};

}  // namespace baton
