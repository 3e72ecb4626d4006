// Waiting for a word to change, and locks that signal handlers respect.
#pragma once

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "waits.hpp"

namespace uaio {

/// Sleeps while the word is `seen`, until the absolute monotonic time (null: for ever). 0, EAGAIN
/// (it had changed), EINTR or ETIMEDOUT. Not a cancellation point.
inline int futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t seen,
                      const timespec* until) noexcept {
  const long answer = ::syscall(SYS_futex, &word, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, seen,
                                until, nullptr, FUTEX_BITSET_MATCH_ANY);
  return answer == 0 ? 0 : errno;
}
/// The same, and a cancellation point.
inline int futex_wait_cancellable(std::atomic<std::uint32_t>& word, std::uint32_t seen,
                                  const timespec* until) {
  const long answer = cancellable_call(
      SYS_futex, reinterpret_cast<long>(&word), FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, seen,
      reinterpret_cast<long>(until), 0, static_cast<long>(FUTEX_BITSET_MATCH_ANY));
  return answer == 0 ? 0 : errno;
}
inline void futex_wake(std::atomic<std::uint32_t>& word, int count) noexcept {
  ::syscall(SYS_futex, &word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, count, nullptr, nullptr, 0);
}

/// No signal handler runs in this thread for as long as it lives.
class SignalsBlocked {
 public:
  SignalsBlocked() noexcept {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

/// A lock whose holder is never interrupted by a handler, so that handlers may take it, too.
class Locked {
 public:
  explicit Locked(pthread_mutex_t& mutex) noexcept : mutex_(mutex) { pthread_mutex_lock(&mutex); }
  ~Locked() { pthread_mutex_unlock(&mutex_); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

 private:
  const SignalsBlocked blocked_;  // first: unblocked last
  pthread_mutex_t& mutex_;
};

/// The thread cannot be cancelled (pthread_cancel) for as long as it lives.
class NoCancel {
 public:
  NoCancel() noexcept { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~NoCancel() { pthread_setcancelstate(before_, nullptr); }
  NoCancel(const NoCancel&) = delete;
  NoCancel& operator=(const NoCancel&) = delete;

 private:
  int before_ = PTHREAD_CANCEL_ENABLE;
};

inline timespec after(timespec moment, const timespec& duration) noexcept {
  moment.tv_sec += duration.tv_sec;
  moment.tv_nsec += duration.tv_nsec;
  if (moment.tv_nsec >= 1'000'000'000) {
    ++moment.tv_sec;
    moment.tv_nsec -= 1'000'000'000;
  }
  return moment;
}

inline timespec monotonic_now() noexcept {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return now;
}

inline bool is_before(const timespec& one, const timespec& other) noexcept {
  return one.tv_sec != other.tv_sec ? one.tv_sec < other.tv_sec : one.tv_nsec < other.tv_nsec;
}

/// The remaining time; zero when it is over.
inline timespec left_until(const timespec& moment) noexcept {
  const timespec now = monotonic_now();
  timespec left{moment.tv_sec - now.tv_sec, moment.tv_nsec - now.tv_nsec};
  if (left.tv_nsec < 0) {
    --left.tv_sec;
    left.tv_nsec += 1'000'000'000;
  }
  return left.tv_sec < 0 ? timespec{0, 0} : left;
}

}  // namespace uaio
