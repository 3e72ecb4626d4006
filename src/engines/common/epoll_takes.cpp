// epoll_ctl(2) with EPOLL_CTL_DEL checks whether the file can be polled (EPERM) before it checks
// whether the file is in the set (ENOENT). EPOLL_CTL_ADD would poll the file.
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
