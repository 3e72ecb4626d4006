#include "shared_inodes.hpp"

#include <sys/epoll.h>
#include <unistd.h>

#include <cerrno>

namespace baton::ace {

SharedInodes::~SharedInodes() {
  if (set_ != -1) ::close(set_);
}

int SharedInodes::add(int fildes) noexcept {
  const std::lock_guard guard{mutex_};
  if (set_ == -1) set_ = ::epoll_create1(EPOLL_CLOEXEC);
  if (set_ == -1) return errno;  // EMFILE, ENFILE, ENOMEM
  epoll_event nothing{};
  if (::epoll_ctl(set_, EPOLL_CTL_ADD, fildes, &nothing) == 0) return 0;
  // EEXIST: it was added before. EPERM: nothing can wait for such a file, and nothing can be read.
  return errno == EEXIST || errno == EPERM ? 0 : errno;
}

bool SharedInodes::knows(int fildes) noexcept {
  const std::lock_guard guard{mutex_};
  epoll_event nothing{};
  return ::epoll_ctl(set_, EPOLL_CTL_MOD, fildes, &nothing) == 0 || errno != ENOENT;
}

}  // namespace baton::ace
