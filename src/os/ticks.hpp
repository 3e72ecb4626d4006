// Ticks: the processor's own time counter, which costs three instructions where the system's clock
// costs fifty. It runs at one rate on all processors, but that rate is unknown, so it only serves
// to compare time spans; System::monotonic_ns tells the time.
#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace baton::os {

/// Any thread. REQUIRES: System::has_ticks.
[[nodiscard, gnu::always_inline]] inline std::uint64_t ticks() noexcept {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
  std::uint64_t count;
  asm volatile("mrs %0, cntvct_el0" : "=r"(count));
  return count;
#else
  return 0;
#endif
}

/// The processor has such a counter, and it neither stops nor changes its rate.
[[nodiscard]] inline bool ticks_are_even() noexcept {
#if defined(__x86_64__)
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  constexpr unsigned invariant = 1U << 8;
  return __get_cpuid(0x80000007U, &a, &b, &c, &d) != 0 && (d & invariant) != 0;
#elif defined(__aarch64__)
  return true;
#else
  return false;
#endif
}

}  // namespace baton::os
