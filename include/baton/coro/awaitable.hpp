// The awaitable of `co_await socket.read(buffer)`: it holds the operation and lives in the
// coroutine's frame, so that nothing is allocated. Awaiting starts the operation, its completion
// resumes the coroutine, and a start that fails resumes it at once with the error.
//
//   co_await peer.read(buffer)                        // Result<std::size_t>
//   co_await peer.read(buffer).timeout(5s)            // errc::timed_out if nothing came
//   co_await peer.read(buffer).cancel_with(token)     // a CancellationToken or a std::stop_token
//
// An awaitable is awaited once, in the expression that makes it or later. Until then it moves: it
// may be named, returned, or stored. It owns what it was made of; a modifier moves the awaitable
// into its result. A second await, pending or not, returns errc::operation_in_use and leaves the
// first as it was. After an await that started nothing (its result is the error of a start), the
// next one tries again. REQUIRES: it is neither moved nor destroyed while it is awaited, and all
// its awaits are made by one thread or in one strand.
#pragma once

#include <atomic>
#include <concepts>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stop_token>
#include <system_error>
#include <type_traits>
#include <utility>
#include <version>

#include "baton/coro/cancellation.hpp"
#include "baton/coro/task.hpp"
#include "baton/deadline.hpp"
#include "baton/export.hpp"
#include "baton/operation.hpp"
#include "baton/proactor.hpp"
#include "baton/result.hpp"

namespace baton::detail {

class OperationAwaiter;

/// Links one awaiter to a source of cancellation for the time that its operation runs.
class CancellationHook {
 public:
  CancellationHook() = default;
  CancellationHook(const CancellationHook&) = delete;
  CancellationHook& operator=(const CancellationHook&) = delete;
  /// Before the start; may call awaiter.request_cancel() at once.
  virtual void arm(OperationAwaiter& awaiter) noexcept = 0;
  /// After the completion, or when nothing was started. Afterwards the awaiter is not called.
  virtual void disarm() noexcept = 0;

 protected:
  ~CancellationHook() = default;
};

/// The part of an awaitable that does not depend on the request.
///
/// Without cancellation an await is a start and a resumption. With cancellation three threads may
/// meet: those that start, complete and cancel. `phase_` decides between them. Until the starter
/// has set `begun`, a canceller and a completion only set their flags, and the starter acts for
/// both. Afterwards the canceller cancels, and the completion disarms (then no canceller is inside)
/// and resumes. So no thread touches an awaiter that is gone, and no lock is held during a start.
class BATON_EXPORT OperationAwaiter {
 public:
  using keeps_task_context = void;
  OperationAwaiter(Proactor* proactor, Operation& operation) noexcept
      : proactor_(proactor), operation_(&operation) {}
  OperationAwaiter(const OperationAwaiter&) = delete;
  OperationAwaiter& operator=(const OperationAwaiter&) = delete;

  [[nodiscard]] bool await_ready() const noexcept { return false; }

  // For cancellation: any thread, between arm and disarm.
  void request_cancel() noexcept;
  /// Before the await; an await in progress keeps its own.
  void set_hook(CancellationHook& hook) noexcept {
    if (!operation_->is_pending()) hook_ = &hook;
  }

 protected:
  /// Takes the place of one that is not awaited yet.
  OperationAwaiter(OperationAwaiter&& other, Operation& operation) noexcept
      : OperationAwaiter(other.proactor_, operation) {}
  ~OperationAwaiter() = default;

  /// False: it is or was awaited already, and this await is refused.
  [[nodiscard]] bool may_begin() noexcept {
    if (operation_->state() == OperationState::initialized) [[likely]]
      return true;
    refused_ = true;
    return false;
  }
  /// Called as an await ends: true once for each one that was refused.
  [[nodiscard]] bool was_refused() noexcept {
    if (!refused_) [[likely]]
      return false;
    refused_ = false;
    return true;
  }

  enum class Begin : std::uint8_t {
    suspended,  ///< started; the awaiter may be gone
    finished,   ///< started and complete
    failed      ///< not started; the error is in the operation
  };
  /// Starts the prepared operation (posts one of kind user).
  Begin begin(std::coroutine_handle<> waiter, const TaskContext* context) noexcept {
    const bool cancellable =
        hook_ != nullptr || (context != nullptr && context->cancellation != nullptr);
    // A close, a timer, or posted work.
    const bool special = operation_->kind() >= OperationKind::close;
    if (cancellable || special) return begin_generally(waiter, context);
    operation_->set_strand(context != nullptr ? context->strand : nullptr);
    operation_->set_completion(resume, waiter.address());
    if (const std::error_code error = proactor_->start(*operation_)) {
      fail(error);
      return Begin::failed;
    }
    return Begin::suspended;
  }
  /// Records why nothing was started. REQUIRES: the operation is not pending.
  void fail(std::error_code error) noexcept;
  /// Before begin(): see TaskRefused.
  template <class Promise>
  static void count_start(std::coroutine_handle<Promise> waiter) noexcept {
    if constexpr (std::derived_from<Promise, TaskPromiseBase>) waiter.promise().count_start();
  }
  /// After a start that has failed: see TaskRefused.
  template <class Promise>
  void count_refusal(std::coroutine_handle<Promise> waiter) const {
    if constexpr (std::derived_from<Promise, TaskPromiseBase>) {
      waiter.promise().count_refusal(operation_->error());
    }
  }

  [[nodiscard]] Proactor* proactor() const noexcept { return proactor_; }
  [[nodiscard]] Operation& operation() noexcept { return *operation_; }

 private:
  enum Phase : std::uint8_t { begun = 1U << 0, asked = 1U << 1, complete = 1U << 2 };
  struct Node final : CancellationNode {
    explicit Node(OperationAwaiter& owner) noexcept;
    OperationAwaiter& awaiter;
  };
  // Made only when there is a token to link it to, which is rare.
  union PlaceOfNode {
    PlaceOfNode() noexcept {}
    Node node;
  };
  static_assert(std::is_trivially_destructible_v<Node>);

  static void resume(Operation& operation) {
    std::coroutine_handle<>::from_address(operation.context()).resume();
  }
  Begin begin_generally(std::coroutine_handle<> waiter, const TaskContext* context) noexcept;
  Begin begin_cancellable() noexcept;
  void disarm() noexcept;

  Proactor* proactor_;
  Operation* operation_;
  std::coroutine_handle<> waiter_;
  CancellationState* context_ = nullptr;  // the coroutine's own
  CancellationHook* hook_ = nullptr;      // cancel_with()
  PlaceOfNode node_;
  std::atomic<std::uint8_t> phase_{0};
  bool refused_ = false;
};

class BATON_EXPORT TokenHook final : public CancellationHook {
 public:
  explicit TokenHook(CancellationToken token) noexcept : token_(std::move(token)) {}
  TokenHook(TokenHook&& unarmed) noexcept : token_(std::move(unarmed.token_)) {}
  void arm(OperationAwaiter& awaiter) noexcept override;
  void disarm() noexcept override;

 private:
  struct Node final : CancellationNode {
    Node() noexcept;
    OperationAwaiter* awaiter = nullptr;
  };
  CancellationToken token_;
  Node node_;
};

// libc++ has std::stop_token since version 20; before, with -fexperimental-library only.
#ifdef __cpp_lib_jthread
class StopHook final : public CancellationHook {
 public:
  explicit StopHook(std::stop_token token) noexcept : token_(std::move(token)) {}
  StopHook(StopHook&& unarmed) noexcept : token_(std::move(unarmed.token_)) {}
  void arm(OperationAwaiter& awaiter) noexcept override { callback_.emplace(token_, Ask{awaiter}); }
  // The callback's destructor waits for one that runs on another thread.
  void disarm() noexcept override { callback_.reset(); }

 private:
  struct Ask {
    OperationAwaiter& awaiter;
    void operator()() const noexcept { awaiter.request_cancel(); }
  };
  std::stop_token token_;
  std::optional<std::stop_callback<Ask>> callback_;
};
#endif

/// The result of `.cancel_with(token)`: the awaitable and the hook that the token ends it by.
template <class Inner, class Hook>
class [[nodiscard("nothing is started until it is awaited")]] Cancellable {
 public:
  using keeps_task_context = void;
  template <class Token>
  Cancellable(Inner&& inner, Token&& token) noexcept
      : inner_(std::move(inner)), hook_(std::forward<Token>(token)) {}

  [[nodiscard]] bool await_ready() const noexcept { return false; }
  template <class Promise>
  bool await_suspend(std::coroutine_handle<Promise> waiter) {
    inner_.set_hook(hook_);
    return inner_.await_suspend(waiter);
  }
  auto await_resume() { return inner_.await_resume(); }

  Cancellable deadline(Deadline when) && noexcept {
    inner_.limit(when);
    return std::move(*this);
  }
  Cancellable timeout(AnyDuration span) && noexcept {
    inner_.limit(span);
    return std::move(*this);
  }

 private:
  Inner inner_;
  Hook hook_;
};

/// `.deadline()`, `.timeout()` and `.cancel_with()` of every awaitable.
template <class Derived>
class AwaiterModifiers : public OperationAwaiter {
 public:
  using OperationAwaiter::OperationAwaiter;

  /// Completes with errc::timed_out if it is not done by then.
  [[nodiscard]] Derived deadline(Deadline when) && noexcept {
    self().limit(when);
    return std::move(self());
  }
  /// The same, counted from now by the proactor's clock.
  [[nodiscard]] Derived timeout(AnyDuration span) && noexcept {
    self().limit(span);
    return std::move(self());
  }
  /// Completes with std::errc::operation_canceled when the token's source is cancelled.
  [[nodiscard]] Cancellable<Derived, TokenHook> cancel_with(CancellationToken token) && noexcept {
    return {std::move(self()), std::move(token)};
  }
#ifdef __cpp_lib_jthread
  [[nodiscard]] Cancellable<Derived, StopHook> cancel_with(std::stop_token token) && noexcept {
    return {std::move(self()), std::move(token)};
  }
#endif

  // For the modifiers.
  void limit(Deadline when) noexcept { operation().set_deadline(when); }
  void limit(AnyDuration span) noexcept {
    if (proactor() != nullptr) self().limit(Deadline::after(span, proactor()->now()));
  }

 private:
  Derived& self() noexcept { return static_cast<Derived&>(*this); }
};

/// The result of a transfer: how many bytes.
struct Bytes {
  TransferResult operator()(const Operation& operation) const noexcept {
    if (operation.failed()) return {unexpected{operation.error()}, operation.bytes()};
    return operation.bytes();
  }
};

/// The result of a request that moves no bytes.
struct NoBytes {
  Result<void> operator()(const Operation& operation) const noexcept {
    if (operation.failed()) return unexpected{operation.error()};
    return {};
  }
};

/// A request that can be awaited. Request: `std::error_code fill(Operation&)` prepares the
/// operation, `void undo(Operation&)` takes that back when it was not started. Finish: makes the
/// result of a complete operation.
template <class Request, class Finish>
class [[nodiscard("nothing is started until it is awaited")]] Awaitable final
    : public AwaiterModifiers<Awaitable<Request, Finish>> {
  using Base = AwaiterModifiers<Awaitable>;

 public:
  Awaitable(Proactor* proactor, Request request, Finish finish) noexcept
      : Base(proactor, operation_), request_(std::move(request)), finish_(std::move(finish)) {}
  /// REQUIRES: `other` is not awaited yet.
  Awaitable(Awaitable&& other) noexcept
      : Base(std::move(other), operation_),
        request_(std::move(other.request_)),
        finish_(std::move(other.finish_)) {
    operation_.set_deadline(other.operation_.deadline());
  }

  template <class Promise>
  bool await_suspend(std::coroutine_handle<Promise> waiter) {
    if (!this->may_begin()) return false;
    if (const std::error_code error = request_.fill(operation_)) {
      this->fail(error);
      return false;
    }
    this->count_start(waiter);
    switch (this->begin(waiter, context_of(waiter))) {
      case Base::Begin::suspended:
        return true;  // and *this may be gone
      case Base::Begin::failed:
        request_.undo(operation_);
        this->count_refusal(waiter);
        return false;
      case Base::Begin::finished:
        break;
    }
    return false;
  }
  decltype(auto) await_resume() {
    using Outcome = decltype(finish_(operation_));
    if (this->was_refused()) return Outcome{unexpected{make_error_code(errc::operation_in_use)}};
    return finish_(operation_);
  }

 private:
  Operation operation_;
  Request request_;
  [[no_unique_address]] Finish finish_;
};

}  // namespace baton::detail
