// Finds a thread of this process that does not block a signal, by /proc.
#pragma once

#include <optional>
#include <string>

#include "os/system.hpp"

namespace baton::engines::posix_aio {

struct OpenThread {
  int tid = 0;
  std::string name;  ///< its comm
};

/// The first thread that does not block the signal; nothing if all block it, or if /proc does not
/// tell. A thread that starts meanwhile inherits the mask of the thread that makes it. Throws
/// std::bad_alloc.
std::optional<OpenThread> thread_with_signal_open(const os::System& system, int signal_number);

}  // namespace baton::engines::posix_aio
