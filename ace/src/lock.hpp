// Lock: a mutex of one word, which each start holds for a few instructions. (std::mutex makes two
// calls into the C library for it.) Drepper's second mutex, "Futexes Are Tricky".
#pragma once

#include <atomic>
#include <cstdint>

namespace baton::ace {

class Lock {
 public:
  void lock() noexcept {
    std::uint32_t seen = idle;
    // acquire, release: as for every mutex.
    if (!word_.compare_exchange_strong(seen, taken, std::memory_order_acquire,
                                       std::memory_order_relaxed)) {
      wait();
    }
  }
  void unlock() noexcept {
    if (word_.exchange(idle, std::memory_order_release) == wanted) word_.notify_one();
  }

 private:
  static constexpr std::uint32_t idle = 0;
  static constexpr std::uint32_t taken = 1;
  static constexpr std::uint32_t wanted = 2;  // taken, and another thread may wait

  [[gnu::noinline]] void wait() noexcept {
    while (word_.exchange(wanted, std::memory_order_acquire) != idle) {
      word_.wait(wanted, std::memory_order_relaxed);
    }
  }

  std::atomic<std::uint32_t> word_{idle};
};

}  // namespace baton::ace
