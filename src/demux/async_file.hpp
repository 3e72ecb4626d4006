// Readiness by signal needs three settings of an open file: an owner (F_SETOWN_EX), a signal
// (F_SETSIG) and the flag O_ASYNC. They belong to the open file and not to the descriptor, so all
// duplicates share them, in other processes too.
#pragma once

#include <system_error>

#include "baton/handle.hpp"
#include "demux/signal_thread.hpp"
#include "os/system.hpp"

namespace baton::demux {

/// From now on `thread` gets `signal_number` when `fd` becomes ready. EBUSY: the file signals
/// already. ENOTSUP: it cannot signal (eventfd, regular files). ESRCH: the thread has ended. EBADF.
std::error_code arm(const os::System& system, NativeHandle fd, int signal_number,
                    SignalThread& thread) noexcept;

[[nodiscard]] bool is_armed(const os::System& system, NativeHandle fd) noexcept;

/// Undoes arm. Does nothing if `fd` is not armed: it was closed, or the number belongs to another
/// file now.
void disarm(const os::System& system, NativeHandle fd) noexcept;

}  // namespace baton::demux
