// ParkingSlot: one thread sleeps on it, others wake it - directed, sticky, without a condition
// variable (glibc before 2.41 can lose the wake-up of one waiter, bug 25847).
#pragma once

#include <atomic>
#include <cstdint>

#include "baton/deadline.hpp"
#include "os/system.hpp"

namespace baton::os {

class ParkingSlot {
 public:
  /// Sleeps until unpark() or the deadline; an unpark() that came before makes it return at once.
  /// True when unparked. Only the owner calls it.
  bool park(const System& system, Deadline deadline) noexcept {
    while (word_.load(std::memory_order_acquire) == 0) {
      if (!system.futex_wait(&word_, 0, deadline.ns()) &&
          word_.load(std::memory_order_acquire) == 0) {
        return false;
      }
    }
    word_.store(0, std::memory_order_relaxed);
    return true;
  }
  void unpark(const System& system) noexcept {
    // release: what the waker did before is visible to the woken.
    if (word_.exchange(1, std::memory_order_release) == 0) system.futex_wake(&word_, 1);
  }

 private:
  std::atomic<std::uint32_t> word_{0};
};

}  // namespace baton::os
