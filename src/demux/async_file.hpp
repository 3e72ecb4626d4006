// The three things an open file needs to tell of its readiness by signal: an owner (F_SETOWN_EX), a
// signal (F_SETSIG) and the flag O_ASYNC. They belong to the open file, not to the descriptor: all
// duplicates share them, in other processes too.
#pragma once

#include <system_error>

#include "baton/handle.hpp"
#include "demux/signal_thread.hpp"
#include "os/system.hpp"

namespace baton::demux {

/// From now on `thread` gets `signal_number` when `fd` becomes ready. EBUSY: it tells somebody
/// already. ENOTSUP: it cannot (eventfd, regular files). ESRCH: the thread has ended. EBADF.
std::error_code arm(const os::System& system, NativeHandle fd, int signal_number,
                    SignalThread& thread) noexcept;

[[nodiscard]] bool is_armed(const os::System& system, NativeHandle fd) noexcept;

/// What arm has set is as it was. Nothing is done when `fd` is not armed: it has been closed, or is
/// another file by now.
void disarm(const os::System& system, NativeHandle fd) noexcept;

}  // namespace baton::demux
