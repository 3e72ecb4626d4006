#include "failing_system.hpp"

#include <dirent.h>
#include <errno.h>
#include <sys/mman.h>

#include <array>
#include <atomic>
#include <fstream>
#include <memory>
#include <ostream>

namespace baton::test {
namespace {

using os::System;

const System& real() { return os::real_system(); }

constexpr std::size_t calls_max = 32;

// This thread's plan; no other thread's calls are looked at.
struct Plan {
  bool counting = false;
  std::size_t call = calls_max;
  std::size_t nth = 0;
  int error = 0;
  Faulty how = Faulty::once;
  bool hit = false;
  std::array<std::size_t, calls_max> counts{};

  int enter(std::size_t index) {
    if (!counting) return 0;
    const std::size_t count = ++counts[index];
    if (index != call || count < nth || (how == Faulty::once && count > nth)) return 0;
    hit = true;
    return error;
  }
};
thread_local Plan plan;

std::atomic<long> mappings{0};
std::atomic<long> threads{0};
std::atomic<long> contexts{0};

/// How a call says that it failed.
enum class Tells : unsigned char { by_errno, by_value };

template <auto Member, Tells tells, std::size_t index, class Function>
struct Hook;
template <auto Member, Tells tells, std::size_t index, class R, class... A>
struct Hook<Member, tells, index, R (*)(A...)> {
  static R call(A... arguments) {
    if (const int error = plan.enter(index)) {
      if constexpr (tells == Tells::by_value) {
        return error;
      } else if constexpr (std::is_pointer_v<R>) {
        return errno = error, MAP_FAILED;
      } else {
        return errno = error, R{-1};
      }
    }
    return (real().*Member)(arguments...);
  }
};

struct List {
  System system = real();
  std::vector<FailingCall> calls;

  template <auto Member, std::size_t index, Tells tells = Tells::by_errno>
  void add(const char* name, std::vector<int> errors) {
    static_assert(index < calls_max);
    if (calls.size() <= index) calls.resize(index + 1);
    calls[index] = {name, std::move(errors)};
    using Function = std::remove_reference_t<decltype(system.*Member)>;
    system.*Member = &Hook<Member, tells, index, Function>::call;
  }
};

// The answers are those of the manual pages, and of a filter of system calls (EPERM, ENOSYS). Not
// among them: calls that can fail by a fault of the program only (close, munmap, pthread_sigmask).
void add_descriptors(List& list) {
  list.add<&System::epoll_create1, 0>("epoll_create1", {ENOSYS, EPERM, EMFILE, ENFILE, ENOMEM});
  list.add<&System::eventfd, 1>("eventfd", {ENOSYS, EPERM, EMFILE, ENFILE, ENOMEM});
  list.add<&System::pipe2, 2>("pipe2", {ENOSYS, EPERM, EMFILE, ENFILE});
  list.add<&System::signalfd, 3>("signalfd", {ENOSYS, EPERM, EMFILE, ENFILE, ENOMEM});
  list.add<&System::open, 4>("open", {EACCES, EMFILE, ENFILE, ENOENT});
  list.add<&System::read, 5>("read", {EIO, EPERM});
  list.add<&System::fcntl, 6>("fcntl", {EPERM, EINVAL});
  list.add<&System::fstat, 7>("fstat", {EPERM, ENOMEM});
  list.add<&System::pwritev2, 8>("pwritev2", {ENOSYS, EPERM, EOPNOTSUPP});
  list.add<&System::getdents64, 9>("getdents64", {EPERM, ENOSYS});
  list.add<&System::epoll_ctl, 10>("epoll_ctl", {EPERM, ENOMEM, ENOSPC});
}

void add_mechanisms(List& list) {
  list.add<&System::io_uring_setup, 11>("io_uring_setup",
                                        {ENOSYS, EPERM, EMFILE, ENFILE, ENOMEM, EINVAL, EAGAIN});
  list.add<&System::io_uring_register, 12>("io_uring_register", {ENOSYS, EPERM, EINVAL, ENOMEM});
  list.add<&System::io_uring_enter, 13>("io_uring_enter", {ENOSYS, EPERM, ENOMEM});
  list.add<&System::mmap, 14>("mmap", {ENOMEM, EAGAIN, EPERM});
  list.add<&System::madvise, 15>("madvise", {ENOMEM, EPERM});
  list.add<&System::io_setup, 16>("io_setup", {ENOSYS, EPERM, EAGAIN, ENOMEM});
  list.add<&System::io_submit, 17>("io_submit", {ENOSYS, EPERM, EAGAIN});
  list.add<&System::io_getevents, 18>("io_getevents", {ENOSYS, EPERM});
  list.add<&System::aio_read, 19>("aio_read", {ENOSYS, EAGAIN});
  list.add<&System::ppoll, 20>("ppoll", {ENOSYS, EPERM, ENOMEM});
}

void add_the_rest(List& list) {
  list.add<&System::sigaction, 21>("sigaction", {EINVAL, EPERM});
  list.add<&System::thread_start, 22, Tells::by_value>("thread_start", {EAGAIN, ENOMEM, EPERM});
  list.add<&System::getrlimit, 23>("getrlimit", {ENOSYS, EPERM});
}

// What is left behind is counted below the hooks, where only calls that reach the system arrive.
template <auto Member>
auto& next() {
  static std::remove_reference_t<decltype(std::declval<System&>().*Member)> function = nullptr;
  return function;
}

void add_counters(System& system) {
  next<&System::mmap>() = system.mmap;
  system.mmap = [](void* at, size_t size, int protection, int flags, int fd, off_t offset) {
    void* const made = next<&System::mmap>()(at, size, protection, flags, fd, offset);
    if (made != MAP_FAILED) ++mappings;
    return made;
  };
  system.munmap = [](void* at, size_t size) {
    --mappings;
    return real().munmap(at, size);
  };
  next<&System::thread_start>() = system.thread_start;
  system.thread_start = [](std::uint64_t* thread, void (*entry)(void*), void* argument) {
    const int error = next<&System::thread_start>()(thread, entry, argument);
    if (error == 0) ++threads;
    return error;
  };
  system.thread_join = [](std::uint64_t thread) {
    real().thread_join(thread);
    --threads;
  };
  next<&System::io_setup>() = system.io_setup;
  system.io_setup = [](unsigned slots, unsigned long* context) {
    const int result = next<&System::io_setup>()(slots, context);
    if (result == 0) ++contexts;
    return result;
  };
  system.io_destroy = [](unsigned long context) {
    --contexts;
    return real().io_destroy(context);
  };
}

const List& list() {
  static const auto& made = *[] {
    auto one = std::make_unique<List>();
    add_descriptors(*one);
    add_mechanisms(*one);
    add_the_rest(*one);
    add_counters(one->system);
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

FaultAtStart::FaultAtStart(std::size_t call, std::size_t nth, int error, Faulty how) {
  plan = {.counting = true, .call = call, .nth = nth, .error = error, .how = how};
}
FaultAtStart::FaultAtStart() { plan = {.counting = true}; }
FaultAtStart::~FaultAtStart() { plan.counting = false; }
std::size_t FaultAtStart::count(std::size_t call) const { return plan.counts[call]; }
bool FaultAtStart::hit() const { return plan.hit; }

Held held_now() {
  Held held{.mappings = mappings,
            .threads = threads,
            .contexts = contexts,
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
