// The real system calls, with the numbers of new descriptors raised.
#include "os/high_descriptors.hpp"

#include <fcntl.h>
#include <sys/resource.h>

#include <algorithm>

namespace baton::os {
namespace {

int raised(int descriptor) noexcept {
  if (descriptor < 0) return descriptor;
  const System& real = real_system();
  // EINVAL, EMFILE: no such number, or none left.
  const int high = real.fcntl(descriptor, F_DUPFD_CLOEXEC, high_number());
  if (high < 0) return descriptor;
  real.close(descriptor);
  return high;
}

// The library asks for close-on-exec with all of them.
System make_high() noexcept {
  System system = real_system();
  system.epoll_create1 = [](int flags) { return raised(real_system().epoll_create1(flags)); };
  system.eventfd = [](unsigned initial, int flags) {
    return raised(real_system().eventfd(initial, flags));
  };
  system.signalfd = [](int fd, const sigset_t* set, int flags) {
    const int answer = real_system().signalfd(fd, set, flags);
    return fd < 0 ? raised(answer) : answer;
  };
  system.io_uring_setup = [](unsigned entries, void* parameters) {
    return raised(real_system().io_uring_setup(entries, parameters));
  };
  system.pipe2 = [](int fds[2], int flags) {
    const int answer = real_system().pipe2(fds, flags);
    if (answer < 0) return answer;
    for (int end = 0; end < 2; ++end) fds[end] = raised(fds[end]);
    return 0;
  };
  return system;
}

}  // namespace

int high_number() noexcept {
  constexpr rlim_t highest = 4'096;
  constexpr rlim_t spare = 64;
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  const rlim_t end = std::min(limit.rlim_cur, highest);
  return static_cast<int>(end - std::min(spare, end / 4));
}

const System& high_system() noexcept {
  static const System high = make_high();
  return high;
}

}  // namespace baton::os
