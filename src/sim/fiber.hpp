// Fiber: a thread of the simulated program, as a stack and the place where it stopped. A switch
// costs about ten nanoseconds; the operating system takes a hundred times as long.
//
// Pitfall: a switch also exchanges four things that belong to a thread and are not on its stack.
// These are errno, the exceptions that are being handled (an exception of a handler passes through
// code that takes locks), the library's own thread-locals, and what the sanitizers know about the
// stack.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "os/thread_locals.hpp"

namespace baton::sim {

class Fiber {
 public:
  using Entry = void (*)(void* argument);
  /// The usable stack of a thread, and the guard below it. An overflow ends the program, even if
  /// its frame skips some pages.
  static constexpr std::size_t stack_size = std::size_t{512} * 1024;
  static constexpr std::size_t guard_size = std::size_t{512} * 1024;

  /// Stands for the calling thread, so that a fiber can switch back to it.
  Fiber();
  /// Will call entry(argument), which must not return. Throws std::bad_alloc.
  Fiber(Entry entry, void* argument);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Stops `from`, which is running, and continues `to` where it stopped.
  static void run(Fiber& from, Fiber& to) noexcept;

  /// Whether the address is in the guard below its stack. May be called in signal handlers.
  [[nodiscard]] bool overflowed(const void* address) const noexcept;

 private:
  struct Context;  // the saved registers
  [[noreturn]] static void begin(Fiber* self) noexcept;
  void arrived() noexcept;

  std::byte* stack_ = nullptr;  // lowest address, that of the guard; null: the real thread's stack
  void* stack_pointer_ = nullptr;
  Entry entry_ = nullptr;
  void* argument_ = nullptr;
  std::unique_ptr<Context> context_;  // only where the C library switches
  // Exchanged by a switch.
  os::ThreadLocals locals_{};
  int errno_ = 0;
  void* caught_exceptions_ = nullptr;
  unsigned uncaught_exceptions_ = 0;
  // For the sanitizers.
  [[maybe_unused]] void* fake_stack_ = nullptr;
  const void* bottom_ = nullptr;
  std::size_t size_ = 0;
  [[maybe_unused]] void* tsan_ = nullptr;
};

}  // namespace baton::sim
