// ParkingSlot: one thread sleeps on it, others wake it - directed, sticky, without a condition
// variable (glibc before 2.41 can lose the wake-up of one waiter, bug 25847).
//
// The atomic type and the futex are template parameters, so that tests/model/relacy runs this very
// source under every order that the memory model allows.
#pragma once

#include <atomic>
#include <cstdint>

#include "baton/deadline.hpp"
#include "os/system.hpp"

namespace baton::os {

template <class Futex, template <class> class Atomic = std::atomic>
class BasicParkingSlot {
 public:
  /// Sleeps until unpark() or the deadline; an earlier unpark() makes it return at once. True when
  /// unparked. Only the owner calls it.
  bool park(const Futex& system, Deadline deadline) noexcept {
    while (word_.load(std::memory_order_acquire) == 0) {
      if (!system.futex_wait(&word_, 0, deadline.ns()) &&
          word_.load(std::memory_order_acquire) == 0) {
        return false;
      }
    }
    // acquire, by an exchange: a second unpark() since the load is consumed together with the
    // first, and its caller's writes must be visible as well.
    word_.exchange(0, std::memory_order_acquire);
    return true;
  }
  void unpark(const Futex& system) noexcept {
    if (auto* const word = signal()) system.futex_wake(word, 1);
  }
  /// The first half of unpark(). The second is a futex_wake of the returned word, unless that is
  /// null. By then the owner may have seen the signal and destroyed its slot, so only the address
  /// is used. A sleeper on a futex must tolerate a spurious wake-up.
  [[nodiscard]] Atomic<std::uint32_t>* signal() noexcept {
    // release: the waker's earlier writes are visible to the woken thread.
    return word_.exchange(1, std::memory_order_release) == 0 ? &word_ : nullptr;
  }

 private:
  Atomic<std::uint32_t> word_{0};
};

using ParkingSlot = BasicParkingSlot<System>;

}  // namespace baton::os
