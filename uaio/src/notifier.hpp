// Notifier: tells the program that a request, or a list, is complete.
//
// Signals are queued with the value and the code that POSIX asks for. Each callback (SIGEV_THREAD)
// runs in a thread that was made for it, with the attributes that the program gave, as with the
// system's library: it may end its thread, wait for another callback, or keep data of its thread.
//
// A signal that finds the kernel's queue full waits here, and so does a callback that finds no room
// for a thread. A thread of our own tries them again until they are out. It exists before the first
// request that wants a callback is started; a request without it is refused (EAGAIN).
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>

#include "request.hpp"

namespace uaio {

class Notifier {
 public:
  /// Whether such a notification can be kept for certain: 0, or EAGAIN. Before a start.
  [[nodiscard]] int prepare(const Notification& note) noexcept;
  /// Any thread, and signal handlers.
  void tell(const Notification& note) noexcept;
  /// Tries what waits again, for want of a thread that does.
  void look() noexcept;

  [[nodiscard]] std::uint64_t signals() const noexcept { return signals_.load(); }
  [[nodiscard]] std::uint64_t callbacks() const noexcept { return callbacks_.load(); }
  [[nodiscard]] std::uint64_t postponed() const noexcept { return postponed_.load(); }

  // Around fork.
  void lock() noexcept { pthread_mutex_lock(&mutex_); }
  void unlock() noexcept { pthread_mutex_unlock(&mutex_); }
  /// In the child, locked: what waits is the parent's to send, the thread is not here.
  void reset() noexcept;

 private:
  struct Queue {
    Request* first = nullptr;
    Request* last = nullptr;
    void push(Request& request) noexcept;
    Request* pop() noexcept;
  };

  [[nodiscard]] bool has_waiting() const noexcept {
    return waiting_.load(std::memory_order_acquire) != 0;
  }
  [[nodiscard]] static bool is_out(const Notification& note) noexcept;
  void put_by(const Notification& note) noexcept;
  bool ensure_thread() noexcept;
  bool try_again() noexcept;
  static int call(const Notification& note) noexcept;
  static void* run_callback(void* request);
  static void* run(void* self);
  void serve() noexcept;
  bool retire() noexcept;

  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
  Queue queue_;
  std::atomic<bool> thread_{false};
  std::atomic<std::uint32_t> waiting_{0};  // futex: how many
  std::atomic<std::uint32_t> signals_waiting_{0};
  std::atomic<std::uint64_t> signals_{0};
  std::atomic<std::uint64_t> callbacks_{0};
  std::atomic<std::uint64_t> postponed_{0};
};

}  // namespace uaio
