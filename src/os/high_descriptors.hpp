// High numbers for the library's own descriptors: for a library with a proactor inside any program.
// A program takes the lowest free number for its own descriptors, and closes or overwrites low ones
// before it starts another program.
#pragma once

#include "os/system.hpp"

namespace baton::os {

/// The lowest number for them: 64 below the end of the table (RLIMIT_NOFILE), or a quarter of a
/// small one, and 4,032 at most, because the kernel's table grows with the highest number.
int high_number() noexcept;

/// The real system, except that new rings, epoll sets, eventfds, signalfds and pipes get numbers
/// from high_number() on, as long as there are any. Each has the lowest free number for a moment
/// first.
const System& high_system() noexcept;

}  // namespace baton::os
