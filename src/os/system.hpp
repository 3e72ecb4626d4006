// The seam: every system call, the clock, waiting on a word, and threads, as one table of plain
// functions (after SQLite's os_unix.c). A proactor holds a pointer to one table; tests fail the
// n-th call through it, and a simulator runs the whole library on fibers and virtual time. Calls
// have the C library's signatures, results and errno. The real table points straight at the C
// library, so a call through it costs what a call through the linker's table costs.
//
// A table is immutable while it is in use. There is no context argument: a replacement that
// needs one keeps it in a thread-local of its own (a simulator has one thread).
//
// Only types that every mechanism shares are complete here; epoll_event and the like are declared,
// and defined by the header of the mechanism in the mechanism's own source file.
#pragma once

#include <poll.h>
#include <signal.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>

#include <atomic>
#include <cstdint>

#include "baton/signal_mask.hpp"

struct aiocb;
struct epoll_event;
struct iocb;
struct io_event;
struct rlimit;

namespace baton {

namespace os {

struct System {
  // -- time, waiting on a word, threads -----------------------------------------------------------
  /// CLOCK_MONOTONIC in nanoseconds.
  std::int64_t (*monotonic_ns)();
  /// The same clock at the system's last tick, a few milliseconds ago: several times cheaper.
  std::int64_t (*monotonic_coarse_ns)();
  /// os::ticks() counts at a constant rate. False in a simulation.
  bool has_ticks;
  /// CLOCK_REALTIME in microseconds since 1970, for log lines only.
  std::int64_t (*realtime_us)();
  /// Sleeps while *word == expected, at most until deadline_ns of the monotonic clock (INT64_MAX:
  /// for ever). Returns false when the deadline passed; may wake spuriously.
  bool (*futex_wait)(std::atomic<std::uint32_t>* word, std::uint32_t expected,
                     std::int64_t deadline_ns);
  void (*futex_wake)(std::atomic<std::uint32_t>* word, std::uint32_t count);
  /// Lets other threads run.
  void (*yield)();
  /// Called before a mutex is taken, if set: a point where a simulator may switch threads.
  void (*lock_point)();
  /// Starts a thread with all signals blocked; 0 or an errno. join waits for its end.
  int (*thread_start)(std::uint64_t* thread, void (*entry)(void*), void* argument);
  void (*thread_join)(std::uint64_t thread);
  /// The calling thread in a form that kill_thread understands.
  std::uint64_t (*thread_self)();
  /// tgkill: a signal to one thread of this process. 0 or -1 with errno.
  int (*kill_thread)(std::uint64_t thread, int signal_number);
  pid_t (*getpid)();
  /// The processors that this process may use; at least 1.
  std::uint32_t (*usable_cores)();
  int (*getrlimit)(int resource, ::rlimit* limit);

  // -- descriptors --------------------------------------------------------------------------------
  ssize_t (*read)(int fd, void* buffer, size_t size);
  ssize_t (*write)(int fd, const void* buffer, size_t size);
  ssize_t (*readv)(int fd, const iovec* list, int count);
  ssize_t (*writev)(int fd, const iovec* list, int count);
  ssize_t (*preadv2)(int fd, const iovec* list, int count, off_t offset, int flags);
  ssize_t (*pwritev2)(int fd, const iovec* list, int count, off_t offset, int flags);
  int (*open)(const char* path, int flags, mode_t mode);
  int (*unlink)(const char* path);
  int (*close)(int fd);
  int (*fcntl)(int fd, int command, long argument);
  int (*fstat)(int fd, struct stat* out);
  /// 1 for a terminal, 0 for anything else.
  int (*isatty)(int fd);
  off_t (*lseek)(int fd, off_t offset, int whence);
  int (*fsync)(int fd);
  int (*fdatasync)(int fd);
  int (*pipe2)(int fds[2], int flags);
  int (*eventfd)(unsigned initial, int flags);
  /// Entries of a directory in the kernel's layout (struct dirent64).
  ssize_t (*getdents64)(int fd, void* buffer, size_t size);

  // -- sockets ------------------------------------------------------------------------------------
  int (*socket)(int domain, int type, int protocol);
  int (*socketpair)(int domain, int type, int protocol, int fds[2]);
  int (*bind)(int fd, const sockaddr* address, socklen_t size);
  int (*listen)(int fd, int backlog);
  int (*accept4)(int fd, sockaddr* address, socklen_t* size, int flags);
  int (*connect)(int fd, const sockaddr* address, socklen_t size);
  int (*shutdown)(int fd, int how);
  ssize_t (*recv)(int fd, void* buffer, size_t size, int flags);
  ssize_t (*send)(int fd, const void* buffer, size_t size, int flags);
  ssize_t (*recvfrom)(int fd, void* buffer, size_t size, int flags, sockaddr* from,
                      socklen_t* from_size);
  ssize_t (*sendto)(int fd, const void* buffer, size_t size, int flags, const sockaddr* to,
                    socklen_t to_size);
  ssize_t (*recvmsg)(int fd, msghdr* message, int flags);
  ssize_t (*sendmsg)(int fd, const msghdr* message, int flags);
  int (*getsockopt)(int fd, int level, int name, void* value, socklen_t* size);
  int (*setsockopt)(int fd, int level, int name, const void* value, socklen_t size);
  int (*getsockname)(int fd, sockaddr* address, socklen_t* size);
  int (*getpeername)(int fd, sockaddr* address, socklen_t* size);

  // -- readiness ----------------------------------------------------------------------------------
  int (*pselect)(int end, fd_set* in, fd_set* out, fd_set* error, const timespec* timeout,
                 const sigset_t* mask);
  int (*ppoll)(pollfd* list, nfds_t count, const timespec* timeout, const sigset_t* mask);
  int (*epoll_create1)(int flags);
  int (*epoll_ctl)(int epoll, int operation, int fd, epoll_event* event);
  /// Milliseconds, -1 for ever.
  int (*epoll_pwait)(int epoll, epoll_event* events, int count, int timeout, const sigset_t* mask);

  // -- the ring -----------------------------------------------------------------------------------
  int (*io_uring_setup)(unsigned entries, void* parameters);
  int (*io_uring_enter)(int ring, unsigned submit, unsigned complete, unsigned flags,
                        const void* argument, size_t size);
  int (*io_uring_register)(int ring, unsigned operation, const void* argument, unsigned count);
  void* (*mmap)(void* address, size_t size, int protection, int flags, int fd, off_t offset);
  int (*munmap)(void* address, size_t size);
  int (*madvise)(void* address, size_t size, int advice);

  // -- the kernel's native AIO: no wrappers in the C library -------------------------------------
  int (*io_setup)(unsigned slots, unsigned long* context);
  int (*io_submit)(unsigned long context, long count, iocb** list);
  /// A null timeout: for ever.
  int (*io_getevents)(unsigned long context, long least, long most, io_event* events,
                      timespec* timeout);
  int (*io_cancel)(unsigned long context, iocb* request, io_event* result);
  int (*io_destroy)(unsigned long context);

  // -- POSIX AIO ----------------------------------------------------------------------------------
  int (*aio_read)(aiocb* block);
  int (*aio_write)(aiocb* block);
  int (*aio_fsync)(int operation, aiocb* block);
  int (*aio_cancel)(int fd, aiocb* block);
  int (*aio_error)(const aiocb* block);
  ssize_t (*aio_return)(aiocb* block);
  int (*aio_suspend)(const aiocb* const list[], int count, const timespec* timeout);

  // -- signals ------------------------------------------------------------------------------------
  int (*thread_sigmask)(int how, const sigset_t* set, sigset_t* old);
  int (*sigaction)(int signal_number, const struct sigaction* action, struct sigaction* old);
  int (*signalfd)(int fd, const sigset_t* set, int flags);
  /// A signal to a process. A signal to our own process is never lost: if the user's queue is full,
  /// only the data that comes with it is.
  int (*kill)(pid_t process, int signal_number);
  int (*sigpending)(sigset_t* set);
  int (*sigtimedwait)(const sigset_t* set, siginfo_t* info, const timespec* timeout);
};

/// The real one: the C library and the kernel.
const System& real_system() noexcept;

/// `system`, or the real one when null.
inline const System& or_real(const System* system) noexcept {
  return system != nullptr ? *system : real_system();
}

}  // namespace os
}  // namespace baton
