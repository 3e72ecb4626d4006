// One look at one descriptor.
#pragma once

#include <time.h>

#include <cstdint>

#include "baton/handle.hpp"
#include "os/system.hpp"

namespace baton::engines {

/// As poll(2) of one descriptor: what is there, of `events` (POLLIN, POLLOUT), errors and hang-ups;
/// 0 when there is nothing within `span` (null: for ever); or -1 and errno. One system call.
int look(const os::System& system, NativeHandle fd, short events, const timespec* span) noexcept;

/// Whether one of `events`, an error or a hang-up is there now.
bool ready_now(const os::System& system, NativeHandle fd, short events) noexcept;
/// Whether a read of this file would block, and would go on doing so for `span_ms`: few files do,
/// such as /proc/kmsg, and all others are always ready. False, too, where the look fails.
bool waits_for_data(const os::System& system, const Handle& file, std::uint32_t span_ms) noexcept;
/// Whether it is a timerfd whose reads end with ECANCELED when the clock is set
/// (TFD_TIMER_CANCEL_ON_SET). False, too, without /proc. Three system calls.
bool tells_of_a_set_clock(const os::System& system, NativeHandle fd) noexcept;
/// Blocks the calling thread for `span_ms`; shorter where poll fails.
void pause_for(const os::System& system, std::uint32_t span_ms) noexcept;

}  // namespace baton::engines
