// A program, or a library before this one, may have functions in place of libc's: hooks that track
// descriptors by number, a clock that shows another time, or functions of another kind that happen
// to have such a name. The system's AIO never calls them. A keeper has a table of its own, in which
// number 7 is unrelated to the program's 7. A wait until a time of the program's clock might never
// end, since the kernel has its own. So in these libraries (ld --wrap) such calls go directly to
// the kernel, as those of a ring do. None is a cancellation point.
//
// ThreadSanitizer has such hooks, too. It is told here what memory the kernel has written.
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <gnu/lib-names.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdarg>
#include <cstddef>

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define UAIO_TSAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define UAIO_TSAN 1
#endif

#ifdef UAIO_TSAN
extern "C" void __tsan_write_range(void* address, unsigned long size);
#endif

namespace {

void note_written([[maybe_unused]] void* address, [[maybe_unused]] std::size_t size) noexcept {
#ifdef UAIO_TSAN
  __tsan_write_range(address, size);
#endif
}

constexpr std::size_t mask_size = 8;  // the kernel's sigset_t

template <class... Arguments>
int call(long number, Arguments... arguments) noexcept {
  return static_cast<int>(::syscall(number, arguments...));
}

ssize_t note(ssize_t moved, void* buffer) noexcept {
  if (moved > 0) note_written(buffer, static_cast<std::size_t>(moved));
  return moved;
}

ssize_t note(ssize_t moved, const iovec* list, std::size_t count) noexcept {
  auto left = static_cast<std::size_t>(std::max<ssize_t>(moved, 0));
  for (std::size_t i = 0; i < count && left > 0; ++i) {
    const std::size_t here = std::min(left, list[i].iov_len);
    note_written(list[i].iov_base, here);
    left -= here;
  }
  return moved;
}

/// libc's own function, for what is more than a system call. It is looked up when the library is
/// loaded: dlsym takes a lock.
template <class Function>
Function* own_of_libc(const char* name) noexcept {
  void* const libc = ::dlopen(LIBC_SO, RTLD_LAZY | RTLD_NOLOAD);
  return libc != nullptr ? reinterpret_cast<Function*>(::dlsym(libc, name)) : nullptr;
}
using Clock = int(clockid_t, timespec*);
using Clone = int(int (*)(void*), void*, int, void*, ...);
constinit Clock* clock_of_libc = nullptr;
constinit Clone* clone_of_libc = nullptr;

[[gnu::constructor]] void load() {
  clock_of_libc = own_of_libc<Clock>("clock_gettime");
  clone_of_libc = own_of_libc<Clone>("clone");
}

}  // namespace

extern "C" {

// -- the process and the time ---------------------------------------------------------------------

/// libc reads the clock without a system call.
int __wrap_clock_gettime(clockid_t clock, timespec* time) {
  return clock_of_libc != nullptr ? clock_of_libc(clock, time)
                                  : call(SYS_clock_gettime, clock, time);
}
int __wrap_clone(int (*function)(void*), void* stack, int flags, void* argument, ...) {
  if (clone_of_libc != nullptr) return clone_of_libc(function, stack, flags, argument);
  errno = ENOSYS;
  return -1;
}
pid_t __wrap_getpid() { return call(SYS_getpid); }
pid_t __wrap_getpgrp() { return call(SYS_getpgid, 0); }
uid_t __wrap_getuid() { return static_cast<uid_t>(::syscall(SYS_getuid)); }
int __wrap_unshare(int flags) { return call(SYS_unshare, flags); }

// -- numbers come and go --------------------------------------------------------------------------

int __wrap_open(const char* path, int flags, ...) {
  std::va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return call(SYS_openat, AT_FDCWD, path, flags, mode);
}
int __wrap_close(int fd) { return call(SYS_close, fd); }
int __wrap_dup2(int fd, int other) { return fd == other ? fd : call(SYS_dup3, fd, other, 0); }
int __wrap_pipe2(int fds[2], int flags) { return call(SYS_pipe2, fds, flags); }
int __wrap_eventfd(unsigned initial, int flags) { return call(SYS_eventfd2, initial, flags); }
int __wrap_signalfd(int fd, const sigset_t* mask, int flags) {
  return call(SYS_signalfd4, fd, mask, mask_size, flags);
}
int __wrap_epoll_create1(int flags) { return call(SYS_epoll_create1, flags); }
int __wrap_socket(int domain, int type, int protocol) {
  return call(SYS_socket, domain, type, protocol);
}
int __wrap_socketpair(int domain, int type, int protocol, int fds[2]) {
  return call(SYS_socketpair, domain, type, protocol, fds);
}
int __wrap_accept4(int fd, sockaddr* address, socklen_t* size, int flags) {
  return call(SYS_accept4, fd, address, size, flags);
}

#ifdef UAIO_TSAN
/// Mapping anonymous memory first makes ThreadSanitizer forget what was at these addresses.
void* __real_mmap(void* address, std::size_t size, int protection, int flags, int fd, off_t offset);
void* __wrap_mmap(void* address, std::size_t size, int protection, int flags, int fd,
                  off_t offset) {
  if (fd < 0) return __real_mmap(address, size, protection, flags, fd, offset);
  void* const place = __real_mmap(address, size, PROT_NONE,
                                  MAP_PRIVATE | MAP_ANONYMOUS | (flags & MAP_FIXED), -1, 0);
  if (place == MAP_FAILED) return MAP_FAILED;
  const long mapped = ::syscall(SYS_mmap, place, size, protection, flags | MAP_FIXED, fd, offset);
  if (mapped == -1) {
    const int error = errno;
    ::munmap(place, size);
    errno = error;
  }
  return reinterpret_cast<void*>(mapped);
}
#endif

// -- numbers are used -----------------------------------------------------------------------------

/// libc makes one of the two calls, which one depends on its version, and a filter may allow no
/// other.
int __wrap_fstat(int fd, struct stat* status) {
  const int answer = call(SYS_fstat, fd, status);
  if (answer == 0 || (errno != ENOSYS && errno != EPERM)) return answer;
  return call(SYS_newfstatat, fd, "", status, AT_EMPTY_PATH);
}
int __wrap_fstatfs(int fd, struct statfs* status) { return call(SYS_fstatfs, fd, status); }
off_t __wrap_lseek(int fd, off_t offset, int from) {
  return ::syscall(SYS_lseek, fd, offset, from);
}
int __wrap_fsync(int fd) { return call(SYS_fsync, fd); }
int __wrap_fdatasync(int fd) { return call(SYS_fdatasync, fd); }
int __wrap_fcntl(int fd, int command, ...) {
  std::va_list rest;
  va_start(rest, command);
  void* const argument = va_arg(rest, void*);
  va_end(rest);
  return call(SYS_fcntl, fd, command, argument);
}
int __wrap_ioctl(int fd, unsigned long command, ...) {
  std::va_list rest;
  va_start(rest, command);
  void* const argument = va_arg(rest, void*);
  va_end(rest);
  return call(SYS_ioctl, fd, command, argument);
}
/// The kernel's structure is the beginning of libc's. The speeds behind it stay as they were.
int __wrap_tcgetattr(int fd, termios* modes) { return call(SYS_ioctl, fd, TCGETS, modes); }
int __wrap_isatty(int fd) {
  termios modes{};
  return __wrap_tcgetattr(fd, &modes) == 0 ? 1 : 0;
}
int __wrap_getsockopt(int fd, int level, int option, void* value, socklen_t* size) {
  return call(SYS_getsockopt, fd, level, option, value, size);
}
int __wrap_setsockopt(int fd, int level, int option, const void* value, socklen_t size) {
  return call(SYS_setsockopt, fd, level, option, value, size);
}
int __wrap_getsockname(int fd, sockaddr* address, socklen_t* size) {
  return call(SYS_getsockname, fd, address, size);
}
int __wrap_getpeername(int fd, sockaddr* address, socklen_t* size) {
  return call(SYS_getpeername, fd, address, size);
}
int __wrap_shutdown(int fd, int how) { return call(SYS_shutdown, fd, how); }
/// The kernel stores the remaining time.
int __wrap_ppoll(pollfd* list, nfds_t count, const timespec* timeout, const sigset_t* mask) {
  timespec left{};
  if (timeout != nullptr) left = *timeout;
  return call(SYS_ppoll, list, count, timeout != nullptr ? &left : nullptr, mask, mask_size);
}
int __wrap_poll(pollfd* list, nfds_t count, int milliseconds) {
  const timespec time{milliseconds / 1'000, milliseconds % 1'000 * 1'000'000L};
  return __wrap_ppoll(list, count, milliseconds < 0 ? nullptr : &time, nullptr);
}
int __wrap_pselect(int count, fd_set* reads, fd_set* writes, fd_set* errors,
                   const timespec* timeout, const sigset_t* mask) {
  timespec left{};
  if (timeout != nullptr) left = *timeout;
  const struct {
    const sigset_t* mask;
    std::size_t size;
  } blocked{mask, mask_size};
  return call(SYS_pselect6, count, reads, writes, errors, timeout != nullptr ? &left : nullptr,
              &blocked);
}
int __wrap_nanosleep(const timespec* time, timespec* left) {
  return call(SYS_nanosleep, time, left);
}
int __wrap_bind(int fd, const sockaddr* address, socklen_t size) {
  return call(SYS_bind, fd, address, size);
}
int __wrap_listen(int fd, int backlog) { return call(SYS_listen, fd, backlog); }
int __wrap_connect(int fd, const sockaddr* address, socklen_t size) {
  return call(SYS_connect, fd, address, size);
}
int __wrap_epoll_ctl(int epoll, int operation, int fd, epoll_event* event) {
  return call(SYS_epoll_ctl, epoll, operation, fd, event);
}
int __wrap_epoll_pwait(int epoll, epoll_event* events, int count, int timeout,
                       const sigset_t* mask) {
  const int ready = call(SYS_epoll_pwait, epoll, events, count, timeout, mask, mask_size);
  if (ready > 0) note_written(events, static_cast<std::size_t>(ready) * sizeof(*events));
  return ready;
}

ssize_t __wrap_read(int fd, void* buffer, std::size_t size) {
  return note(::syscall(SYS_read, fd, buffer, size), buffer);
}
ssize_t __wrap_readv(int fd, const iovec* list, int count) {
  return note(::syscall(SYS_readv, fd, list, count), list, static_cast<std::size_t>(count));
}
ssize_t __wrap_preadv2(int fd, const iovec* list, int count, off_t offset, int flags) {
  return note(::syscall(SYS_preadv2, fd, list, count, offset, 0L, flags), list,
              static_cast<std::size_t>(count));
}
ssize_t __wrap_preadv(int fd, const iovec* list, int count, off_t offset) {
  return note(::syscall(SYS_preadv, fd, list, count, offset, 0L), list,
              static_cast<std::size_t>(count));
}
ssize_t __wrap_recv(int fd, void* buffer, std::size_t size, int flags) {
  return note(::syscall(SYS_recvfrom, fd, buffer, size, flags, nullptr, nullptr), buffer);
}
ssize_t __wrap_recvfrom(int fd, void* buffer, std::size_t size, int flags, sockaddr* from,
                        socklen_t* from_size) {
  return note(::syscall(SYS_recvfrom, fd, buffer, size, flags, from, from_size), buffer);
}
ssize_t __wrap_recvmsg(int fd, msghdr* message, int flags) {
  return note(::syscall(SYS_recvmsg, fd, message, flags), message->msg_iov, message->msg_iovlen);
}

ssize_t __wrap_write(int fd, const void* buffer, std::size_t size) {
  return ::syscall(SYS_write, fd, buffer, size);
}
ssize_t __wrap_writev(int fd, const iovec* list, int count) {
  return ::syscall(SYS_writev, fd, list, count);
}
ssize_t __wrap_pwritev2(int fd, const iovec* list, int count, off_t offset, int flags) {
  return ::syscall(SYS_pwritev2, fd, list, count, offset, 0L, flags);
}
ssize_t __wrap_pwritev(int fd, const iovec* list, int count, off_t offset) {
  return ::syscall(SYS_pwritev, fd, list, count, offset, 0L);
}
ssize_t __wrap_send(int fd, const void* buffer, std::size_t size, int flags) {
  return ::syscall(SYS_sendto, fd, buffer, size, flags, nullptr, 0);
}
ssize_t __wrap_sendto(int fd, const void* buffer, std::size_t size, int flags, const sockaddr* to,
                      socklen_t to_size) {
  return ::syscall(SYS_sendto, fd, buffer, size, flags, to, to_size);
}
ssize_t __wrap_sendmsg(int fd, const msghdr* message, int flags) {
  return ::syscall(SYS_sendmsg, fd, message, flags);
}

}  // extern "C"
