// Notifier: notifies the program that a request or a list is complete.
//
// Signals are queued with the value and the code that POSIX asks for. Each callback (SIGEV_THREAD)
// runs in a thread that was made for it, with the attributes that the program gave, as with the
// system's library: it may end its thread, wait for another callback, or keep data of its thread.
//
// A signal that finds the kernel's queue full waits here, and so does a callback for which no
// thread can be started. For each kind a thread of the library retries them until they are
// delivered.
//
// A new thread shares the table of descriptors of the thread that makes it. A keeper has its own
// table, in which a callback would write to other files than the program's. So a keeper leaves
// callbacks to the thread here, which a thread of the program starts before the first request with
// a callback; a request without it is refused (EAGAIN). The timer's handler (mode=single) does so,
// too, because it may have interrupted malloc.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>

#include "request.hpp"

namespace uaio {

/// Notifications of one kind that wait to be sent.
class Postponed {
 public:
  /// 0 or an errno; after EAGAIN it is tried again.
  using Send = int (*)(const Notification& note) noexcept;
  constexpr Postponed(Send send, bool in_order) noexcept : send_(send), in_order_(in_order) {}

  /// Ensures that its thread exists for a request that is about to be started. False: no thread.
  bool prepare() noexcept;
  /// Any thread, and signal handlers.
  void put_by(const Notification& note) noexcept;
  /// Retries, if no thread does.
  void look() noexcept;
  [[nodiscard]] bool has_waiting() const noexcept {
    return waiting_.load(std::memory_order_acquire) != 0;
  }
  [[nodiscard]] bool has_thread() const noexcept { return thread_.load(std::memory_order_acquire); }

  // Around fork.
  void lock() noexcept { pthread_mutex_lock(&mutex_); }
  void unlock() noexcept { pthread_mutex_unlock(&mutex_); }
  void reset() noexcept;

 private:
  struct Queue {
    Request* first = nullptr;
    Request* last = nullptr;
    void push(Request& request) noexcept;
    Request* pop() noexcept;
  };

  bool ensure_thread() noexcept;
  void take_arrived() noexcept;
  bool try_again() noexcept;
  bool send_waiting() noexcept;
  static void* run(void* self);
  void serve() noexcept;
  bool retire(std::uint32_t seen) noexcept;

  const Send send_;
  const bool in_order_;
  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
  Queue queue_;
  std::atomic<Request*> arrived_{nullptr};  // not in the queue yet; the newest first, by next
  std::atomic<bool> thread_{false};
  std::atomic<std::uint32_t> prepared_{0};  // how often the thread was asked for
  std::atomic<std::uint32_t> waiting_{0};   // futex: how many
};

class Notifier {
 public:
  /// Whether delivery of such a notification is guaranteed: 0, or EAGAIN. Called before a start.
  [[nodiscard]] int prepare(const Notification& note) noexcept;
  /// Any thread, and signal handlers.
  void tell(const Notification& note) noexcept;
  /// Retries waiting notifications, if no thread does.
  void look() noexcept;

  [[nodiscard]] std::uint64_t signals() const noexcept { return signals_.load(); }
  [[nodiscard]] std::uint64_t callbacks() const noexcept { return callbacks_.load(); }
  [[nodiscard]] std::uint64_t postponed() const noexcept { return postponed_.load(); }

  // Around fork.
  void lock() noexcept {
    late_signals_.lock();
    late_callbacks_.lock();
  }
  void unlock() noexcept {
    late_callbacks_.unlock();
    late_signals_.unlock();
  }
  /// In the child, locked: the parent sends waiting notifications, and the threads do not exist
  /// here.
  void reset() noexcept {
    late_signals_.reset();
    late_callbacks_.reset();
  }

 private:
  static int queue_signal(const Notification& note) noexcept;
  static int call(const Notification& note) noexcept;
  static void* run_callback(void* request);
  static void* run_joinable_callback(void* request);

  Postponed late_signals_{queue_signal, true};
  // In any order: the thread of one may never fit.
  Postponed late_callbacks_{call, false};
  std::atomic<std::uint64_t> signals_{0};
  std::atomic<std::uint64_t> callbacks_{0};
  std::atomic<std::uint64_t> postponed_{0};
};

}  // namespace uaio
