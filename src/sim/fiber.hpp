// Fiber: a thread of the simulated program - a stack, and where it stopped. A switch costs some ten
// nanoseconds, an operating system's hand-over a hundred times that.
//
// What surprises: four things belong to a thread without being on its stack, and go with it: errno,
// the exceptions that are being handled (a handler's exception passes through code that takes
// locks), the library's own thread-locals, and what the sanitizers know of the stack.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "os/thread_locals.hpp"

namespace baton::sim {

class Fiber {
 public:
  using Entry = void (*)(void* argument);
  /// What a thread can use of its stack, and what lies below it and cannot be touched: an overflow
  /// ends the program, also one by a frame that skips some pages.
  static constexpr std::size_t stack_size = std::size_t{512} * 1024;
  static constexpr std::size_t guard_size = std::size_t{512} * 1024;

  /// The calling thread itself, so that there is something to switch back to.
  Fiber();
  /// One that calls entry(argument), which must not return. Throws std::bad_alloc.
  Fiber(Entry entry, void* argument);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Leaves `from`, which is running, and goes on where `to` stopped.
  static void run(Fiber& from, Fiber& to) noexcept;

  /// The address lies below its stack. Also for signal handlers.
  [[nodiscard]] bool overflowed(const void* address) const noexcept;

 private:
  struct Context;  // of the machine
  [[noreturn]] static void begin(Fiber* self) noexcept;
  void arrived() noexcept;

  std::byte* stack_ = nullptr;  // lowest address, that of the guard; null: the thread's own
  void* stack_pointer_ = nullptr;
  Entry entry_ = nullptr;
  void* argument_ = nullptr;
  std::unique_ptr<Context> context_;  // where the switch is the C library's
  // What goes with it.
  os::ThreadLocals locals_{};
  int errno_ = 0;
  void* caught_exceptions_ = nullptr;
  unsigned uncaught_exceptions_ = 0;
  // The sanitizers'.
  [[maybe_unused]] void* fake_stack_ = nullptr;
  const void* bottom_ = nullptr;
  std::size_t size_ = 0;
  [[maybe_unused]] void* tsan_ = nullptr;
};

}  // namespace baton::sim
