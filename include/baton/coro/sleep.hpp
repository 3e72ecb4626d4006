// Waiting for time, and letting others run.
#pragma once

#include <system_error>

#include "baton/coro/awaitable.hpp"
#include "baton/deadline.hpp"
#include "baton/operation.hpp"
#include "baton/proactor.hpp"

namespace baton {
namespace detail {

struct SleepRequest {
  Deadline when;
  std::error_code fill(Operation& operation) const noexcept {
    operation.prepare(OperationKind::timer, nullptr);
    operation.set_deadline(when);
    return {};
  }
  void undo(Operation&) const noexcept {}
};

struct YieldRequest {
  std::error_code fill(Operation& operation) const noexcept {
    operation.prepare(OperationKind::user, nullptr);
    return {};
  }
  void undo(Operation&) const noexcept {}
};

}  // namespace detail

/// `co_await sleep_until(proactor, when)`: Result<void>, an error only if it was cancelled or
/// refused.
inline auto sleep_until(Proactor& proactor, Deadline when) noexcept {
  return detail::Awaitable<detail::SleepRequest, detail::NoBytes>{&proactor, {when}, {}};
}
/// The same, counted from now by the proactor's clock.
inline auto sleep_for(Proactor& proactor, Duration span) noexcept {
  return sleep_until(proactor, Deadline::after(span, proactor.now()));
}

/// `co_await yield(proactor)`: goes on behind what is queued now, on any thread in run().
/// Result<void>; fails when the proactor is stopped.
inline auto yield(Proactor& proactor) noexcept {
  return detail::Awaitable<detail::YieldRequest, detail::NoBytes>{&proactor, {}, {}};
}

}  // namespace baton
