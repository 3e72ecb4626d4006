// A hook replaces each call of the table. It consults the plan and calls the real function.
//
// Some of the library's calls are made by threads that ThreadSanitizer does not track
// (BATON_TSAN_FOREIGN_THREAD). So nothing that a hook calls may be instrumented: the plan is plain
// data accessed with the compiler's atomic builtins.
#include "failing_system.hpp"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <memory>
#include <ostream>
#include <type_traits>

#include "base/tsan.hpp"

#define FOREIGN BATON_TSAN_FOREIGN_THREAD

namespace baton::test {
namespace {

using os::System;

constexpr std::size_t calls_max = 64;
constexpr std::size_t descriptors_max = 65'536;

// A copy, since the accessor of the real table is instrumented.
const System real = os::real_system();

// -- the plan -------------------------------------------------------------------------------------

struct Plan {
  int armed = 0;
  int everybody = 0;
  std::size_t call = calls_max;
  std::size_t nth = 0;
  std::size_t last = 0;
  int error = 0;
  std::size_t seen = 0;
  std::size_t hits = 0;
  std::array<std::size_t, calls_max> counts{};
};
Plan plan;
thread_local int planned_here = 0;

char of_the_library[descriptors_max];  // see OpensProactor
int opening = 0;
long mappings = 0;
long threads = 0;
long contexts = 0;

template <class T>
FOREIGN T read_of(const T& word) {
  return __atomic_load_n(&word, __ATOMIC_ACQUIRE);
}
template <class T>
FOREIGN void write_to(T& word, T value) {
  __atomic_store_n(&word, value, __ATOMIC_RELEASE);
}
template <class T>
FOREIGN T add_to(T& word, T value) {
  return __atomic_add_fetch(&word, value, __ATOMIC_ACQ_REL);
}

FOREIGN bool is_of_the_library(int fd) {
  return fd >= 0 && static_cast<std::size_t>(fd) < descriptors_max &&
         read_of(of_the_library[fd]) != 0;
}
FOREIGN void note_descriptor(int fd, bool own) {
  if (fd < 0 || static_cast<std::size_t>(fd) >= descriptors_max) return;
  write_to(of_the_library[fd], static_cast<char>(own ? 1 : 0));
}

// -- particular calls -----------------------------------------------------------------------------

/// possible: can the call fail in this way with these arguments? done: it carries out the call for,
/// and reports the error all the same. note: keeps account of the real call.
struct Plain {
  template <class... A>
  FOREIGN static bool possible(int, A...) {
    return true;
  }
  static constexpr bool done = false;
};
template <auto Member>
struct Rule : Plain {};

FOREIGN bool nonblocking(int fd) { return (::fcntl(fd, F_GETFL) & O_NONBLOCK) != 0; }

/// The library's own eventfd or pipe: a full one is no lost wake-up, an empty one nothing new.
template <>
struct Rule<&System::read> : Plain {
  FOREIGN static bool possible(int error, int fd, void*, size_t size) {
    if (error == EAGAIN) return nonblocking(fd);
    if (is_of_the_library(fd)) return error == EINTR;
    return error != cut_short || size > 1;
  }
  FOREIGN static ssize_t cut(int fd, void* buffer, size_t) { return real.read(fd, buffer, 1); }
};
template <>
struct Rule<&System::write> : Plain {
  FOREIGN static bool possible(int error, int fd, const void*, size_t size) {
    if (is_of_the_library(fd)) return false;
    return error != cut_short || size > 1;
  }
  FOREIGN static ssize_t cut(int fd, const void* buffer, size_t) {
    return real.write(fd, buffer, 1);
  }
};

FOREIGN bool can_be_cut(const iovec* list, int count) {
  return count > 0 && list[0].iov_len > 0 && (count > 1 || list[0].iov_len > 1);
}
FOREIGN iovec first_byte(const iovec* list) { return {list[0].iov_base, 1}; }

template <>
struct Rule<&System::readv> : Plain {
  FOREIGN static bool possible(int error, int, const iovec* list, int count) {
    return error != cut_short || can_be_cut(list, count);
  }
  FOREIGN static ssize_t cut(int fd, const iovec* list, int) {
    const iovec one = first_byte(list);
    return real.readv(fd, &one, 1);
  }
};
template <>
struct Rule<&System::writev> : Plain {
  FOREIGN static bool possible(int error, int, const iovec* list, int count) {
    return error != cut_short || can_be_cut(list, count);
  }
  FOREIGN static ssize_t cut(int fd, const iovec* list, int) {
    const iovec one = first_byte(list);
    return real.writev(fd, &one, 1);
  }
};
/// EAGAIN and EOPNOTSUPP belong to RWF_NOWAIT.
template <>
struct Rule<&System::preadv2> : Plain {
  FOREIGN static bool possible(int error, int, const iovec* list, int count, off_t, int flags) {
    if (error == EAGAIN || error == EOPNOTSUPP) return flags != 0;
    return error != cut_short || can_be_cut(list, count);
  }
  FOREIGN static ssize_t cut(int fd, const iovec* list, int, off_t offset, int flags) {
    const iovec one = first_byte(list);
    return real.preadv2(fd, &one, 1, offset, flags);
  }
};
template <>
struct Rule<&System::pwritev2> : Plain {
  FOREIGN static bool possible(int error, int, const iovec* list, int count, off_t, int flags) {
    if (error == EAGAIN || error == EOPNOTSUPP) return flags != 0;
    return error != cut_short || can_be_cut(list, count);
  }
  FOREIGN static ssize_t cut(int fd, const iovec* list, int, off_t offset, int flags) {
    const iovec one = first_byte(list);
    return real.pwritev2(fd, &one, 1, offset, flags);
  }
};

FOREIGN bool is_stream(int fd) {
  int type = 0;
  socklen_t size = sizeof type;
  return real.getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_STREAM;
}
/// Datagrams are not cut, and have no connection that could be reset.
FOREIGN bool of_datagrams(int error) {
  return error != cut_short && error != ECONNRESET && error != EPIPE;
}
template <>
struct Rule<&System::recv> : Plain {
  FOREIGN static bool possible(int error, int fd, void*, size_t size, int) {
    if (!is_stream(fd)) return of_datagrams(error);
    return error != cut_short || size > 1;
  }
  FOREIGN static ssize_t cut(int fd, void* buffer, size_t, int flags) {
    return real.recv(fd, buffer, 1, flags);
  }
};
template <>
struct Rule<&System::send> : Plain {
  FOREIGN static bool possible(int error, int fd, const void*, size_t size, int) {
    if (!is_stream(fd)) return of_datagrams(error);
    return error != cut_short || size > 1;
  }
  FOREIGN static ssize_t cut(int fd, const void* buffer, size_t, int flags) {
    return real.send(fd, buffer, 1, flags);
  }
};
template <>
struct Rule<&System::recvmsg> : Plain {
  FOREIGN static bool possible(int error, int fd, msghdr* message, int) {
    if (!is_stream(fd)) return of_datagrams(error);
    return error != cut_short ||
           can_be_cut(message->msg_iov, static_cast<int>(message->msg_iovlen));
  }
  FOREIGN static ssize_t cut(int fd, msghdr* message, int flags) {
    iovec one = first_byte(message->msg_iov);
    msghdr shorter = *message;
    shorter.msg_iov = &one;
    shorter.msg_iovlen = 1;
    return real.recvmsg(fd, &shorter, flags);
  }
};
template <>
struct Rule<&System::sendmsg> : Plain {
  FOREIGN static bool possible(int error, int fd, const msghdr* message, int) {
    if (!is_stream(fd)) return of_datagrams(error);
    return error != cut_short ||
           can_be_cut(message->msg_iov, static_cast<int>(message->msg_iovlen));
  }
  FOREIGN static ssize_t cut(int fd, const msghdr* message, int flags) {
    iovec one = first_byte(message->msg_iov);
    msghdr shorter = *message;
    shorter.msg_iov = &one;
    shorter.msg_iovlen = 1;
    return real.sendmsg(fd, &shorter, flags);
  }
};

/// Linux has closed the descriptor whatever it answers.
template <>
struct Rule<&System::close> : Plain {
  static constexpr bool done = true;
  FOREIGN static void note(int, int fd) { note_descriptor(fd, false); }
};
/// An interrupted connect continues by itself, as after EINPROGRESS.
template <>
struct Rule<&System::connect> : Plain {
  FOREIGN static bool possible(int error, int fd, const sockaddr*, socklen_t) {
    return error != EINTR || is_stream(fd);
  }
  static constexpr bool done = true;
  FOREIGN static bool begins(int error) { return error == EINTR; }
};
/// Asking does not fail, setting may: O_ASYNC and owners take memory, a filter forbids them.
template <>
struct Rule<&System::fcntl> : Plain {
  FOREIGN static bool possible(int, int, int command, long) {
    return read_of(opening) != 0 || (command != F_GETFL && command != F_GETFD);
  }
};
/// Only an addition needs memory.
template <>
struct Rule<&System::epoll_ctl> : Plain {
  FOREIGN static bool possible(int, int, int operation, int, epoll_event*) {
    return operation == EPOLL_CTL_ADD;
  }
};
/// The queue of real-time signals has an end (RLIMIT_SIGPENDING); others are never refused.
template <>
struct Rule<&System::kill_thread> : Plain {
  FOREIGN static bool possible(int, std::uint64_t, int number) { return number >= SIGRTMIN; }
};
template <>
struct Rule<&System::sigtimedwait> : Plain {
  FOREIGN static bool possible(int error, const sigset_t*, siginfo_t*, const timespec* timeout) {
    return error != EAGAIN || timeout != nullptr;
  }
};
template <>
struct Rule<&System::aio_suspend> : Plain {
  FOREIGN static bool possible(int error, const aiocb* const*, int, const timespec* timeout) {
    return error != EAGAIN || timeout != nullptr;
  }
};
template <>
struct Rule<&System::eventfd> : Plain {
  FOREIGN static void note(int result, unsigned, int) {
    if (read_of(opening) != 0) note_descriptor(result, true);
  }
};
template <>
struct Rule<&System::pipe2> : Plain {
  FOREIGN static void note(int result, int fds[2], int) {
    if (result != 0 || read_of(opening) == 0) return;
    note_descriptor(fds[0], true);
    note_descriptor(fds[1], true);
  }
};
template <>
struct Rule<&System::mmap> : Plain {
  FOREIGN static void note(void* made, void*, size_t, int, int, int, off_t) {
    if (made != MAP_FAILED) add_to(mappings, 1L);
  }
};
template <>
struct Rule<&System::munmap> : Plain {
  FOREIGN static void note(int, void*, size_t) { add_to(mappings, -1L); }
};
template <>
struct Rule<&System::thread_start> : Plain {
  FOREIGN static void note(int error, std::uint64_t*, void (*)(void*), void*) {
    if (error == 0) add_to(threads, 1L);
  }
};
template <>
struct Rule<&System::io_setup> : Plain {
  FOREIGN static void note(int result, unsigned, unsigned long*) {
    if (result == 0) add_to(contexts, 1L);
  }
};
template <>
struct Rule<&System::io_destroy> : Plain {
  FOREIGN static void note(int, unsigned long) { add_to(contexts, -1L); }
};

// -- the hooks ------------------------------------------------------------------------------------

/// How a call says that it failed.
enum class Tells : unsigned char { by_errno, by_value, by_waking };

template <class R>
FOREIGN R failed() {
  if constexpr (std::is_pointer_v<R>) {
    return MAP_FAILED;
  } else {
    return R{-1};
  }
}

/// 0: the call goes through.
template <class R, class... A>
FOREIGN int planned(std::size_t index, R (*possible)(int, A...), A... arguments) {
  if (read_of(plan.armed) == 0 || (read_of(plan.everybody) == 0 && planned_here == 0)) return 0;
  add_to(plan.counts[index], std::size_t{1});
  if (index != plan.call || !possible(plan.error, arguments...)) return 0;
  const std::size_t number = add_to(plan.seen, std::size_t{1});
  if (number < plan.nth || number > plan.last) return 0;
  add_to(plan.hits, std::size_t{1});
  return plan.error;
}

template <auto Member, Tells tells, std::size_t index, class Function>
struct Hook;
template <auto Member, Tells tells, std::size_t index, class R, class... A>
struct Hook<Member, tells, index, R (*)(A...)> {
  using This = Rule<Member>;

  FOREIGN static bool possible(int error, A... arguments) {
    return This::possible(error, arguments...);
  }
  FOREIGN static R go_on(A... arguments) {
    const R result = (real.*Member)(arguments...);
    if constexpr (requires { This::note(result, arguments...); }) {
      const int kept = errno;
      This::note(result, arguments...);
      errno = kept;
    }
    return result;
  }
  FOREIGN [[gnu::noinline]] static R call(A... arguments) {
    const int error = planned(index, &possible, arguments...);
    if (error == 0) return go_on(arguments...);
    if constexpr (tells == Tells::by_waking) {
      return R{1};
    } else if constexpr (tells == Tells::by_value) {
      return R{error};
    } else {
      if constexpr (requires { This::cut(arguments...); }) {
        if (error == cut_short) return This::cut(arguments...);
      }
      if constexpr (requires { This::begins(error); }) {
        if (This::begins(error)) {
          const R result = go_on(arguments...);
          if (result < 0 && errno != EINPROGRESS) return result;
        }
      } else if constexpr (This::done) {
        go_on(arguments...);
      }
      errno = error;
      return failed<R>();
    }
  }
};

/// A call that never fails, but is counted.
template <auto Member, class R, class... A>
void keep_account_of(System& system, R (*)(A...)) {
  system.*Member = [](A... arguments) -> R {
    return Hook<Member, Tells::by_errno, 0, R (*)(A...)>::go_on(arguments...);
  };
}

struct List {
  System system = os::real_system();
  std::vector<FailingCall> calls;

  template <auto Member, std::size_t index, Tells tells = Tells::by_errno>
  void add(const char* name, std::vector<int> while_opening, std::vector<int> while_running) {
    static_assert(index < calls_max);
    if (calls.size() <= index) calls.resize(index + 1);
    calls[index] = {name, std::move(while_opening), std::move(while_running)};
    using Function = std::remove_reference_t<decltype(system.*Member)>;
    system.*Member = &Hook<Member, tells, index, Function>::call;
  }
};

// The answers are those of the manual pages; while a proactor is opened also those of a filter of
// system calls (EPERM, ENOSYS). Not among them: calls that can fail by a fault of the program only
// (munmap, pthread_sigmask).
void add_descriptors(List& list) {
  list.add<&System::epoll_create1, 0>("epoll_create1", {ENOSYS, EPERM, EMFILE, ENFILE, ENOMEM},
                                      {EMFILE, ENOMEM});
  list.add<&System::eventfd, 1>("eventfd", {ENOSYS, EPERM, EMFILE, ENFILE, ENOMEM},
                                {EMFILE, ENOMEM});
  list.add<&System::pipe2, 2>("pipe2", {ENOSYS, EPERM, EMFILE, ENFILE}, {EMFILE, ENFILE});
  list.add<&System::signalfd, 3>("signalfd", {ENOSYS, EPERM, EMFILE, ENFILE, ENOMEM},
                                 {EMFILE, ENOMEM});
  list.add<&System::open, 4>("open", {EACCES, EMFILE, ENFILE, ENOENT},
                             {EINTR, EMFILE, ENFILE, ENOMEM, ENOSPC});
  list.add<&System::read, 5>("read", {EIO, EPERM}, {EINTR, EAGAIN, EIO, cut_short});
  list.add<&System::fcntl, 6>("fcntl", {EPERM, EINVAL}, {ENOMEM});
  list.add<&System::fstat, 7>("fstat", {EPERM, ENOMEM}, {ENOMEM, EIO});
  list.add<&System::pwritev2, 8>("pwritev2", {ENOSYS, EPERM, EOPNOTSUPP},
                                 {EINTR, EAGAIN, EOPNOTSUPP, EIO, ENOSPC, cut_short});
  list.add<&System::getdents64, 9>("getdents64", {EPERM, ENOSYS}, {ENOMEM});
  list.add<&System::epoll_ctl, 10>("epoll_ctl", {EPERM, ENOMEM, ENOSPC}, {ENOMEM, ENOSPC});
}

void add_mechanisms(List& list) {
  list.add<&System::io_uring_setup, 11>(
      "io_uring_setup", {ENOSYS, EPERM, EMFILE, ENFILE, ENOMEM, EINVAL, EAGAIN}, {ENOMEM});
  list.add<&System::io_uring_register, 12>("io_uring_register", {ENOSYS, EPERM, EINVAL, ENOMEM},
                                           {ENOMEM});
  list.add<&System::io_uring_enter, 13>("io_uring_enter", {ENOSYS, EPERM, ENOMEM},
                                        {EINTR, EAGAIN, EBUSY, ENOMEM});
  list.add<&System::mmap, 14>("mmap", {ENOMEM, EAGAIN, EPERM}, {ENOMEM});
  list.add<&System::madvise, 15>("madvise", {ENOMEM, EPERM}, {ENOMEM});
  list.add<&System::io_setup, 16>("io_setup", {ENOSYS, EPERM, EAGAIN, ENOMEM}, {EAGAIN});
  list.add<&System::io_submit, 17>("io_submit", {ENOSYS, EPERM, EAGAIN}, {EAGAIN});
  list.add<&System::io_getevents, 18>("io_getevents", {ENOSYS, EPERM}, {EINTR});
  list.add<&System::aio_read, 19>("aio_read", {ENOSYS, EAGAIN}, {EAGAIN});
  list.add<&System::ppoll, 20>("ppoll", {ENOSYS, EPERM, ENOMEM}, {EINTR, ENOMEM});
  list.add<&System::aio_write, 21>("aio_write", {}, {EAGAIN});
  list.add<&System::aio_fsync, 22>("aio_fsync", {}, {EAGAIN});
  list.add<&System::aio_suspend, 23>("aio_suspend", {}, {EINTR, EAGAIN});
  list.add<&System::pselect, 24>("pselect", {}, {EINTR, ENOMEM});
  list.add<&System::epoll_pwait, 25>("epoll_pwait", {}, {EINTR});
  list.add<&System::io_cancel, 26>("io_cancel", {}, {EAGAIN, EINPROGRESS});
}

void add_threads_and_signals(List& list) {
  list.add<&System::sigaction, 27>("sigaction", {EINVAL, EPERM}, {});
  list.add<&System::thread_start, 28, Tells::by_value>("thread_start", {EAGAIN, ENOMEM, EPERM},
                                                       {EAGAIN, ENOMEM});
  list.add<&System::getrlimit, 29>("getrlimit", {ENOSYS, EPERM}, {});
  list.add<&System::kill_thread, 30>("kill_thread", {}, {EAGAIN});
  list.add<&System::sigtimedwait, 31>("sigtimedwait", {}, {EINTR, EAGAIN});
  list.add<&System::futex_wait, 32, Tells::by_waking>("futex_wait", {}, {spurious});
}

void add_transfers(List& list) {
  list.add<&System::write, 33>("write", {}, {EINTR, EIO, ENOSPC, cut_short});
  list.add<&System::readv, 34>("readv", {}, {EINTR, EIO, cut_short});
  list.add<&System::writev, 35>("writev", {}, {EINTR, EIO, ENOSPC, cut_short});
  list.add<&System::preadv2, 36>("preadv2", {}, {EINTR, EAGAIN, EOPNOTSUPP, EIO, cut_short});
  list.add<&System::recv, 37>("recv", {}, {EINTR, ECONNRESET, ENOMEM, cut_short});
  list.add<&System::send, 38>("send", {}, {EINTR, ECONNRESET, EPIPE, ENOBUFS, ENOMEM, cut_short});
  list.add<&System::recvmsg, 39>("recvmsg", {}, {EINTR, ECONNRESET, ENOMEM, cut_short});
  list.add<&System::sendmsg, 40>("sendmsg", {},
                                 {EINTR, ECONNRESET, EPIPE, ENOBUFS, ENOMEM, cut_short});
  list.add<&System::fsync, 41>("fsync", {}, {EINTR, EIO, ENOSPC});
  list.add<&System::fdatasync, 42>("fdatasync", {}, {EINTR, EIO, ENOSPC});
  list.add<&System::lseek, 43>("lseek", {}, {EIO});
  list.add<&System::close, 44>("close", {}, {EINTR, EIO});
  list.add<&System::recvfrom, 56>("recvfrom", {}, {EINTR, ENOMEM});
  list.add<&System::sendto, 57>("sendto", {}, {EINTR, ENOBUFS, ENOMEM});
}

void add_sockets(List& list) {
  list.add<&System::socket, 45>("socket", {}, {EMFILE, ENFILE, ENOBUFS, ENOMEM});
  list.add<&System::socketpair, 46>("socketpair", {}, {EMFILE, ENFILE, ENOMEM});
  list.add<&System::bind, 47>("bind", {}, {EADDRINUSE, ENOMEM});
  list.add<&System::listen, 48>("listen", {}, {EADDRINUSE});
  list.add<&System::accept4, 49>("accept4", {},
                                 {EINTR, ECONNABORTED, EMFILE, ENFILE, ENOBUFS, ENOMEM, EPROTO});
  list.add<&System::connect, 50>("connect", {},
                                 {EINTR, ECONNREFUSED, ENETUNREACH, ENOBUFS, EADDRNOTAVAIL});
  list.add<&System::shutdown, 51>("shutdown", {}, {ENOTCONN});
  list.add<&System::getsockopt, 52>("getsockopt", {}, {ENOBUFS});
  list.add<&System::setsockopt, 53>("setsockopt", {}, {ENOMEM, ENOBUFS});
  list.add<&System::getsockname, 54>("getsockname", {}, {ENOBUFS});
  list.add<&System::getpeername, 55>("getpeername", {}, {ENOBUFS});
}

const List& list() {
  static const auto& made = *[] {
    auto one = std::make_unique<List>();
    add_descriptors(*one);
    add_mechanisms(*one);
    add_threads_and_signals(*one);
    add_transfers(*one);
    add_sockets(*one);
    keep_account_of<&System::munmap>(one->system, one->system.munmap);
    keep_account_of<&System::io_destroy>(one->system, one->system.io_destroy);
    one->system.thread_join = [](std::uint64_t thread) {
      real.thread_join(thread);
      add_to(threads, -1L);
    };
    return one.release();
  }();
  return made;
}

std::string blocked_signals() {
  std::ifstream status("/proc/thread-self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("SigBlk:")) return line;
  }
  return "unknown";
}

}  // namespace

const std::vector<FailingCall>& failing_calls() { return list().calls; }
const os::System& failing_system() { return list().system; }

std::string name_of_fault(int error) {
  if (error == cut_short) return "cut short";
  if (error == spurious) return "spurious";
  const char* const name = ::strerrorname_np(error);
  return name != nullptr ? name : std::to_string(error);
}

FailingCalls::FailingCalls(Whose whose, std::size_t call, std::size_t nth, int error,
                           std::size_t times) {
  plan = Plan{};
  plan.everybody = whose == Whose::everybody ? 1 : 0;
  plan.call = call;
  plan.nth = nth;
  plan.last = times == every_later_call ? times : nth + times - 1;
  plan.error = error;
  planned_here = 1;
  write_to(plan.armed, 1);
}
FailingCalls::FailingCalls(Whose whose) : FailingCalls(whose, calls_max, 0, 0) {}
void FailingCalls::end() {
  write_to(plan.armed, 0);
  planned_here = 0;
}
std::size_t FailingCalls::count(std::size_t call) const { return read_of(plan.counts[call]); }
bool FailingCalls::hit() const { return read_of(plan.hits) > 0; }

OpensProactor::OpensProactor() { write_to(opening, 1); }
OpensProactor::~OpensProactor() { write_to(opening, 0); }

Held held_now() {
  Held held{.mappings = read_of(mappings),
            .threads = read_of(threads),
            .contexts = read_of(contexts),
            .blocked_signals = blocked_signals()};
  if (DIR* const folder = ::opendir("/proc/self/fd")) {
    while (::readdir(folder) != nullptr) ++held.descriptors;
    ::closedir(folder);
  }
  return held;
}

void PrintTo(const Held& held, std::ostream* out) {
  *out << held.descriptors << " descriptors, " << held.mappings << " mappings, " << held.threads
       << " threads, " << held.contexts << " contexts, " << held.blocked_signals;
}

}  // namespace baton::test
