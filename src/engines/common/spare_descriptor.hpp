// SpareDescriptor: kept for the moment when there are none. It is given up so that one connection
// can be taken from the backlog and closed, and its peer be told instead of waiting.
#pragma once

#include <atomic>

#include "baton/handle.hpp"
#include "os/mutex.hpp"
#include "os/system.hpp"

namespace baton::engines {

/// Any thread; from one thread only if not `concurrent`.
class SpareDescriptor {
 public:
  SpareDescriptor(const os::System& system, bool concurrent) noexcept
      : system_(system), concurrent_(concurrent) {}
  ~SpareDescriptor();
  SpareDescriptor(const SpareDescriptor&) = delete;
  SpareDescriptor& operator=(const SpareDescriptor&) = delete;

  /// At each accept; opens it at the first, while there are descriptors.
  void prepare() noexcept {
    if (!prepared_.load(std::memory_order_relaxed)) open_first();
  }
  /// Accepts one connection that waits, if one does, and closes it. Never blocks.
  void turn_one_away(const Handle& listener) noexcept;
  /// In the child after fork: closes it, without a lock.
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
