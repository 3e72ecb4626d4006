// Which thread of this process would be hit by a signal, as /proc knows it.
#pragma once

#include <optional>
#include <string>

#include "os/system.hpp"

namespace baton::engines::posix_aio {

struct OpenThread {
  int tid = 0;
  std::string name;  ///< its comm
};

/// The first thread that leaves the signal unblocked; nothing when all block it, or when /proc does
/// not tell. Threads that begin meanwhile have the mask of the thread that made them. Throws
/// std::bad_alloc.
std::optional<OpenThread> thread_with_signal_open(const os::System& system, int signal_number);

}  // namespace baton::engines::posix_aio
