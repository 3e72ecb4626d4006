// Whether the system can poll a file, found out without polling it.
#pragma once

#include "baton/handle.hpp"
#include "os/system.hpp"

namespace baton::engines {

/// Whether epoll accepts this descriptor. False for files that are always ready (regular files of
/// most file systems), true for files with a poll function of their own (FUSE, some of /proc), and
/// true when the system does not tell. Three system calls; none of them reaches the file or its
/// server.
bool epoll_takes(const os::System& system, NativeHandle fd) noexcept;

}  // namespace baton::engines
