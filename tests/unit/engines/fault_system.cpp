#include "fault_system.hpp"

#include <errno.h>
#include <sys/uio.h>

#include <algorithm>
#include <vector>

#ifndef RWF_NOWAIT
#define RWF_NOWAIT 0x00000008
#endif

namespace baton::test {
namespace {

const os::System& real() { return os::real_system(); }

// The call, unless it is to fail.
template <class Function>
auto unless_failing(Call call, Function&& function) -> decltype(function()) {
  const int error = faults().enter(call);
  if (error != 0) {
    errno = error;
    return static_cast<decltype(function())>(-1);
  }
  return function();
}

std::vector<iovec> shortened(const iovec* list, std::size_t count) {
  std::size_t room = faults().shortened(SIZE_MAX);
  std::vector<iovec> kept;
  for (std::size_t i = 0; i < count && room > 0; ++i) {
    kept.push_back({list[i].iov_base, std::min(list[i].iov_len, room)});
    room -= kept.back().iov_len;
  }
  return kept;
}

msghdr shortened(const msghdr& message, std::vector<iovec>& list) {
  list = shortened(message.msg_iov, message.msg_iovlen);
  msghdr copy = message;
  copy.msg_iov = list.data();
  copy.msg_iovlen = list.size();
  return copy;
}

// The errors of a kernel or a file system for unknown flags, and for a cold cache.
int refused(int flags) {
  if ((flags & faults().refused_flags()) != 0) return EOPNOTSUPP;
  if ((flags & RWF_NOWAIT) != 0 && faults().is_cold()) return EAGAIN;
  if ((flags & RWF_NOWAIT) == 0) faults().pass_gate();
  return 0;
}

ssize_t preadv2_call(int fd, const iovec* list, int count, off_t offset, int flags) {
  return unless_failing(Call::preadv2, [&]() -> ssize_t {
    if (const int error = refused(flags)) return errno = error, -1;
    const auto kept = shortened(list, static_cast<std::size_t>(count));
    return real().preadv2(fd, kept.data(), static_cast<int>(kept.size()), offset, flags);
  });
}

ssize_t pwritev2_call(int fd, const iovec* list, int count, off_t offset, int flags) {
  if ((flags & RWF_NOWAIT) != 0 && faults().is_tried()) flags &= ~RWF_NOWAIT;
  return unless_failing(Call::pwritev2, [&]() -> ssize_t {
    if (const int error = refused(flags)) return errno = error, -1;
    const auto kept = shortened(list, static_cast<std::size_t>(count));
    return real().pwritev2(fd, kept.data(), static_cast<int>(kept.size()), offset, flags);
  });
}

void set_sockets(os::System& system) {
  system.recv = [](int fd, void* buffer, size_t size, int flags) {
    return unless_failing(Call::recv,
                          [&] { return real().recv(fd, buffer, faults().shortened(size), flags); });
  };
  system.send = [](int fd, const void* buffer, size_t size, int flags) {
    return unless_failing(Call::send, [&] {
      const ssize_t moved = real().send(fd, buffer, faults().shortened(size), flags);
      if (moved < 0) faults().send_has_failed();
      return moved;
    });
  };
  system.recvfrom = [](int fd, void* buffer, size_t size, int flags, sockaddr* from,
                       socklen_t* from_size) {
    return unless_failing(Call::recvfrom, [&] {
      return real().recvfrom(fd, buffer, faults().shortened(size), flags, from, from_size);
    });
  };
  system.sendto = [](int fd, const void* buffer, size_t size, int flags, const sockaddr* to,
                     socklen_t to_size) {
    return unless_failing(Call::sendto, [&] {
      return real().sendto(fd, buffer, faults().shortened(size), flags, to, to_size);
    });
  };
  system.recvmsg = [](int fd, msghdr* message, int flags) {
    return unless_failing(Call::recvmsg, [&] {
      std::vector<iovec> list;
      msghdr copy = shortened(*message, list);
      const ssize_t moved = real().recvmsg(fd, &copy, flags);
      message->msg_namelen = copy.msg_namelen;
      return moved;
    });
  };
  system.sendmsg = [](int fd, const msghdr* message, int flags) {
    return unless_failing(Call::sendmsg, [&] {
      std::vector<iovec> list;
      const msghdr copy = shortened(*message, list);
      return real().sendmsg(fd, &copy, flags);
    });
  };
  system.accept4 = [](int fd, sockaddr* address, socklen_t* size, int flags) {
    return unless_failing(Call::accept4, [&] { return real().accept4(fd, address, size, flags); });
  };
  system.connect = [](int fd, const sockaddr* address, socklen_t size) {
    return unless_failing(Call::connect, [&] {
      faults().pass_gate();
      return real().connect(fd, address, size);
    });
  };
  system.getsockopt = [](int fd, int level, int name, void* value, socklen_t* size) {
    return unless_failing(Call::getsockopt,
                          [&] { return real().getsockopt(fd, level, name, value, size); });
  };
}

void set_files(os::System& system) {
  system.read = [](int fd, void* buffer, size_t size) {
    return unless_failing(Call::read,
                          [&] { return real().read(fd, buffer, faults().shortened(size)); });
  };
  system.writev = [](int fd, const iovec* list, int count) {
    return unless_failing(Call::write, [&] {
      const auto kept = shortened(list, static_cast<std::size_t>(count));
      return real().writev(fd, kept.data(), static_cast<int>(kept.size()));
    });
  };
  system.preadv2 = preadv2_call;
  system.pwritev2 = pwritev2_call;
  system.fsync = [](int fd) {
    return unless_failing(Call::fsync, [&] {
      faults().pass_gate();
      return real().fsync(fd);
    });
  };
  system.close = [](int fd) {
    return unless_failing(Call::close, [&] { return real().close(fd); });
  };
}

void set_the_rest(os::System& system) {
  system.ppoll = [](pollfd* list, nfds_t count, const timespec* timeout, const sigset_t* mask) {
    return unless_failing(Call::ppoll, [&] { return real().ppoll(list, count, timeout, mask); });
  };
  system.epoll_ctl = [](int epoll, int operation, int fd, epoll_event* event) {
    return unless_failing(Call::epoll_ctl,
                          [&] { return real().epoll_ctl(epoll, operation, fd, event); });
  };
  system.epoll_pwait = [](int epoll, epoll_event* events, int count, int timeout,
                          const sigset_t* mask) {
    return unless_failing(Call::wait,
                          [&] { return real().epoll_pwait(epoll, events, count, timeout, mask); });
  };
  system.thread_start = [](std::uint64_t* thread, void (*entry)(void*), void* argument) {
    const int error = faults().enter(Call::thread_start);
    return error != 0 ? error : real().thread_start(thread, entry, argument);
  };
  system.thread_sigmask = [](int how, const sigset_t* set, sigset_t* old) {
    return unless_failing(Call::thread_sigmask,
                          [&] { return real().thread_sigmask(how, set, old); });
  };
}

}  // namespace

Faults& faults() {
  static auto& the_faults = *new Faults;
  return the_faults;
}

const os::System& fault_system() {
  static const os::System system = [] {
    os::System made = os::real_system();
    set_sockets(made);
    set_files(made);
    set_the_rest(made);
    return made;
  }();
  return system;
}

void Faults::clear() {
  for (auto& each : counts_) each = 0;
  for (auto& each : failing_) each.error = 0, each.spared = 0, each.times = 0;
  cut_ = 0;
  refused_flags_ = 0;
  cold_ = false;
  before_try_ = nullptr;
  after_failed_send_ = nullptr;
  open_gate();
}

void Faults::fail(Call call, int error, unsigned times, unsigned spared) {
  Failing& failing = failing_[index(call)];
  failing.error = error;
  failing.spared = spared;
  failing.times = times;
}

int Faults::enter(Call call) {
  ++counts_[index(call)];
  Failing& failing = failing_[index(call)];
  if (failing.spared > 0) return --failing.spared, 0;
  if (failing.times == 0) return 0;
  --failing.times;
  return failing.error;
}

std::uint64_t Faults::all() const {
  std::uint64_t total = 0;
  for (const auto& each : counts_) total += each;
  return total;
}

void Faults::close_gate() {
  const std::scoped_lock lock(mutex_);
  gate_closed_ = true;
  passes_ = 0;
}

void Faults::open_gate(unsigned count) {
  const std::scoped_lock lock(mutex_);
  passes_ += count;
  changed_.notify_all();
}

void Faults::open_gate() {
  const std::scoped_lock lock(mutex_);
  gate_closed_ = false;
  changed_.notify_all();
}

void Faults::until_at_gate(unsigned count) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return at_gate_ >= count; });
}

void Faults::pass_gate() {
  std::unique_lock lock(mutex_);
  if (!gate_closed_) return;
  ++at_gate_;
  changed_.notify_all();
  changed_.wait(lock, [&] { return !gate_closed_ || passes_ > 0; });
  if (gate_closed_) --passes_;
  --at_gate_;
}

}  // namespace baton::test
