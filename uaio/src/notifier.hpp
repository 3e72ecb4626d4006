// Notifier: tells the program that a request, or a list, is complete.
//
// Signals are queued with the value and the code that POSIX asks for. Where the kernel's queue is
// full they wait here and are sent later: the request is complete all the same. Callbacks
// (SIGEV_THREAD) run in a bounded number of threads of our own that come and go.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>

#include "request.hpp"

namespace uaio {

class Notifier {
 public:
  explicit Notifier(std::uint32_t threads_max) noexcept : threads_max_(threads_max) {}

  /// Signals are blocked in the calling thread. True: a signal had to be put by, and somebody must
  /// call send_waiting() soon.
  [[nodiscard]] bool tell(const Notification& note) noexcept;
  /// Sends what had to wait; true while something still has to.
  bool send_waiting() noexcept;
  [[nodiscard]] bool has_waiting() const noexcept {
    return waiting_count_.load(std::memory_order_acquire) != 0;
  }
  [[nodiscard]] std::uint64_t signals() const noexcept { return signals_.load(); }
  [[nodiscard]] std::uint64_t callbacks() const noexcept { return callbacks_.load(); }
  [[nodiscard]] std::uint64_t postponed() const noexcept { return postponed_.load(); }

  // Around fork.
  void lock() noexcept { pthread_mutex_lock(&mutex_); }
  void unlock() noexcept { pthread_mutex_unlock(&mutex_); }
  /// In the child, locked: what waits is the parent's to send, the threads are not here.
  void reset() noexcept;

 private:
  struct Queue {
    Request* first = nullptr;
    Request* last = nullptr;
    void push(Request& request) noexcept;
    Request* pop() noexcept;
  };

  bool put_by(const Notification& note) noexcept;
  void call(const Notification& note) noexcept;
  bool call_in_own_thread(const Notification& note) noexcept;
  static void* serve(void* self);
  static void* serve_one(void* request);
  void serve_queue();
  bool next_callback(Notification& note) noexcept;

  const std::uint32_t threads_max_;
  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
  Queue signals_waiting_;
  Queue callbacks_waiting_;
  std::uint32_t threads_ = 0;
  std::uint32_t idle_ = 0;
  std::uint32_t callbacks_length_ = 0;
  std::atomic<std::uint32_t> queued_{0};  // futex: raised with each callback
  std::atomic<std::uint32_t> waiting_count_{0};
  std::atomic<std::uint32_t> own_threads_{0};
  std::atomic<std::uint64_t> signals_{0};
  std::atomic<std::uint64_t> callbacks_{0};
  std::atomic<std::uint64_t> postponed_{0};
};

}  // namespace uaio
