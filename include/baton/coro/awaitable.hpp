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
/// meet: those that start, complete and cancel. `Meeting::phase` decides between them. Until the
/// starter has set `begun`, a canceller and a completion only set their flags, and the starter acts
/// for both. Afterwards the canceller cancels, and the completion disarms (then no canceller is
/// inside) and resumes. So no thread touches an awaiter that is gone, and no lock is held during a
/// start.
class BATON_EXPORT OperationAwaiter {
 public:
  using keeps_task_context = void;
  explicit OperationAwaiter(Proactor* proactor) noexcept : proactor_(proactor) {}
  OperationAwaiter(const OperationAwaiter&) = delete;
  OperationAwaiter& operator=(const OperationAwaiter&) = delete;

  [[nodiscard]] bool await_ready() const noexcept { return false; }

  // For cancellation: any thread, between arm and disarm.
  void request_cancel() noexcept;

 protected:
  /// Takes the place of one that is not awaited yet.
  OperationAwaiter(OperationAwaiter&& other) noexcept : OperationAwaiter(other.proactor_) {}
  ~OperationAwaiter() = default;

  /// False: it is or was awaited already, and this await is refused.
  [[nodiscard]] bool may_begin() noexcept {
    const bool first = await_ == Await::none;
    await_ = first ? Await::begun : Await::refused;
    return first;
  }
  /// Called as an await ends: true once for each one that was refused.
  [[nodiscard]] bool was_refused() noexcept {
    if (await_ != Await::refused) [[likely]]
      return false;
    await_ = Await::begun;
    return true;
  }

  enum class Begin : std::uint8_t {
    suspended,  ///< started; the awaiter may be gone
    finished,   ///< started and complete
    failed      ///< not started; the error is in the operation
  };
  [[nodiscard]] bool cancellable(const TaskContext* context) const noexcept {
    return hook_ != nullptr || (context != nullptr && context->cancellation != nullptr);
  }
  /// Starts a prepared request. REQUIRES: not cancellable().
  std::error_code start(Operation& operation, std::coroutine_handle<> waiter,
                        const TaskContext* context) noexcept {
    operation.set_strand(context != nullptr ? context->strand : nullptr);
    operation.set_completion(resume, waiter.address());
    return proactor_->start(operation);
  }
  /// Starts any prepared operation; posts one of kind user.
  Begin begin_generally(Operation& operation, std::coroutine_handle<> waiter,
                        const TaskContext* context) noexcept;
  /// Records why nothing was started. REQUIRES: the operation is not pending.
  [[gnu::cold]] void fail(Operation& operation, std::error_code error) noexcept;
  /// Before begin(): see TaskRefused.
  template <class Promise>
  static void count_start(std::coroutine_handle<Promise> waiter) noexcept {
    if constexpr (std::derived_from<Promise, TaskPromiseBase>) waiter.promise().count_start();
  }
  /// After a start that has failed: see TaskRefused.
  template <class Promise>
  static void count_refusal(const Operation& operation, std::coroutine_handle<Promise> waiter) {
    if constexpr (std::derived_from<Promise, TaskPromiseBase>) {
      waiter.promise().count_refusal(operation.error());
    }
  }

  [[nodiscard]] Proactor* proactor() const noexcept { return proactor_; }
  void set_hook(CancellationHook& hook) noexcept { hook_ = &hook; }

 private:
  /// `refused` only from the start to the end of the second await.
  enum class Await : std::uint8_t { none, begun, refused };
  enum Phase : std::uint8_t { begun = 1U << 0, asked = 1U << 1, complete = 1U << 2 };
  struct Meeting final : CancellationNode {
    Meeting(OperationAwaiter& owner, Operation& awaited, std::coroutine_handle<> waiting,
            CancellationState* own) noexcept;
    std::atomic<std::uint8_t> phase{0};
    OperationAwaiter& awaiter;
    Operation& operation;
    std::coroutine_handle<> waiter;
    CancellationState* context;  // the coroutine's own; null: it has none
  };
  // Made only for an await with cancellation, which is rare.
  union PlaceOfMeeting {
    PlaceOfMeeting() noexcept {}
    Meeting meeting;
  };
  static_assert(std::is_trivially_destructible_v<Meeting>);

  static void resume(Operation& operation) {
    std::coroutine_handle<>::from_address(operation.context()).resume();
  }
  Begin begin_cancellable(Meeting& meeting) noexcept;
  void disarm(Meeting& meeting) noexcept;

  CancellationHook* hook_ = nullptr;  // cancel_with()
  Proactor* proactor_;
  Await await_ = Await::none;
  PlaceOfMeeting place_;
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
  void limit(Deadline when) noexcept { self().operation().set_deadline(when); }
  void limit(AnyDuration span) noexcept {
    if (proactor() != nullptr) self().limit(Deadline::after(span, proactor()->now()));
  }
  /// Before the await; an await in progress keeps its own.
  void set_hook(CancellationHook& hook) noexcept {
    if (!self().operation().is_pending()) OperationAwaiter::set_hook(hook);
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
      : Base(proactor), request_(std::move(request)), finish_(std::move(finish)) {}
  /// REQUIRES: `other` is not awaited yet.
  Awaitable(Awaitable&& other) noexcept
      : Base(std::move(other)),
        request_(std::move(other.request_)),
        finish_(std::move(other.finish_)) {
    operation_.set_deadline(other.operation_.deadline());
  }

  template <class Promise>
  bool await_suspend(std::coroutine_handle<Promise> waiter) {
    if (!this->may_begin()) return false;
    if (const std::error_code error = request_.fill(operation_)) {
      this->fail(operation_, error);
      return false;
    }
    this->count_start(waiter);
    switch (this->begin_generally(operation_, waiter, context_of(waiter))) {
      case Base::Begin::suspended:
        return true;  // and *this may be gone
      case Base::Begin::failed:
        request_.undo(operation_);
        this->count_refusal(operation_, waiter);
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
  /// For the modifiers.
  [[nodiscard]] Operation& operation() noexcept { return operation_; }

 private:
  Operation operation_;
  Request request_;
  [[no_unique_address]] Finish finish_;
};

}  // namespace baton::detail
