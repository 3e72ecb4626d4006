// SpareDescriptor: a descriptor kept for the time when the process has none left. It is closed so
// that one connection can be accepted and closed: its peer sees the end instead of waiting.
#pragma once

#include <atomic>

#include "baton/handle.hpp"
#include "os/mutex.hpp"
#include "os/system.hpp"

namespace baton::engines {

/// Any thread if `concurrent`, else one thread.
class SpareDescriptor {
 public:
  SpareDescriptor(const os::System& system, bool concurrent) noexcept
      : system_(system), concurrent_(concurrent) {}
  ~SpareDescriptor();
  SpareDescriptor(const SpareDescriptor&) = delete;
  SpareDescriptor& operator=(const SpareDescriptor&) = delete;

  /// Called at each accept; the first call opens the descriptor, while there are some left.
  void prepare() noexcept {
    if (!prepared_.load(std::memory_order_relaxed)) open_first();
  }
  /// Accepts one waiting connection, if there is one, and closes it. Never blocks.
  void turn_one_away(const Handle& listener) noexcept;
  /// In the child after fork: closes the descriptor, without the lock.
  void abandon() noexcept;

 private:
  void open_first() noexcept;
  void open() noexcept BATON_REQUIRES(mutex_);

  const os::System& system_;
  const bool concurrent_;
  std::atomic<bool> prepared_{false};
  os::Mutex mutex_;
  int spare_ BATON_GUARDED_BY(mutex_) = -1;
};

}  // namespace baton::engines
