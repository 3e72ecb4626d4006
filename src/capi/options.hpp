// Socket options by number.
#pragma once

#include <cstddef>

#include "baton.h"
#include "os/system.hpp"

namespace baton::capi {

/// 0 or the system's error.
int set_option(const os::System& system, int descriptor, const baton_option& option) noexcept;

/// The option makes close wait for unsent data, or ends that.
bool is_linger(const baton_option& option) noexcept;
/// REQUIRES: is_linger(option).
bool close_waits(const baton_option& option) noexcept;

}  // namespace baton::capi
