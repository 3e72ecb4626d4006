// Timer: waits until a point in time, again and again, one wait at a time. It has an operation of
// its own: starting it allocates nothing.
//
//   Timer timer{proactor};
//   timer.wait_for(1s, [&](Operation& op) { if (!op.failed()) tick(); });
//   co_await timer.wait_for(1s);
//
// A timer without an object, on the caller's operation, is Proactor::start_timer; for a coroutine
// that only wants to sleep there is sleep_for (coro/sleep.hpp).
#pragma once

#include <algorithm>
#include <atomic>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <new>
#include <system_error>
#include <type_traits>
#include <utility>

#include "baton/coro/awaitable.hpp"
#include "baton/deadline.hpp"
#include "baton/error.hpp"
#include "baton/io_object.hpp"
#include "baton/limits.hpp"
#include "baton/operation.hpp"
#include "baton/proactor.hpp"
#include "baton/result.hpp"

namespace baton {

class Timer {
 public:
  explicit Timer(Proactor& proactor) noexcept : proactor_(proactor) {}
  /// REQUIRES: no wait is pending: cancel it, and let its completion come.
  ~Timer() = default;
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  /// Completes without error at `when`, or as cancelled. The handler, a callable void(Operation&)
  /// of at most limits::cached_handler_size bytes, is moved out before it runs: it may start the
  /// next wait, and destroy the timer. errc::operation_in_use while a wait is pending; else as
  /// Proactor::start.
  template <detail::CachedHandler Handler>
  [[nodiscard]] std::error_code wait_until(Deadline when, Handler&& handler) noexcept {
    if (is_pending()) return make_error_code(errc::operation_in_use);
    emplace(std::forward<Handler>(handler));
    operation_.set_strand(strand_);  // an await may have left its own there
    const std::error_code error = start(operation_, when);
    if (error) destroy_(*this);
    return error;
  }
  /// wait_until, counted from now by the proactor's clock.
  template <detail::CachedHandler Handler>
  [[nodiscard]] std::error_code wait_for(AnyDuration span, Handler&& handler) noexcept {
    return wait_until(from_now(span), std::forward<Handler>(handler));
  }
  /// On an operation of the caller, beside the timer's own wait; cancelled by
  /// Proactor::cancel(operation).
  template <detail::OwnedHandler Handler = detail::KeepHandler>
  [[nodiscard]] std::error_code wait_until(Operation& operation, Deadline when,
                                           Handler handler = {}) noexcept {
    if (operation.is_pending()) return make_error_code(errc::operation_in_use);
    if constexpr (!std::same_as<Handler, detail::KeepHandler>) operation.set_handler(handler);
    return start(operation, when);
  }
  template <detail::OwnedHandler Handler = detail::KeepHandler>
  [[nodiscard]] std::error_code wait_for(Operation& operation, AnyDuration span,
                                         Handler handler = {}) noexcept {
    return wait_until(operation, from_now(span), handler);
  }

  /// `co_await timer.wait_until(when)`: Result<void>.
  class Wait;
  [[nodiscard]] Wait wait_until(Deadline when) noexcept;
  [[nodiscard]] Wait wait_for(AnyDuration span) noexcept;

  /// The strand of its handlers (not of coroutines, which have their own). Null: none.
  void set_strand(Strand* strand) noexcept { strand_ = strand; }
  /// Ends the pending wait early. Any thread.
  CancelResult cancel() noexcept { return proactor_.cancel(operation_); }
  /// Whether a wait is pending; any thread.
  [[nodiscard]] bool is_pending() const noexcept { return operation_.is_pending(); }
  /// The point in time of the last wait; never() before the first. Any thread.
  [[nodiscard]] Deadline expires() const noexcept {
    return expires_.load(std::memory_order_relaxed);
  }
  /// The proactor whose clock and threads it uses.
  [[nodiscard]] Proactor& proactor() const noexcept { return proactor_; }

 private:
  // An operation that knows the way back to its timer.
  struct Own final : Operation {
    explicit Own(Timer& owner) noexcept : timer(owner) {}
    Timer& timer;
  };

  [[nodiscard]] Deadline from_now(AnyDuration span) const noexcept {
    return Deadline::after(span, proactor_.now());
  }
  std::error_code start(Operation& operation, Deadline when) noexcept {
    expires_.store(when, std::memory_order_relaxed);
    return proactor_.start_timer(operation, when);
  }

  template <class Handler>
  void emplace(Handler&& handler) noexcept {
    using Stored = std::decay_t<Handler>;
    detail::check_that_storing_cannot_throw<Handler>();
    static_assert(sizeof(Stored) <= limits::cached_handler_size &&
                      alignof(Stored) <= alignof(std::max_align_t),
                  "the handler is too large for a timer: capture a pointer");
    ::new (static_cast<void*>(handler_)) Stored(std::forward<Handler>(handler));
    destroy_ = [](Timer& self) { self.stored<Stored>().~Stored(); };
    operation_.set_completion([](Operation& operation) {
      Timer& self = static_cast<Own&>(operation).timer;
      Stored moved = std::move(self.stored<Stored>());
      self.stored<Stored>().~Stored();
      moved(operation);  // self may be gone afterwards
    });
  }
  template <class Stored>
  Stored& stored() noexcept {
    return *std::launder(reinterpret_cast<Stored*>(handler_));
  }

  Proactor& proactor_;
  Own operation_{*this};
  std::atomic<Deadline> expires_{Deadline::never()};
  Strand* strand_ = nullptr;
  void (*destroy_)(Timer&) = nullptr;
  alignas(std::max_align_t) std::byte handler_[limits::cached_handler_size];
};

/// The awaitable of wait_until(): nothing is started until it is awaited.
class [[nodiscard("nothing is started until it is awaited")]] Timer::Wait final
    : public detail::AwaiterModifiers<Timer::Wait> {
 public:
  Wait(Timer& timer, Deadline when) noexcept
      : AwaiterModifiers(&timer.proactor_), timer_(timer), when_(when) {}
  /// REQUIRES: `other` is not awaited yet.
  Wait(Wait&& other) noexcept
      : AwaiterModifiers(std::move(other)),
        timer_(other.timer_),
        when_(other.when_),
        limit_(other.limit_) {}

  template <class Promise>
  bool await_suspend(std::coroutine_handle<Promise> waiter) {
    if (awaited_ || timer_.is_pending()) {
      in_use_ = true;
      return false;
    }
    awaited_ = true;
    timer_.expires_.store(when_, std::memory_order_relaxed);
    operation().prepare(OperationKind::timer, nullptr);
    operation().set_deadline(std::min(when_, limit_));
    count_start(waiter);
    // When it is suspended, *this may be gone.
    const Begin outcome = begin_generally(operation(), waiter, detail::context_of(waiter));
    if (outcome == Begin::failed) {
      awaited_ = false;
      count_refusal(operation(), waiter);
    }
    return outcome == Begin::suspended;
  }
  Result<void> await_resume() noexcept {
    if (std::exchange(in_use_, false)) return unexpected{make_error_code(errc::operation_in_use)};
    if (!operation().failed() && limit_ < when_) {
      return unexpected{make_error_code(errc::timed_out)};
    }
    return detail::NoBytes{}(operation());
  }

  // For the modifiers. The timer's operation may be pending for another wait.
  using AwaiterModifiers::limit;
  /// For .timeout() and .deadline().
  void limit(Deadline when) noexcept { limit_ = when; }
  /// For the modifiers.
  [[nodiscard]] Operation& operation() noexcept { return timer_.operation_; }

 private:
  Timer& timer_;
  Deadline when_;
  Deadline limit_ = Deadline::never();
  bool awaited_ = false;  // and not refused: it was started
  bool in_use_ = false;
};

inline Timer::Wait Timer::wait_until(Deadline when) noexcept { return Wait{*this, when}; }
inline Timer::Wait Timer::wait_for(AnyDuration span) noexcept {
  return Wait{*this, from_now(span)};
}

}  // namespace baton
