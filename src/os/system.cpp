// The real system-call table.
#include "os/system.hpp"

#include <aio.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <new>

#include "os/direct_calls.hpp"
#include "os/fork.hpp"
#include "os/ticks.hpp"

namespace baton::os {
namespace {

constexpr std::int64_t ns_per_second = 1'000'000'000;
constexpr std::int64_t never_ns = std::numeric_limits<std::int64_t>::max();

std::int64_t monotonic_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * ns_per_second + now.tv_nsec;
}

std::int64_t monotonic_coarse_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return now.tv_sec * ns_per_second + now.tv_nsec;
}

std::int64_t realtime_us() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return now.tv_sec * 1'000'000 + now.tv_nsec / 1'000;
}

bool futex_wait(std::atomic<std::uint32_t>* word, std::uint32_t expected,
                std::int64_t deadline_ns) {
  timespec deadline{};
  timespec* timeout = nullptr;
  if (deadline_ns != never_ns) {
    // A time before the machine's boot is in the past, but the kernel answers EINVAL to it.
    const std::int64_t when = std::max<std::int64_t>(deadline_ns, 0);
    deadline.tv_sec = when / ns_per_second;
    deadline.tv_nsec = when % ns_per_second;
    timeout = &deadline;
  }
  // FUTEX_WAIT_BITSET takes an absolute time of the monotonic clock, so that nothing is recomputed
  // after a spurious wake-up.
  const long result = ::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(word),
                                FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, expected, timeout, nullptr,
                                FUTEX_BITSET_MATCH_ANY);
  return result == 0 || errno != ETIMEDOUT;
}

void futex_wake(std::atomic<std::uint32_t>* word, std::uint32_t count) {
  ::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(word), FUTEX_WAKE | FUTEX_PRIVATE_FLAG,
            count, nullptr, nullptr, 0);
}

struct Entry {
  void (*function)(void*);
  void* argument;
};

void* run_entry(void* argument) {
  const Entry entry = *std::unique_ptr<Entry>(static_cast<Entry*>(argument));
  entry.function(entry.argument);
  return nullptr;
}

int thread_start(std::uint64_t* thread, void (*function)(void*), void* argument) {
  std::unique_ptr<Entry> entry{new (std::nothrow) Entry{function, argument}};
  if (entry == nullptr) return ENOMEM;
  // The library's own threads take no signal of the program. All signals are blocked before the
  // thread exists, so that there is no moment in which one could be delivered to it. But where
  // SIGTTIN is blocked, a read of its terminal does not stop a process in the background: it fails
  // with EIO. So SIGTTIN and SIGTTOU are as in the thread that starts this one.
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, nullptr, &before);
  for (const int signal_number : {SIGTTIN, SIGTTOU}) {
    if (::sigismember(&before, signal_number) == 0) ::sigdelset(&all, signal_number);
  }
  ::pthread_sigmask(SIG_SETMASK, &all, nullptr);
  pthread_t id{};
  const int error = ::pthread_create(&id, nullptr, run_entry, entry.get());
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (error != 0) return error;
  static_cast<void>(entry.release());  // the thread owns it now
  *thread = static_cast<std::uint64_t>(id);
  return 0;
}

void thread_join(std::uint64_t thread) { ::pthread_join(static_cast<pthread_t>(thread), nullptr); }

// The kernel's number of this thread. Kept, because a program that drives a proactor by single
// calls needs it several times in each.
struct Number {
  pid_t thread;
  std::uint32_t forks;
};
// Every thread that asks for its own number stores it, the same one until a fork.
constinit std::atomic<pid_t> process_number{0};

pid_t own_number() {
  static constinit thread_local Number number{0, ~0U};
  if (number.forks != fork_generation()) {
    number.thread = static_cast<pid_t>(::syscall(SYS_gettid));
    process_number.store(::getpid(), std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_release);  // for a handler that comes in between
    number.forks = fork_generation();
  }
  return number.thread;
}

std::uint64_t thread_self() { return static_cast<std::uint64_t>(own_number()); }

int kill_thread(std::uint64_t thread, int signal_number) {
  own_number();  // in the child of a fork the process has another number, too
  return static_cast<int>(::syscall(SYS_tgkill, process_number.load(std::memory_order_relaxed),
                                    static_cast<pid_t>(thread), signal_number));
}

int wait_in_epoll(int epoll, epoll_event* events, int count, int timeout, const sigset_t* mask) {
  if (!direct::calls_directly) return ::epoll_pwait(epoll, events, count, timeout, mask);
  return static_cast<int>(
      direct::call(SYS_epoll_pwait, epoll, events, count, timeout, mask, _NSIG / 8));
}

// Without flags the older calls do the same, and filters that refuse the newer ones know them.
ssize_t read_list(int fd, const iovec* list, int count, off_t offset, int flags) {
  if (flags != 0) return ::preadv2(fd, list, count, offset, flags);
  return offset == -1 ? ::readv(fd, list, count) : ::preadv(fd, list, count, offset);
}
ssize_t write_list(int fd, const iovec* list, int count, off_t offset, int flags) {
  if (flags != 0) return ::pwritev2(fd, list, count, offset, flags);
  return offset == -1 ? ::writev(fd, list, count) : ::pwritev(fd, list, count, offset);
}

int fcntl_long(int fd, int command, long argument) { return ::fcntl(fd, command, argument); }
int open_mode(const char* path, int flags, mode_t mode) { return ::open(path, flags, mode); }
int eventfd_unsigned(unsigned initial, int flags) { return ::eventfd(initial, flags); }

int io_uring_setup(unsigned entries, void* parameters) {
  return static_cast<int>(::syscall(SYS_io_uring_setup, entries, parameters));
}
int io_uring_enter(int ring, unsigned submit, unsigned complete, unsigned flags,
                   const void* argument, size_t size) {
  return static_cast<int>(
      ::syscall(SYS_io_uring_enter, ring, submit, complete, flags, argument, size));
}
int io_uring_register(int ring, unsigned operation, const void* argument, unsigned count) {
  return static_cast<int>(::syscall(SYS_io_uring_register, ring, operation, argument, count));
}

int io_setup(unsigned slots, unsigned long* context) {
  return static_cast<int>(::syscall(SYS_io_setup, slots, context));
}
int io_submit(unsigned long context, long count, iocb** list) {
  return static_cast<int>(::syscall(SYS_io_submit, context, count, list));
}
int io_getevents(unsigned long context, long least, long most, io_event* events,
                 timespec* timeout) {
  return static_cast<int>(::syscall(SYS_io_getevents, context, least, most, events, timeout));
}
int io_cancel(unsigned long context, iocb* request, io_event* result) {
  return static_cast<int>(::syscall(SYS_io_cancel, context, request, result));
}
int io_destroy(unsigned long context) {
  return static_cast<int>(::syscall(SYS_io_destroy, context));
}

int sigaction_call(int number, const struct sigaction* action, struct sigaction* old) {
  return ::sigaction(number, action, old);
}

std::uint32_t usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  return static_cast<std::uint32_t>(std::max(CPU_COUNT(&set), 1));
}

int getrlimit_of(int resource, ::rlimit* limit) {
  return ::getrlimit(static_cast<__rlimit_resource_t>(resource), limit);
}

// pthread_cancel acts nowhere inside the library: its functions are noexcept, and unwinding them
// ends the program. So the calls that are cancellation points are made while the thread cannot be
// cancelled. A request that comes meanwhile acts in the program's own code. (The calls of `direct`
// are no cancellation points.)
template <auto function>
struct KeptOn;
template <class Result, class... Arguments, Result (*function)(Arguments...)>
struct KeptOn<function> {
  static Result call(Arguments... arguments) {
    struct Disabled {
      Disabled() { ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before); }
      ~Disabled() { ::pthread_setcancelstate(before, nullptr); }
      int before = PTHREAD_CANCEL_ENABLE;
    } const disabled;
    return function(arguments...);
  }
};
template <auto function>
constexpr auto kept_on = KeptOn<function>::call;
template <auto function>
constexpr auto direct_or_kept_on = direct::calls_directly ? function : kept_on<function>;

System make_real() noexcept {
  System system{};
  system.monotonic_ns = monotonic_ns;
  system.monotonic_coarse_ns = monotonic_coarse_ns;
  system.has_ticks = ticks_are_even();
  system.realtime_us = realtime_us;
  system.futex_wait = futex_wait;
  system.futex_wake = futex_wake;
  system.yield = [] { ::sched_yield(); };
  system.lock_point = nullptr;
  system.thread_start = thread_start;
  system.thread_join = kept_on<thread_join>;
  system.thread_self = thread_self;
  system.kill_thread = kill_thread;
  system.getpid = ::getpid;
  system.usable_cores = usable_cores;
  system.getrlimit = getrlimit_of;
  system.read = direct_or_kept_on<direct::read_some>;
  system.write = direct_or_kept_on<direct::write_some>;
  system.readv = kept_on<::readv>;
  system.writev = kept_on<::writev>;
  system.preadv2 = kept_on<read_list>;
  system.pwritev2 = kept_on<write_list>;
  system.open = kept_on<open_mode>;
  system.unlink = ::unlink;
  system.close = kept_on<::close>;
  system.fcntl = fcntl_long;
  system.fstat = ::fstat;
  system.isatty = ::isatty;
  system.lseek = ::lseek;
  system.fsync = kept_on<::fsync>;
  system.fdatasync = kept_on<::fdatasync>;
  system.pipe2 = ::pipe2;
  system.eventfd = eventfd_unsigned;
  system.getdents64 = ::getdents64;
  system.socket = ::socket;
  system.socketpair = ::socketpair;
  system.bind = ::bind;
  system.listen = ::listen;
  system.accept4 = kept_on<::accept4>;
  system.connect = kept_on<::connect>;
  system.shutdown = ::shutdown;
  system.recv = direct_or_kept_on<direct::receive>;
  system.send = direct_or_kept_on<direct::send_some>;
  system.recvfrom = direct_or_kept_on<direct::receive_from>;
  system.sendto = direct_or_kept_on<direct::send_to>;
  system.recvmsg = direct_or_kept_on<direct::receive_message>;
  system.sendmsg = direct_or_kept_on<direct::send_message>;
  system.getsockopt = ::getsockopt;
  system.setsockopt = ::setsockopt;
  system.getsockname = ::getsockname;
  system.getpeername = ::getpeername;
  system.pselect = kept_on<::pselect>;
  system.ppoll = kept_on<::ppoll>;
  system.epoll_create1 = ::epoll_create1;
  system.epoll_ctl = ::epoll_ctl;
  system.epoll_pwait = direct_or_kept_on<wait_in_epoll>;
  system.io_uring_setup = io_uring_setup;
  system.io_uring_enter = io_uring_enter;
  system.io_uring_register = io_uring_register;
  system.io_setup = io_setup;
  system.io_submit = io_submit;
  system.io_getevents = io_getevents;
  system.io_cancel = io_cancel;
  system.io_destroy = io_destroy;
  system.mmap = ::mmap;
  system.munmap = ::munmap;
  system.madvise = ::madvise;
  system.aio_read = ::aio_read;
  system.aio_write = ::aio_write;
  system.aio_fsync = ::aio_fsync;
  system.aio_cancel = ::aio_cancel;
  system.aio_error = ::aio_error;
  system.aio_return = ::aio_return;
  system.aio_suspend = kept_on<::aio_suspend>;
  system.thread_sigmask = ::pthread_sigmask;
  system.sigaction = sigaction_call;
  system.signalfd = ::signalfd;
  system.kill = ::kill;
  system.sigpending = ::sigpending;
  system.sigtimedwait = kept_on<::sigtimedwait>;
  return system;
}

}  // namespace

const System& real_system() noexcept {
  static const System real = make_real();
  return real;
}

}  // namespace baton::os
