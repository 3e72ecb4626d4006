// Polls one descriptor.
#pragma once

#include <time.h>

#include <cstdint>

#include "baton/handle.hpp"
#include "os/system.hpp"

namespace baton::engines {

/// poll(2) of one descriptor. Returns those of `events` (POLLIN, POLLOUT) that are present, errors
/// and hang-ups; 0 when none comes within `span` (null: for ever); or -1 and errno. One system
/// call, two where poll fails.
int look(const os::System& system, NativeHandle fd, short events, const timespec* span) noexcept;

/// Whether one of `events`, an error or a hang-up is present now.
bool ready_now(const os::System& system, NativeHandle fd, short events) noexcept;
/// Whether a read of this file would block for at least `span_ms`. Few files do so, such as
/// /proc/kmsg; all others are always ready. False as well when poll fails.
bool waits_for_data(const os::System& system, const Handle& file, std::uint32_t span_ms) noexcept;
/// Whether this is a timerfd whose reads end with ECANCELED when the clock is set
/// (TFD_TIMER_CANCEL_ON_SET). False as well without /proc. Three system calls.
bool tells_of_a_set_clock(const os::System& system, NativeHandle fd) noexcept;
/// RWF_NOSIGNAL, or 0 if writes do not take it (since Linux 6.18). Writes one byte into a pipe that
/// has a reader: harmless whatever the kernel makes of the flag.
int no_signal_flag(const os::System& system) noexcept;
/// Blocks the calling thread for `span_ms`, or less when poll fails.
void pause_for(const os::System& system, std::uint32_t span_ms) noexcept;

}  // namespace baton::engines
