// The real system with some of its calls counted: what a thing costs is a number that a test can
// name.
#pragma once

#include <atomic>
#include <cstdint>

#include "os/system.hpp"

namespace baton::test {

struct SystemCalls {
  std::atomic<std::uint64_t> epoll_ctl{0};
  std::atomic<std::uint64_t> waits{0};  // epoll_pwait, ppoll, pselect, sigtimedwait, a ring's wait
  std::atomic<std::uint64_t> submissions{0};  // to a ring, without waiting
  std::atomic<std::uint64_t> reads{0};
  std::atomic<std::uint64_t> writes{0};
  std::atomic<std::uint64_t> signals{0};  // kill_thread
  std::atomic<std::uint64_t> masks{0};    // thread_sigmask
  std::atomic<std::uint64_t> locks{0};    // mutexes taken, contended or not

  [[nodiscard]] std::uint64_t all_but_locks() const {
    return epoll_ctl + waits + submissions + reads + writes + signals + masks;
  }
  void clear() { epoll_ctl = waits = submissions = reads = writes = signals = masks = locks = 0; }
};

/// Process-wide, as the table has no context.
inline SystemCalls& system_calls() {
  static SystemCalls calls;
  return calls;
}

inline const os::System& counting_system() {
  static const os::System counting = [] {
    os::System system = os::real_system();
    system.lock_point = [] { ++system_calls().locks; };
    system.epoll_ctl = [](int epoll, int operation, int fd, epoll_event* event) {
      ++system_calls().epoll_ctl;
      return os::real_system().epoll_ctl(epoll, operation, fd, event);
    };
    system.epoll_pwait = [](int epoll, epoll_event* events, int count, int timeout,
                            const sigset_t* mask) {
      ++system_calls().waits;
      return os::real_system().epoll_pwait(epoll, events, count, timeout, mask);
    };
    system.ppoll = [](pollfd* list, nfds_t count, const timespec* timeout, const sigset_t* mask) {
      ++system_calls().waits;
      return os::real_system().ppoll(list, count, timeout, mask);
    };
    system.pselect = [](int end, fd_set* in, fd_set* out, fd_set* error, const timespec* timeout,
                        const sigset_t* mask) {
      ++system_calls().waits;
      return os::real_system().pselect(end, in, out, error, timeout, mask);
    };
    system.sigtimedwait = [](const sigset_t* set, siginfo_t* info, const timespec* timeout) {
      ++system_calls().waits;
      return os::real_system().sigtimedwait(set, info, timeout);
    };
    system.io_uring_enter = [](int ring, unsigned submit, unsigned complete, unsigned flags,
                               const void* argument, size_t size) {
      constexpr unsigned get_events = 1;  // IORING_ENTER_GETEVENTS
      ++((flags & get_events) != 0 ? system_calls().waits : system_calls().submissions);
      return os::real_system().io_uring_enter(ring, submit, complete, flags, argument, size);
    };
    system.read = [](int fd, void* buffer, size_t size) {
      ++system_calls().reads;
      return os::real_system().read(fd, buffer, size);
    };
    system.write = [](int fd, const void* buffer, size_t size) {
      ++system_calls().writes;
      return os::real_system().write(fd, buffer, size);
    };
    system.kill_thread = [](std::uint64_t thread, int number) {
      ++system_calls().signals;
      return os::real_system().kill_thread(thread, number);
    };
    system.thread_sigmask = [](int how, const sigset_t* set, sigset_t* old) {
      ++system_calls().masks;
      return os::real_system().thread_sigmask(how, set, old);
    };
    return system;
  }();
  return counting;
}

}  // namespace baton::test
