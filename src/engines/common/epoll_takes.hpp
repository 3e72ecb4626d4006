// Whether the system can poll a file, asked without a look at it.
#pragma once

#include "baton/handle.hpp"
#include "os/system.hpp"

namespace baton::engines {

/// Whether epoll takes this descriptor: false for files that are always ready (regular files of
/// most file systems), true for those that have a poll of their own (FUSE, some of /proc), or when
/// the system does not tell. Three system calls, and none asks the file or its server.
bool epoll_takes(const os::System& system, NativeHandle fd) noexcept;

}  // namespace baton::engines
