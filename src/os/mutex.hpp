// Mutex: a lock of four bytes over the seam's futex, so that a simulator sees every acquisition,
// and so that a descriptor can afford one for each direction.
//
// Word: 0 free, 1 held, 2 held and a thread may sleep (the three-state mutex of Drepper, "Futexes
// are tricky", mutex 3). Spins a little first: sections are short, and on two cores the holder
// usually runs.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include "base/thread_annotations.hpp"
#include "os/system.hpp"

// assume_held() tells the lock analysis that this thread may touch what the mutex guards: it holds
// the mutex, locked where the analysis does not see it, or no other thread can touch that (one
// thread owns a lane or a pinned engine, or is the only one in the child of a fork). The analysis
// then covers the rest of the function. It compiles to nothing.
//
// The analysis is off in the functions that make a lock out of an atomic word.
namespace baton::os {

class BATON_CAPABILITY("mutex") Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void lock(const System& system) noexcept BATON_ACQUIRE() {
    if (system.lock_point != nullptr) system.lock_point();
    if (!try_lock()) lock_slow(system);
  }
  [[nodiscard]] bool try_lock() noexcept BATON_TRY_ACQUIRE(true) {
    std::uint32_t expected = 0;
    // acquire: what the last holder wrote is visible inside.
    return word_.compare_exchange_strong(expected, 1, std::memory_order_acquire,
                                         std::memory_order_relaxed);
  }
  void unlock(const System& system) noexcept BATON_RELEASE() {
    // release: pairs with the acquire of the next holder.
    if (word_.exchange(0, std::memory_order_release) == 2) system.futex_wake(&word_, 1);
  }
  void assume_held() const noexcept BATON_ASSERT_CAPABILITY() {}

 private:
  // The analysis does not know that an atomic exchange is what takes the lock.
  void lock_slow(const System& system) noexcept BATON_ACQUIRE() BATON_NO_THREAD_SAFETY_ANALYSIS;
  std::atomic<std::uint32_t> word_{0};
};

/// Defers wake-ups until the mutex is released. A thread woken earlier would block on the mutex
/// again: two system calls and two context switches.
class BATON_CAPABILITY("mutex") WakingMutex : private Mutex {
 public:
  using Mutex::lock;
  void unlock(const System& system) noexcept BATON_RELEASE() {
    if (sleeper_ == nullptr) return Mutex::unlock(system);
    std::atomic<std::uint32_t>* const sleeper = std::exchange(sleeper_, nullptr);
    Mutex::unlock(system);
    system.futex_wake(sleeper, 1);
  }
  /// Called by the holder. `word`: of a thread that was signalled (ParkingSlot::signal), or null.
  /// If there are several, all but the last are woken at once.
  void wake_when_free(std::atomic<std::uint32_t>* word, const System& system) noexcept {
    if (word == nullptr) return;
    if (sleeper_ != nullptr) system.futex_wake(sleeper_, 1);
    sleeper_ = word;
  }
  using Mutex::assume_held;
  /// Tells the analysis in the child of a fork that the mutex is not held there.
  void left_to_parent() const noexcept BATON_RELEASE() BATON_NO_THREAD_SAFETY_ANALYSIS {}

 private:
  std::atomic<std::uint32_t>* sleeper_ = nullptr;
};

/// Holds a mutex for a scope. `enabled` false: nothing is locked (one thread owns everything).
template <class M>
class BATON_SCOPED_CAPABILITY LockGuard {
 public:
  LockGuard(M& mutex, const System& system, bool enabled = true) noexcept BATON_ACQUIRE(mutex)
      : mutex_(enabled ? &mutex : nullptr), system_(system) {
    if (enabled) mutex.lock(system);
  }
  ~LockGuard() BATON_RELEASE() {
    if (mutex_ != nullptr) mutex_->unlock(system_);
  }
  LockGuard(const LockGuard&) = delete;
  LockGuard& operator=(const LockGuard&) = delete;

 private:
  M* mutex_;
  const System& system_;
};

}  // namespace baton::os
