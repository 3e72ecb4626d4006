// Shared by the wait strategies: the remaining time, and errno as an error_code.
#pragma once

#include <cerrno>
#include <ctime>
#include <system_error>

#include "baton/deadline.hpp"
#include "os/system.hpp"

namespace baton::demux {

inline std::error_code system_error(int number = errno) noexcept {
  return {number, std::system_category()};
}

/// The time until `deadline`. REQUIRES: not never(). Reads the clock only if needed.
inline Duration time_left(const os::System& system, Deadline deadline) noexcept {
  if (deadline.ns() <= 0) return Duration{0};
  return deadline.remaining(Deadline::at_ns(system.monotonic_ns()));
}

/// A relative timeout for pselect and ppoll, which are exact to the nanosecond.
class Timeout {
 public:
  Timeout(const os::System& system, Deadline deadline) noexcept : for_ever_(deadline.is_never()) {
    if (for_ever_) return;
    const Duration left = time_left(system, deadline);
    left_.tv_sec = static_cast<time_t>(left.count() / ns_per_second);
    left_.tv_nsec = static_cast<long>(left.count() % ns_per_second);
  }
  [[nodiscard]] const timespec* get() const noexcept { return for_ever_ ? nullptr : &left_; }

 private:
  static constexpr std::int64_t ns_per_second = 1'000'000'000;
  const bool for_ever_;
  timespec left_{};
};

}  // namespace baton::demux
