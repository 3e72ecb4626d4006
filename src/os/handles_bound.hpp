// The number of handles to make room for: the configured one, or the system's limit. And the number
// that may be open now.
#pragma once

#include <sys/resource.h>

#include <algorithm>
#include <cstdint>

#include "baton/limits.hpp"
#include "os/system.hpp"

namespace baton::os {

/// `configured`, or the system's limit if that is 0.
inline std::uint32_t handles_bound(const System& system, std::uint32_t configured) noexcept {
  if (configured != 0) return configured;
  rlimit limit{};
  if (system.getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_max == RLIM_INFINITY) {
    return limits::handles_max;
  }
  // The hard limit, because programs may raise the soft limit after they have opened a proactor.
  return static_cast<std::uint32_t>(std::min<rlim_t>(limit.rlim_max, limits::handles_max));
}

/// `bound`, or the soft limit if that is less: programs may lower and raise it at any time.
inline std::uint32_t handles_bound_now(const System& system, std::uint32_t bound) noexcept {
  rlimit limit{};
  if (system.getrlimit(RLIMIT_NOFILE, &limit) != 0) return bound;
  return static_cast<std::uint32_t>(std::min<rlim_t>(limit.rlim_cur, bound));
}

}  // namespace baton::os
