// SignalThread: a thread in which strategies wait for signals. It keeps the thread's number, and
// whether signals may have been lost. The number alone is no identity: the system reuses it after
// the thread has ended, here and in other processes, and signals would reach the next thread with
// that number. So each thread has one object, which lives as long as the thread or a strategy holds
// it.
#pragma once

#include <atomic>
#include <csignal>
#include <cstdint>
#include <memory>
#include <system_error>

#include "baton/handle.hpp"
#include "os/mutex.hpp"
#include "os/system.hpp"

namespace baton::demux {

class SignalThread {
 public:
  /// The calling thread's object; null when there is no memory for it.
  static std::shared_ptr<SignalThread> current(const os::System& system) noexcept;

  explicit SignalThread(std::uint64_t number) noexcept;
  SignalThread(const SignalThread&) = delete;
  SignalThread& operator=(const SignalThread&) = delete;

  [[nodiscard]] bool is_current() const noexcept;

  /// Counts one more strategy that waits here, and blocks `signals`. REQUIRES: is_current().
  void enter(const os::System& system, const sigset_t& signals) noexcept;
  /// Counts one less. The last one takes the signals that are still pending and restores the mask.
  /// Another thread cannot change this one's mask: if it calls, the signals stay blocked.
  void leave(const os::System& system) noexcept;

  /// Directs the signals of `fd` to this thread. ESRCH: the thread has ended.
  std::error_code own(const os::System& system, NativeHandle fd) noexcept;

  /// More than one strategy waits here, so one may take a signal that was meant for another.
  [[nodiscard]] bool shared() const noexcept {
    return strategies_.load(std::memory_order_relaxed) > 1;
  }
  /// Counts a signal that was meant for another strategy, or does not say for which one.
  void lose() noexcept { losses_.fetch_add(1, std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t losses() const noexcept {
    return losses_.load(std::memory_order_relaxed);
  }

 private:
  struct OfThisThread;

  const std::uint64_t number_;
  // relaxed: only the thread itself reads and writes them, except that a strategy may end in
  // another thread, and nothing depends on seeing that at once.
  std::atomic<std::uint32_t> strategies_{0};
  std::atomic<std::uint64_t> losses_{0};
  sigset_t blocked_;  // signals that enter has blocked and the program had not; the thread's own

  os::Mutex mutex_;
  bool ended_ BATON_GUARDED_BY(mutex_) = false;
};

}  // namespace baton::demux
