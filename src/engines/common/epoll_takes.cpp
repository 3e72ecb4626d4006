// A set refuses what it could not take (EPERM) before it finds that there is nothing to remove
// (ENOENT), in epoll_ctl(2). Adding the file would poll it.
#include "engines/common/epoll_takes.hpp"

#include <errno.h>
#include <sys/epoll.h>

namespace baton::engines {

bool epoll_takes(const os::System& system, NativeHandle fd) noexcept {
  const int set = system.epoll_create1(EPOLL_CLOEXEC);
  if (set < 0) return true;
  epoll_event nothing{};
  const bool refused = system.epoll_ctl(set, EPOLL_CTL_DEL, fd, &nothing) != 0 && errno == EPERM;
  static_cast<void>(system.close(set));
  return !refused;
}

}  // namespace baton::engines
