// Waiting for time, and letting others run.
#pragma once

#include <algorithm>
#include <cstdint>
#include <system_error>

#include "baton/coro/awaitable.hpp"
#include "baton/deadline.hpp"
#include "baton/error.hpp"
#include "baton/operation.hpp"
#include "baton/proactor.hpp"
#include "baton/result.hpp"

namespace baton {
namespace detail {

struct SleepRequest {
  Deadline when;
  std::error_code fill(Operation& operation) const noexcept {
    const Deadline limit = operation.deadline();
    operation.prepare(OperationKind::timer, nullptr);
    operation.set_deadline(std::min(when, limit));
    operation.set_offset(limit < when ? ends_early : 0);
    return {};
  }
  void undo(Operation&) const noexcept {}

  static constexpr std::uint64_t ends_early = 1;
};

/// A sleep whose own deadline came first has timed out.
struct Slept {
  Result<void> operator()(const Operation& operation) const noexcept {
    if (!operation.failed() && operation.offset() == SleepRequest::ends_early) {
      return unexpected{make_error_code(errc::timed_out)};
    }
    return NoBytes{}(operation);
  }
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
  return detail::Awaitable<detail::SleepRequest, detail::Slept>{&proactor, {when}, {}};
}
/// The same, counted from now by the proactor's clock.
inline auto sleep_for(Proactor& proactor, AnyDuration span) noexcept {
  return sleep_until(proactor, Deadline::after(span, proactor.now()));
}

/// `co_await yield(proactor)`: resumes behind what is queued now, on any thread in run().
/// Result<void>; fails when the proactor is stopped.
inline auto yield(Proactor& proactor) noexcept {
  return detail::Awaitable<detail::YieldRequest, detail::NoBytes>{&proactor, {}, {}};
}

}  // namespace baton
