// The contended path of the mutex.
#include "os/mutex.hpp"

#include <limits>

namespace baton::os {
namespace {
constexpr int spins_max = 100;  // some 300 ns: longer than most sections, far shorter than a sleep

void cpu_relax() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}
}  // namespace

void Mutex::lock_slow(const System& system) noexcept {
  // A simulator runs one thread: spinning there would only burn its schedule.
  for (int spin = 0; spin < spins_max && system.lock_point == nullptr; ++spin) {
    if (word_.load(std::memory_order_relaxed) == 0 && try_lock()) return;
    cpu_relax();
  }
  // From here on this thread takes the mutex with the word 2, so its unlock wakes a sleeper, at
  // worst once without need.
  while (word_.exchange(2, std::memory_order_acquire) != 0) {
    system.futex_wait(&word_, 2, std::numeric_limits<std::int64_t>::max());
  }
}

}  // namespace baton::os
