// The real system with some calls counted, so that a test can state a cost as a number. Also a
// system that does not sleep: then the test can count whether an event ended a wait, and sees a
// lost wake-up at once.
#pragma once

#include <time.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "baton/deadline.hpp"
#include "engines/io_uring/abi.hpp"
#include "os/system.hpp"

namespace baton::test {

struct SystemCalls {
  std::atomic<std::uint64_t> epoll_ctl{0};
  std::atomic<std::uint64_t> waits{0};        // all that can sleep: see can_sleep() below
  std::atomic<std::uint64_t> submissions{0};  // to a ring, without waiting
  std::atomic<std::uint64_t> reads{0};
  std::atomic<std::uint64_t> writes{0};
  std::atomic<std::uint64_t> signals{0};  // kill_thread
  std::atomic<std::uint64_t> masks{0};    // thread_sigmask
  std::atomic<std::uint64_t> locks{0};    // mutexes taken, contended or not
  std::atomic<std::uint64_t> sleeps{0};   // waits that would have slept, while `sleepless`
  std::atomic<int> for_good{0};           // threads inside a wait that no time ends
  /// A wait without an event ends at once, as if a signal had come (EINTR).
  std::atomic<bool> sleepless{false};

  [[nodiscard]] std::uint64_t all_but_locks() const {
    return epoll_ctl + waits + submissions + reads + writes + signals + masks;
  }
  void clear() {
    epoll_ctl = waits = submissions = reads = writes = signals = masks = locks = sleeps = 0;
  }
};

/// Process-wide, as the table has no context.
inline SystemCalls& system_calls() {
  static SystemCalls calls;
  return calls;
}

/// As long as it lives, waits of counting_system() do not sleep.
class Sleepless {
 public:
  Sleepless() {
    system_calls().sleeps = 0;
    system_calls().sleepless = true;
  }
  ~Sleepless() { system_calls().sleepless = false; }
  Sleepless(const Sleepless&) = delete;
  Sleepless& operator=(const Sleepless&) = delete;
  [[nodiscard]] std::uint64_t sleeps() const { return system_calls().sleeps; }
};

/// While it lives, this thread counts as one that waits without a timeout.
class SleepForGood {
 public:
  explicit SleepForGood(bool yes) : count_(yes ? 1 : 0) { system_calls().for_good += count_; }
  ~SleepForGood() { system_calls().for_good -= count_; }
  SleepForGood(const SleepForGood&) = delete;
  SleepForGood& operator=(const SleepForGood&) = delete;

 private:
  const int count_;
};

/// How long a call may sleep.
enum class Limit : std::uint8_t { at_once, some_time, none };
inline Limit limit_of(const timespec* timeout) {
  if (timeout == nullptr) return Limit::none;
  return timeout->tv_sec == 0 && timeout->tv_nsec == 0 ? Limit::at_once : Limit::some_time;
}
inline Limit limit_of(int timeout_ms) {
  if (timeout_ms < 0) return Limit::none;
  return timeout_ms == 0 ? Limit::at_once : Limit::some_time;
}

/// Makes a call that can sleep: `call(true)` with its own timeout, `call(false)` with the shortest
/// one that still sees a pending signal. `nothing`: the result of a timeout.
template <class Call>
long can_sleep(Call call, Limit limit, bool (*nothing)(long result)) {
  SystemCalls& calls = system_calls();
  ++calls.waits;
  if (!calls.sleepless || limit == Limit::at_once) {
    const SleepForGood counted(limit == Limit::none);
    return call(true);
  }
  const long result = call(false);
  if (!nothing(result)) return result;
  ++calls.sleeps;
  errno = EINTR;
  return -1;
}

inline constexpr timespec shortest{0, 1};

inline int counted_epoll_pwait(int epoll, epoll_event* events, int count, int timeout,
                               const sigset_t* mask) {
  return static_cast<int>(can_sleep(
      [&](bool long_enough) {
        return os::real_system().epoll_pwait(epoll, events, count, long_enough ? timeout : 1, mask);
      },
      limit_of(timeout), [](long result) { return result == 0; }));
}

inline int counted_ppoll(pollfd* list, nfds_t count, const timespec* timeout,
                         const sigset_t* mask) {
  return static_cast<int>(can_sleep(
      [&](bool long_enough) {
        return os::real_system().ppoll(list, count, long_enough ? timeout : &shortest, mask);
      },
      limit_of(timeout), [](long result) { return result == 0; }));
}

inline int counted_pselect(int end, fd_set* in, fd_set* out, fd_set* error, const timespec* timeout,
                           const sigset_t* mask) {
  return static_cast<int>(can_sleep(
      [&](bool long_enough) {
        return os::real_system().pselect(end, in, out, error, long_enough ? timeout : &shortest,
                                         mask);
      },
      limit_of(timeout), [](long result) { return result == 0; }));
}

inline int counted_sigtimedwait(const sigset_t* set, siginfo_t* info, const timespec* timeout) {
  return static_cast<int>(can_sleep(
      [&](bool long_enough) {
        return os::real_system().sigtimedwait(set, info, long_enough ? timeout : &shortest);
      },
      limit_of(timeout), [](long result) { return result < 0 && errno == EAGAIN; }));
}

inline int counted_io_getevents(unsigned long context, long least, long most, io_event* events,
                                timespec* timeout) {
  return static_cast<int>(can_sleep(
      [&](bool long_enough) {
        timespec brief{};  // no signal ends it
        return os::real_system().io_getevents(context, least, most, events,
                                              long_enough ? timeout : &brief);
      },
      least > 0 ? limit_of(timeout) : Limit::at_once, [](long result) { return result == 0; }));
}

inline int counted_io_uring_enter(int ring, unsigned submit, unsigned complete, unsigned flags,
                                  const void* argument, size_t size) {
  namespace abi = engines::uring::abi;
  const auto enter = [&] {
    return os::real_system().io_uring_enter(ring, submit, complete, flags, argument, size);
  };
  if ((flags & abi::enter_get_events) == 0) {
    ++system_calls().submissions;
    return enter();
  }
  abi::GetEventsArgument said{};
  if ((flags & abi::enter_ext_arg) != 0) std::memcpy(&said, argument, sizeof said);
  const Limit timed = said.timeout == 0 ? Limit::none : Limit::some_time;
  const Limit limit = complete == 0 ? Limit::at_once : timed;
  return static_cast<int>(can_sleep(
      [&](bool long_enough) {
        if (long_enough) return enter();
        const abi::Timespec brief{0, 1};
        abi::GetEventsArgument changed = said;
        changed.timeout = reinterpret_cast<std::uintptr_t>(&brief);
        return os::real_system().io_uring_enter(ring, submit, complete, flags | abi::enter_ext_arg,
                                                &changed, sizeof changed);
      },
      limit, [](long result) { return result < 0 && errno == ETIME; }));
}

inline const os::System& counting_system() {
  static const os::System counting = [] {
    os::System system = os::real_system();
    system.futex_wait = [](std::atomic<std::uint32_t>* word, std::uint32_t expected,
                           std::int64_t deadline_ns) {
      const SleepForGood counted(deadline_ns == Deadline::never().ns());
      return os::real_system().futex_wait(word, expected, deadline_ns);
    };
    system.lock_point = [] { ++system_calls().locks; };
    system.epoll_ctl = [](int epoll, int operation, int fd, epoll_event* event) {
      ++system_calls().epoll_ctl;
      return os::real_system().epoll_ctl(epoll, operation, fd, event);
    };
    system.epoll_pwait = counted_epoll_pwait;
    system.ppoll = counted_ppoll;
    system.pselect = counted_pselect;
    system.sigtimedwait = counted_sigtimedwait;
    system.io_getevents = counted_io_getevents;
    system.io_uring_enter = counted_io_uring_enter;
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
