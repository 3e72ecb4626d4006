// Removes the path of a UNIX socket that comes to nothing after it was bound.
#pragma once

#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cstring>

#include "os/system.hpp"

namespace baton::os {

/// `address` is the one that bind() took. An internet address, or one in the abstract namespace,
/// has no path.
inline void remove_path(const System& system, const void* address, socklen_t size) noexcept {
  constexpr std::size_t before = offsetof(sockaddr_un, sun_path);
  const auto* const local = static_cast<const sockaddr_un*>(address);
  if (size <= before || local->sun_family != AF_UNIX) return;
  // The longest path has no room for its NUL there.
  char path[sizeof(local->sun_path) + 1] = {};
  std::memcpy(path, local->sun_path, std::min(size - before, sizeof(local->sun_path)));
  if (path[0] != '\0') system.unlink(path);
}

}  // namespace baton::os
