// Task<T>: a lazy coroutine. It starts when it is awaited or spawned. It runs on the thread that
// resumes it, never on two at once. Its value or its exception goes to the coroutine that awaits
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
#include <cstdint>
#include <exception>
#include <optional>
#include <system_error>
#include <type_traits>
#include <utility>

#include "baton/coro/cancellation.hpp"
#include "baton/coro/frame_cache.hpp"
#include "baton/export.hpp"
#include "baton/fwd.hpp"
#include "baton/misuse.hpp"
#include "baton/operation.hpp"

namespace baton {

template <class T>
class Task;

/// What a coroutine inherits from the one that awaits it, or from its scope. It belongs to the
/// scope and is alive as long as one of its tasks runs.
struct BATON_EXPORT TaskContext {
  Strand* strand = nullptr;                           ///< its resumptions run in it
  detail::CancellationState* cancellation = nullptr;  ///< ends what it waits for
  Proactor* proactor = nullptr;                       ///< the scope's

  [[nodiscard]] CancellationToken token() const noexcept;  ///< the scope's
};

namespace detail {

/// An awaitable that resumes a task in its strand by itself, as those of the library do. Declared
/// by `using keeps_task_context = void;`, also by a user's own that only passes one of them on.
template <class Awaitable>
concept KeepsTaskContext =
    requires { typename std::remove_reference_t<Awaitable>::keeps_task_context; };
template <class Awaitable>
class ForeignAwaiter;

/// The library's own, awaited where it is. (gcc 12 moves the result of await_transform before it
/// awaits it, even if that is a reference.)
template <class Awaiter>
struct OwnAwaiter {
  Awaiter& inner;
  [[nodiscard]] bool await_ready() const noexcept { return inner.await_ready(); }
  template <class Promise>
  [[gnu::always_inline]] auto await_suspend(std::coroutine_handle<Promise> waiter) const {
    return inner.await_suspend(waiter);
  }
  decltype(auto) await_resume() const { return inner.await_resume(); }
};

/// Thrown into a task that ignores that each of its starts is refused, because the proactor was
/// stopped, its scope or token was cancelled, or this is a forked child. It never suspends and
/// would hold its thread for ever. It ends spawned tasks and tasks of scopes without a report;
/// run_until_complete and co_await pass it on.
class BATON_EXPORT TaskRefused final : public std::system_error {
 public:
  explicit TaskRefused(std::error_code reason);
};
/// Refused starts in a row that a task may overlook.
inline constexpr std::uint32_t refusals_max = 1'000;
/// The task has ended by TaskRefused, which is not reported as an exception.
[[nodiscard]] BATON_EXPORT bool is_refusal(const std::exception_ptr& exception) noexcept;

/// What all promises share. The members belong to the thread that holds the coroutine at that
/// moment.
class TaskPromiseBase {
 public:
  /// Called at the end instead of the resumption of a continuation; answers the coroutine to
  /// resume. It may destroy the coroutine, which is suspended by then (gcc 15.2 touches it
  /// afterwards: bug 121961).
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
  BATON_EXPORT void unhandled_exception() noexcept;

  /// The library's awaitables are awaited as they are; all others through ForeignAwaiter.
  template <KeepsTaskContext Awaitable>
  [[nodiscard]] auto await_transform(Awaitable&& awaitable) const noexcept {
    if constexpr (requires { static_cast<Awaitable&&>(awaitable).operator co_await(); }) {
      return static_cast<Awaitable&&>(awaitable).operator co_await();
    } else {
      return OwnAwaiter<std::remove_reference_t<Awaitable>>{awaitable};
    }
  }
  template <class Awaitable>
  [[nodiscard]] ForeignAwaiter<Awaitable> await_transform(Awaitable&& awaitable) const {
    return ForeignAwaiter<Awaitable>{static_cast<Awaitable&&>(awaitable)};
  }

  [[nodiscard]] const TaskContext* context() const noexcept { return context_; }
  void set_context(const TaskContext* context) noexcept { context_ = context; }
  void set_continuation(std::coroutine_handle<> handle) noexcept { continuation_ = handle; }
  void set_finished(Finished finished, void* owner) noexcept {
    finished_ = finished;
    owner_ = owner;
  }
  [[nodiscard]] void* owner() const noexcept { return owner_; }
  /// Before each start, so that count_refusal() can tell refusals in a row: a start that suspends
  /// leaves nothing to do afterwards, when another thread may hold the coroutine.
  void count_start() noexcept { ++starts_; }
  /// After a start that has failed. Counts it if the proactor or a cancel refused it, and throws
  /// TaskRefused instead of the last one that may be overlooked.
  BATON_EXPORT void count_refusal(std::error_code reason);
  [[nodiscard]] std::exception_ptr& exception() noexcept { return exception_; }

 private:
  std::coroutine_handle<> continuation_ = std::noop_coroutine();
  const TaskContext* context_ = nullptr;
  Finished finished_ = nullptr;
  void* owner_ = nullptr;
  std::exception_ptr exception_;
  std::uint32_t starts_ = 0;
  std::uint32_t refused_start_ = 0;  // the last one that was refused
  std::uint32_t refusals_ = 0;       // up to that one, with no other start between
};

/// gcc 12 lays out the frame of some coroutines wrongly: those that await in the very condition of
/// an if, while, do, for or switch (`if (co_await f())`) while no variable is declared in the block
/// around it. The condition's value then stands in front of the frame's head, and a handle made
/// from the promise resumes garbage. Such a handle does not name the memory that was allocated for
/// the frame, so the program ends here, with the reason. The cure: `auto result = co_await f(); if
/// (result)`, or `if (auto result = co_await f())`.
template <class Promise>
std::coroutine_handle<Promise> checked_handle(Promise& promise) noexcept {
  const auto handle = std::coroutine_handle<Promise>::from_promise(promise);
  // Clang allocates frames correctly. It may also keep a frame in its caller's frame or on the
  // stack, where it was not allocated.
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
  template <std::convertible_to<T> U = T>  // of a braced list, too
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

/// The context of a coroutine that awaits something.
template <class Promise>
const TaskContext* context_of(std::coroutine_handle<Promise> handle) noexcept {
  if constexpr (std::derived_from<Promise, TaskPromiseBase>) {
    return handle.promise().context();
  } else if constexpr (!std::is_void_v<Promise>) {
    static_assert(
        requires(Promise& promise) {
          { promise.task_context() } -> std::convertible_to<const TaskContext*>;
        },
        "a coroutine type that awaits operations says what it inherits, or a scope's strand and "
        "its cancellation would be lost: give its promise a member `const baton::TaskContext* "
        "task_context() const noexcept` (docs/guide/coroutines.md)");
    return handle.promise().task_context();
  } else {
    static_assert(!std::is_void_v<Promise>,
                  "an awaiter that passes an operation on hands it the coroutine with its promise: "
                  "make await_suspend a template over std::coroutine_handle<Promise>");
    return nullptr;
  }
}

/// The coroutine of a task that is to run.
template <class Promise>
std::coroutine_handle<Promise> full(std::coroutine_handle<Promise> handle) noexcept {
  if (!handle) [[unlikely]] {
    misused(
        "an empty task was awaited or run: it is default-constructed, moved from, or was awaited "
        "before; make a new one");
  }
  return handle;
}

class TaskAccess;

}  // namespace detail

template <class T = void>
class [[nodiscard("a task does nothing until it is awaited or spawned")]] Task {
  static_assert(!std::is_reference_v<T>, "return a pointer");

 public:
  using promise_type = detail::TaskPromise<T>;
  using keeps_task_context = void;

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

  /// Owns the coroutine from the await on.
  class Awaiter {
   public:
    explicit Awaiter(std::coroutine_handle<promise_type> task) noexcept : task_(task) {}
    Awaiter(const Awaiter&) = delete;
    Awaiter& operator=(const Awaiter&) = delete;
    ~Awaiter() { task_.destroy(); }
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
  /// Starts it; gives its value or throws its exception. Once: `co_await std::move(task)`. A task
  /// that is empty - default-constructed, moved from, or awaited before - ends the program with a
  /// message.
  Awaiter operator co_await() && noexcept {
    return Awaiter{detail::full(std::exchange(handle_, nullptr))};
  }

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

/// Brings a task back into its strand when something foreign has resumed it.
class BATON_EXPORT StrandReturn {
 public:
  void begin(std::coroutine_handle<> waiter, const TaskContext& context) noexcept {
    waiter_ = waiter;
    context_ = &context;
  }
  /// Called by any thread. If the thread is in the strand, or nothing can be posted any more,
  /// returns the waiter; else posts the waiter into the strand and returns a coroutine that does
  /// nothing.
  std::coroutine_handle<> come_back() noexcept;

 private:
  std::coroutine_handle<> waiter_;
  const TaskContext* context_ = nullptr;
  Operation operation_;
};

/// Finds the awaiter of an awaitable, as co_await does.
template <class Awaitable>
decltype(auto) awaiter_of(Awaitable&& awaitable) {
  if constexpr (requires { static_cast<Awaitable&&>(awaitable).operator co_await(); }) {
    return static_cast<Awaitable&&>(awaitable).operator co_await();
  } else if constexpr (requires { operator co_await(static_cast<Awaitable&&>(awaitable)); }) {
    return operator co_await(static_cast<Awaitable&&>(awaitable));
  } else {
    return static_cast<Awaitable&&>(awaitable);
  }
}

/// An await of something that is not the library's: a future, another library's operation, a
/// coroutine type of the user. Without a strand it is as if this were not there. With one, a
/// coroutine in between awaits it, and its end, on whatever thread that comes, brings the task back
/// into the strand. The scope's cancellation does not reach it, unless it asks for the context.
template <class Awaitable>
class ForeignAwaiter {
 public:
  explicit ForeignAwaiter(Awaitable&& awaitable)
      : inner_(awaiter_of(static_cast<Awaitable&&>(awaitable))) {}
  ForeignAwaiter(const ForeignAwaiter&) = delete;
  ForeignAwaiter& operator=(const ForeignAwaiter&) = delete;

  bool await_ready() { return inner_.await_ready(); }
  template <class Promise>
  std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> waiter) {
    const TaskContext* const context = context_of(waiter);
    if (context == nullptr || context->strand == nullptr) return suspend(inner_, waiter);
    return begin(waiter, *context);
  }
  decltype(auto) await_resume() {
    if (between_) rethrow();
    return inner_.await_resume();
  }

 private:
  using Inner = decltype(awaiter_of(std::declval<Awaitable>()));

  // What the coroutine in between awaits.
  struct Passed {
    using keeps_task_context = void;
    std::remove_reference_t<Inner>& inner;
    [[nodiscard]] bool await_ready() const noexcept { return false; }
    template <class Promise>
    std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> waiter) {
      return suspend(inner, waiter);
    }
    void await_resume() const noexcept {}
  };

  template <class Promise>
  static std::coroutine_handle<> suspend(std::remove_reference_t<Inner>& inner,
                                         std::coroutine_handle<Promise> waiter) {
    using Answer = decltype(inner.await_suspend(waiter));
    if constexpr (std::is_void_v<Answer>) {
      inner.await_suspend(waiter);
      return std::noop_coroutine();
    } else if constexpr (std::is_same_v<Answer, bool>) {
      return inner.await_suspend(waiter) ? std::coroutine_handle<>{std::noop_coroutine()} : waiter;
    } else {
      return inner.await_suspend(waiter);
    }
  }
  static Task<void> between(std::remove_reference_t<Inner>& inner);
  std::coroutine_handle<> begin(std::coroutine_handle<> waiter, const TaskContext& context);
  void rethrow() {
    std::coroutine_handle<TaskPromise<void>>::from_address(between_).promise().take();
  }

  struct Frame {
    void* address = nullptr;
    explicit operator bool() const noexcept { return address != nullptr; }
    operator void*() const noexcept { return address; }  // NOLINT
    ~Frame() {
      if (address != nullptr) std::coroutine_handle<>::from_address(address).destroy();
    }
  };

  Inner inner_;
  StrandReturn return_;
  Frame between_;
};

/// For code that runs tasks: spawn, scopes, run_until_complete.
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

template <class Awaitable>
Task<void> ForeignAwaiter<Awaitable>::between(std::remove_reference_t<Inner>& inner) {
  co_await Passed{inner};
}

template <class Awaitable>
std::coroutine_handle<> ForeignAwaiter<Awaitable>::begin(std::coroutine_handle<> waiter,
                                                         const TaskContext& context) {
  Task<void> task = between(inner_);
  const auto handle = TaskAccess::release(task);
  between_.address = handle.address();
  return_.begin(waiter, context);
  handle.promise().set_context(&context);
  handle.promise().set_finished(
      [](TaskPromiseBase& promise, std::coroutine_handle<>) noexcept {
        return static_cast<StrandReturn*>(promise.owner())->come_back();
      },
      &return_);
  return handle;
}

}  // namespace detail

/// `co_await own_context()` in a task: its scope's strand, cancellation and proactor; null in a
/// task without a scope. Never suspends.
class OwnContext {
 public:
  using keeps_task_context = void;
  [[nodiscard]] bool await_ready() const noexcept { return false; }
  template <class Promise>
  bool await_suspend(std::coroutine_handle<Promise> task) noexcept {
    context_ = detail::context_of(task);
    return false;
  }
  [[nodiscard]] const TaskContext* await_resume() const noexcept { return context_; }

 private:
  const TaskContext* context_ = nullptr;
};
/// The context of the task that awaits it: `co_await own_context()`.
[[nodiscard]] inline OwnContext own_context() noexcept { return {}; }

/// A coroutine type of the user's own keeps this of the coroutine that awaits it. Its awaiter's
/// await_suspend calls it, and its promise's task_context() returns it. Null: nothing to inherit.
template <class Promise>
[[nodiscard]] const TaskContext* task_context_of(std::coroutine_handle<Promise> parent) noexcept {
  return detail::context_of(parent);
}

}  // namespace baton
