// SignalThread: what a thread is to the strategies that wait for signals in it - its number, its
// signal mask, and whether signals of theirs may have been lost. A number alone is no identity: it
// is reused when a thread has ended, here and in other processes, and signals would reach the
// next thread of that number. So each thread has one object, which outlives it as long as a
// strategy holds it.
#pragma once

#include <atomic>
#include <csignal>
#include <cstdint>
#include <memory>
#include <system_error>

#include "baton/handle.hpp"
#include "baton/signal_mask.hpp"
#include "os/mutex.hpp"
#include "os/system.hpp"

namespace baton::demux {

class SignalThread {
 public:
  /// The calling thread's; null when there is no memory for it.
  static std::shared_ptr<SignalThread> current(const os::System& system) noexcept;

  explicit SignalThread(std::uint64_t number) noexcept;
  SignalThread(const SignalThread&) = delete;
  SignalThread& operator=(const SignalThread&) = delete;

  [[nodiscard]] bool is_current() const noexcept;

  /// What the thread knows of its own mask, for itself alone: the signals it has blocked for
  /// interrupt/signal.cpp, by number less one, and the whole with them. Here, because every
  /// thread of the process pays for what is thread-local.
  struct OwnMask {
    std::uint64_t blocked = 0;
    sigset_t own{};
    SignalMask waiting{};
  };
  OwnMask own_mask;

  /// One more strategy waits here: `signals` are blocked. REQUIRES: is_current().
  void enter(const os::System& system, const sigset_t& signals) noexcept;
  /// One less. With the last one the mask is what it was, and what was still pending is taken away;
  /// unless another thread calls, which cannot change it: then the signals stay blocked.
  void leave(const os::System& system) noexcept;

  /// Directs the signals of `fd` to this thread. ESRCH: it has ended.
  std::error_code own(const os::System& system, NativeHandle fd) noexcept;

  /// More than one strategy waits here, so that one may take what is another's.
  [[nodiscard]] bool shared() const noexcept {
    return strategies_.load(std::memory_order_relaxed) > 1;
  }
  /// A signal was taken that does not say whom it was for, or was meant for another strategy.
  void lose() noexcept { losses_.fetch_add(1, std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t losses() const noexcept {
    return losses_.load(std::memory_order_relaxed);
  }

 private:
  struct OfThisThread;

  const std::uint64_t number_;
  // relaxed: read and written by the thread itself, but for a strategy's end in another one, which
  // is no reason for anybody to act.
  std::atomic<std::uint32_t> strategies_{0};
  std::atomic<std::uint64_t> losses_{0};
  sigset_t blocked_;  // by enter, and not by the program before; the thread's own

  os::Mutex mutex_;
  bool ended_ BATON_GUARDED_BY(mutex_) = false;
};

}  // namespace baton::demux
