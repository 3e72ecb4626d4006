// The real system, which gives no descriptor for signals while a test says so: all numbers are
// used up.
#pragma once

#include <atomic>
#include <cerrno>

#include "os/system.hpp"

namespace baton::test {

inline std::atomic<bool> no_signalfd{false};

inline const os::System& without_signalfd() {
  static const os::System system = [] {
    os::System made = os::real_system();
    made.signalfd = [](int fd, const sigset_t* set, int flags) {
      if (no_signalfd) return errno = EMFILE, -1;
      return os::real_system().signalfd(fd, set, flags);
    };
    return made;
  }();
  return system;
}

}  // namespace baton::test
