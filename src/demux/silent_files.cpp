// An epoll set of the files that cannot signal.
#include "demux/silent_files.hpp"

#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/uninitialized.hpp"
#include "baton/limits.hpp"

namespace baton::demux {

std::error_code SilentFiles::add(NativeHandle fd, Interest interest) noexcept {
  if (descriptor() == invalid_handle) {
    // EMFILE, ENFILE, ENOMEM: limits. ENOSYS: a kernel without epoll.
    const int set = system_.epoll_create1(EPOLL_CLOEXEC);
    if (set < 0) return {errno, std::system_category()};
    set_.store(set, std::memory_order_release);
  }
  return control(EPOLL_CTL_ADD, fd, interest);
}

std::error_code SilentFiles::modify(NativeHandle fd, Interest interest) noexcept {
  return control(EPOLL_CTL_MOD, fd, interest);
}

// ENOENT, EBADF: closed by its owner.
void SilentFiles::remove(NativeHandle fd) noexcept {
  static_cast<void>(control(EPOLL_CTL_DEL, fd, Interest::none));
}

std::size_t SilentFiles::take(std::span<Ready> ready) noexcept {
  BATON_UNINITIALIZED std::array<epoll_event, limits::reports_max> events;
  const int count_max = static_cast<int>(std::min(ready.size(), events.size()));
  // EINTR is not possible without waiting. EBADF, EINVAL, EFAULT: only a bug.
  const int count = system_.epoll_pwait(descriptor(), events.data(), count_max, 0, nullptr);
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = events[static_cast<std::size_t>(i)];
    Ready& one = ready[static_cast<std::size_t>(i)];
    one = {event.data.fd, Interest::none};
    if ((event.events & EPOLLIN) != 0) one.what = one.what | Interest::in;
    if ((event.events & EPOLLOUT) != 0) one.what = one.what | Interest::out;
    if ((event.events & EPOLLPRI) != 0) one.what = one.what | Interest::urgent;
    if ((event.events & (EPOLLERR | EPOLLHUP)) != 0) one.what = one.what | Interest::both;
  }
  return static_cast<std::size_t>(std::max(count, 0));
}

void SilentFiles::close() noexcept {
  const int set = set_.exchange(invalid_handle, std::memory_order_acq_rel);
  if (set != invalid_handle) static_cast<void>(system_.close(set));
}

// EPERM: a file without readiness. ENOMEM, ENOSPC (/proc/sys/fs/epoll/max_user_watches): the
// caller's answer. EEXIST, EINVAL: only a bug.
std::error_code SilentFiles::control(int operation, NativeHandle fd, Interest interest) noexcept {
  epoll_event event{};
  event.events = EPOLLET;
  if (any(interest & Interest::in)) event.events |= EPOLLIN;
  if (any(interest & Interest::out)) event.events |= EPOLLOUT;
  if (any(interest & Interest::urgent)) event.events |= EPOLLPRI;
  event.data.fd = fd;
  if (system_.epoll_ctl(descriptor(), operation, fd, &event) == 0) return {};
  return {errno, std::system_category()};
}

}  // namespace baton::demux
