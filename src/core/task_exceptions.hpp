// TaskExceptions: the handler for exceptions of detached tasks, and the number of such exceptions.
// The handler may be replaced while other threads call it.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <utility>

#include "os/mutex.hpp"
#include "os/system.hpp"

namespace baton {

class TaskExceptions {
 public:
  using Handler = std::function<void(std::exception_ptr)>;

  explicit TaskExceptions(const os::System& system) noexcept : system_(system) {}

  /// An empty `handler` removes the present one. Throws std::bad_alloc.
  void set_handler(Handler handler) {
    auto made = handler ? std::make_shared<const Handler>(std::move(handler)) : nullptr;
    const os::LockGuard lock{mutex_, system_};
    handler_.swap(made);  // the old one is destroyed after unlocking
  }
  /// noexcept: without a handler, or if it throws, the program terminates with that exception.
  void tell(std::exception_ptr exception) noexcept {
    count_.fetch_add(1, std::memory_order_relaxed);
    const std::shared_ptr<const Handler> handler = this->handler();
    if (handler == nullptr) std::rethrow_exception(std::move(exception));
    (*handler)(std::move(exception));
  }
  [[nodiscard]] std::uint64_t count() const noexcept {
    return count_.load(std::memory_order_relaxed);
  }
  /// In a forked child, where the thread that held the lock does not exist.
  void take_over_after_fork(const TaskExceptions& parents) {
    parents.mutex_.assume_held();
    mutex_.assume_held();
    handler_ = parents.handler_;
  }

 private:
  std::shared_ptr<const Handler> handler() noexcept {
    const os::LockGuard lock{mutex_, system_};
    return handler_;
  }

  const os::System& system_;
  os::Mutex mutex_;
  std::shared_ptr<const Handler> handler_ BATON_GUARDED_BY(mutex_);
  std::atomic<std::uint64_t> count_{0};
};

}  // namespace baton
