#include "odd_files.hpp"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "at_once.hpp"
#include "files.hpp"
#include "size_limit.hpp"

namespace uaio {
namespace {

/// The master side of a pseudo-terminal. It reports the modes and the foreground of the other side,
/// which mean nothing for its own reads.
bool is_master(int native) noexcept {
  int packets = 0;
  return ::ioctl(native, TIOCGPKT, &packets) == 0;
}

/// A transfer of no bytes may wait all the same: inotify and /dev/kmsg wait for an event, and a
/// terminal for its other readers or writers.
bool may_wait_for_nothing(const Request& request, const struct stat& status) noexcept {
  const bool is_device = S_ISCHR(status.st_mode);
  if (!reads(request.action)) {
    return is_device && ::isatty(request.descriptor->native) == 1 && is_unready(request);
  }
  return is_device || is_nameless(status) || (S_ISREG(status.st_mode) && is_unready(request));
}

struct Buffers {
  explicit Buffers(const Request& request) noexcept
      : whole{request.data, request.size},
        list(is_vectored(request.action) ? static_cast<const iovec*>(request.data) : &whole),
        count(is_vectored(request.action) ? static_cast<int>(request.size) : 1) {}
  const iovec whole;
  const iovec* const list;
  const int count;
};

}  // namespace

bool may_need_thread(const Request& request, const struct stat& status) noexcept {
  if (S_ISCHR(status.st_mode)) return ::isatty(request.fildes) == 1;
  return !reads(request.action) &&
         (S_ISREG(status.st_mode) || S_ISBLK(status.st_mode) || S_ISDIR(status.st_mode));
}

bool reads_in_background(const Request& request, const struct stat& status) noexcept {
  const int native = request.descriptor->native;
  pid_t foreground = 0;
  return S_ISCHR(status.st_mode) && reads(request.action) &&
         ::ioctl(native, TIOCGPGRP, &foreground) == 0 && foreground != ::getpgrp() &&
         !is_master(native);
}

int error_of_listener(const Request& request, const struct stat& status) noexcept {
  int listens = 0;
  socklen_t size = sizeof(listens);
  const int native = request.descriptor->native;
  if (!S_ISSOCK(status.st_mode) || !reads(request.action) ||
      ::getsockopt(native, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 || listens == 0) {
    return 0;
  }
  char nothing = 0;
  return ::recv(native, &nothing, sizeof(nothing), MSG_DONTWAIT) < 0 ? errno : 0;
}

bool is_nameless(const struct stat& status) noexcept { return (status.st_mode & S_IFMT) == 0; }

bool is_unready(const Request& request) noexcept {
  const short event = reads(request.action) ? POLLIN : POLLOUT;
  pollfd state{request.descriptor->native, event, 0};
  return !request.descriptor->on_disk && !syncs(request.action) && ::poll(&state, 1, 0) == 0;
}

bool moves_nothing(const Request& request, const struct stat& status, ssize_t& moved) noexcept {
  if (syncs(request.action) || is_vectored(request.action) || request.size != 0) return false;
  if (may_wait_for_nothing(request, status)) return false;
  const int native = request.descriptor->native;
  if (reads(request.action)) {
    moved = ::read(native, request.data, 0);
  } else if (S_ISSOCK(status.st_mode)) {
    moved = ::send(native, request.data, 0, MSG_DONTWAIT | MSG_NOSIGNAL);
  } else {
    moved = ::write(native, request.data, 0);
  }
  return moved >= 0 || errno != EAGAIN;
}

baton::Deadline end_of_wait(const Request& request) noexcept {
  const int option = reads(request.action) ? SO_RCVTIMEO : SO_SNDTIMEO;
  timeval time{};
  socklen_t size = sizeof(time);
  if (::getsockopt(request.descriptor->native, SOL_SOCKET, option, &time, &size) != 0 ||
      (time.tv_sec == 0 && time.tv_usec == 0)) {
    return baton::Deadline::never();
  }
  return baton::Deadline::after(std::chrono::seconds{time.tv_sec} +
                                std::chrono::microseconds{time.tv_usec});
}

int tenths_of_wait(const Request& request) noexcept {
  termios modes{};
  if (request.descriptor->kind != baton::HandleKind::pipe || !reads(request.action) ||
      ::tcgetattr(request.descriptor->native, &modes) != 0 || (modes.c_lflag & ICANON) != 0 ||
      modes.c_cc[VMIN] != 0 || is_master(request.descriptor->native)) {
    return -1;
  }
  return modes.c_cc[VTIME];
}

ssize_t move_now(const Request& request) noexcept {
  const Buffers buffers{request};
  const int native = request.descriptor->native;
  const auto offset = static_cast<off_t>(request.offset);
  if (reads(request.action)) return ::preadv(native, buffers.list, buffers.count, offset);
  const ssize_t moved = ::pwritev(native, buffers.list, buffers.count, offset);
  if (moved >= 0 || errno != ESPIPE) return moved;
  return ::writev(native, buffers.list, buffers.count);  // such a file has no places
}

bool answers_at_once(const Request& request, ssize_t& moved) noexcept {
  const Buffers buffers{request};
  if (request.action == Action::write && request.size < sizeof(std::uint64_t)) {
    moved = move_now(request);
    return true;
  }
  char byte = 0;
  const iovec too_few{&byte, 1};
  const iovec* const list = request.size == 0 ? &too_few : buffers.list;
  const int native = request.descriptor->native;
  moved = reads(request.action)
              ? ::preadv2(native, list, std::max(buffers.count, 1), -1, RWF_NOWAIT)
              : ::pwritev2(native, buffers.list, buffers.count, -1, RWF_NOWAIT);
  return moved >= 0 || (errno != EAGAIN && errno != EOPNOTSUPP && errno != ENOSYS &&
                        errno != EPERM && errno != EINTR);
}

bool answers_unready(const Request& request) noexcept {
  if (!request.descriptor->regular || !is_unready(request)) return false;
  constexpr long mqueue_magic = 0x1980'0202;
  struct statfs system{};
  return writes(request.action) ||
         (::fstatfs(request.descriptor->native, &system) == 0 && system.f_type == mqueue_magic);
}

bool is_beyond_limit(const Request& request) noexcept {
  const Transfer transfer{request.descriptor->native,
                          request.descriptor->flags,
                          request.action,
                          request.data,
                          request.size,
                          static_cast<std::int64_t>(request.offset),
                          request.size};
  return writes(request.action) && look_up_size_limit(transfer) == SizeLimit::exceeded;
}

bool reads_terminal_now(const Request& request, ssize_t& moved) noexcept {
  const Buffers buffers{request};
  char path[40];
  static_cast<void>(
      std::snprintf(path, sizeof(path), "/proc/thread-self/fd/%d", request.descriptor->native));
  const int again = ::open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  const int terminal = again >= 0 ? again : request.descriptor->native;
  moved = ::readv(terminal, buffers.list, buffers.count);
  const int error = errno;
  if (again >= 0) ::close(again);
  errno = error;
  return moved >= 0 || error != EAGAIN;
}

}  // namespace uaio
