// Task<T>: a lazy coroutine. It starts when it is awaited or spawned, runs on whatever thread
// resumes it (never on two at once), and hands its value or its exception to the one that awaits
// it.
//
//   Task<std::size_t> copy(StreamSocket& from, StreamSocket& to);
//   ... std::size_t bytes = co_await copy(a, b);
//
// A task that is destroyed before it has started, or when it is finished, frees its frame. REQUIRES
// of one that is suspended in the middle: nothing that it waits for is pending.
#pragma once

#include <concepts>
#include <coroutine>
#include <cstddef>
#include <exception>
#include <optional>
#include <type_traits>
#include <utility>

#include "baton/coro/frame_cache.hpp"
#include "baton/export.hpp"
#include "baton/fwd.hpp"

namespace baton {

template <class T>
class Task;

namespace detail {
class CancellationState;
}

/// What a coroutine inherits from the one that awaits it, or from its scope.
struct TaskContext {
  Strand* strand = nullptr;                           ///< its resumptions run in it
  detail::CancellationState* cancellation = nullptr;  ///< ends what it waits for
};

namespace detail {

/// What all promises share. The members belong to whoever holds the coroutine at that moment.
class TaskPromiseBase {
 public:
  /// Called at the end instead of the resumption of a continuation; answers whom to resume. It may
  /// destroy the coroutine, which is suspended by then (gcc 15.2 touches it afterwards: bug
  /// 121961).
  using Finished = std::coroutine_handle<> (*)(TaskPromiseBase&, std::coroutine_handle<>) noexcept;

  static void* operator new(std::size_t size) { return allocate_frame(size); }
  static void operator delete(void* frame, std::size_t size) noexcept { free_frame(frame, size); }

  struct FinalAwaiter {
    [[nodiscard]] bool await_ready() const noexcept { return false; }
    template <class Promise>
    std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> self) const noexcept {
      TaskPromiseBase& promise = self.promise();
      if (promise.finished_ != nullptr) return promise.finished_(promise, self);
      return promise.continuation_;
    }
    void await_resume() const noexcept {}
  };

  [[nodiscard]] std::suspend_always initial_suspend() const noexcept { return {}; }
  [[nodiscard]] FinalAwaiter final_suspend() const noexcept { return {}; }
  void unhandled_exception() noexcept { exception_ = std::current_exception(); }

  [[nodiscard]] const TaskContext* context() const noexcept { return context_; }
  void set_context(const TaskContext* context) noexcept { context_ = context; }
  void set_continuation(std::coroutine_handle<> handle) noexcept { continuation_ = handle; }
  void set_finished(Finished finished, void* owner) noexcept {
    finished_ = finished;
    owner_ = owner;
  }
  [[nodiscard]] void* owner() const noexcept { return owner_; }
  [[nodiscard]] std::exception_ptr& exception() noexcept { return exception_; }

 private:
  std::coroutine_handle<> continuation_ = std::noop_coroutine();
  const TaskContext* context_ = nullptr;
  Finished finished_ = nullptr;
  void* owner_ = nullptr;
  std::exception_ptr exception_;
};

/// gcc 12 lays out the frame of some coroutines wrongly: those that await in the very condition of
/// an if, while, do, for or switch (`if (co_await f())`) while no variable is declared in the block
/// around it. The condition's value then stands in front of the frame's head, and a handle made
/// from the promise resumes garbage. Such a handle does not name the memory that was allocated for
/// the frame: better to end here, with the reason, than there. The cure: `auto result = co_await
/// f(); if (result)`, or `if (auto result = co_await f())`.
template <class Promise>
std::coroutine_handle<Promise> checked_handle(Promise& promise) noexcept {
  const auto handle = std::coroutine_handle<Promise>::from_promise(promise);
  // Clang does it right; and it keeps frames, where it can, in the frame or on the stack of the
  // caller, where nobody has allocated them.
#if defined(__GNUC__) && !defined(__clang__)
  check_frame(handle.address());
#endif
  return handle;
}

template <class T>
class TaskPromise final : public TaskPromiseBase {
  static_assert(alignof(T) <= frame_alignment,
                "the frame of a task is aligned to 64 bytes: return a pointer to a value that "
                "needs more");

 public:
  Task<T> get_return_object() noexcept;
  template <std::convertible_to<T> U>
  void return_value(U&& value) {
    value_.emplace(std::forward<U>(value));
  }
  T take() {
    if (exception()) std::rethrow_exception(exception());
    return std::move(*value_);
  }

 private:
  std::optional<T> value_;
};

template <>
class TaskPromise<void> final : public TaskPromiseBase {
 public:
  Task<void> get_return_object() noexcept;
  void return_void() const noexcept {}
  void take() {
    if (exception()) std::rethrow_exception(exception());
  }
};

/// The context of a coroutine that awaits something; null for coroutines that are not ours.
template <class Promise>
const TaskContext* context_of(std::coroutine_handle<Promise> handle) noexcept {
  if constexpr (std::derived_from<Promise, TaskPromiseBase>) {
    return handle.promise().context();
  } else {
    return nullptr;
  }
}

class TaskAccess;

}  // namespace detail

template <class T = void>
class [[nodiscard("a task does nothing until it is awaited or spawned")]] Task {
  static_assert(!std::is_reference_v<T>, "return a pointer");

 public:
  using promise_type = detail::TaskPromise<T>;

  Task() noexcept = default;
  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Task& operator=(Task&& other) noexcept {
    if (this != &other) {
      if (handle_) handle_.destroy();
      handle_ = std::exchange(other.handle_, nullptr);
    }
    return *this;
  }
  ~Task() {
    if (handle_) handle_.destroy();
  }

  /// False for one that was moved from.
  explicit operator bool() const noexcept { return static_cast<bool>(handle_); }

  class Awaiter {
   public:
    explicit Awaiter(std::coroutine_handle<promise_type> task) noexcept : task_(task) {}
    [[nodiscard]] bool await_ready() const noexcept { return false; }
    template <class Promise>
    std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> parent) const noexcept {
      task_.promise().set_context(detail::context_of(parent));
      task_.promise().set_continuation(parent);
      return task_;
    }
    T await_resume() const { return task_.promise().take(); }

   private:
    std::coroutine_handle<promise_type> task_;
  };
  /// Starts it; gives its value or throws its exception. Once: `co_await std::move(task)`.
  Awaiter operator co_await() && noexcept { return Awaiter{handle_}; }

 private:
  friend promise_type;
  friend class detail::TaskAccess;
  explicit Task(std::coroutine_handle<promise_type> handle) noexcept : handle_(handle) {}

  std::coroutine_handle<promise_type> handle_;
};

namespace detail {

template <class T>
Task<T> TaskPromise<T>::get_return_object() noexcept {
  return Task<T>{checked_handle(*this)};
}
inline Task<void> TaskPromise<void>::get_return_object() noexcept {
  return Task<void>{checked_handle(*this)};
}

/// For those who run tasks: spawn, scopes, run_until_complete.
class TaskAccess {
 public:
  template <class T>
  static std::coroutine_handle<TaskPromise<T>> handle(const Task<T>& task) noexcept {
    return task.handle_;
  }
  template <class T>
  static std::coroutine_handle<TaskPromise<T>> release(Task<T>& task) noexcept {
    return std::exchange(task.handle_, nullptr);
  }
};

}  // namespace detail
}  // namespace baton
