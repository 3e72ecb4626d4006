// Whether a descriptor is a listening socket.
#pragma once

#include <sys/socket.h>

#include "baton/handle.hpp"
#include "os/system.hpp"

namespace baton::os {

/// One system call. False as well for a descriptor that is no socket.
inline bool listens(const System& system, NativeHandle native) noexcept {
  int yes = 0;
  socklen_t size = sizeof(yes);
  return system.getsockopt(native, SOL_SOCKET, SO_ACCEPTCONN, &yes, &size) == 0 && yes != 0;
}

}  // namespace baton::os
