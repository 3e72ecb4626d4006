// run_until_complete: a task as the main program, for tools, examples and tests.
#pragma once

#include <atomic>
#include <chrono>
#include <coroutine>
#include <exception>
#include <memory>

#include "baton/coro/cancellation.hpp"
#include "baton/coro/frame_cache.hpp"
#include "baton/coro/task.hpp"
#include "baton/deadline.hpp"
#include "baton/export.hpp"
#include "baton/proactor.hpp"

namespace baton {

namespace detail {

/// Belongs to run_until_complete until the task is done, or, after leave(), to the task.
class BATON_EXPORT TaskRun {
 public:
  TaskRun(Proactor& proactor, TaskPromiseBase& promise);
  // From the cache of frames: a run allocates nothing.
  static void* operator new(std::size_t size) { return allocate_frame(size); }
  static void operator delete(void* memory, std::size_t size) noexcept { free_frame(memory, size); }

  [[nodiscard]] bool done() const noexcept {
    // acquire: the value of the task is visible.
    return state_.load(std::memory_order_acquire) == State::done;
  }
  void cancel() noexcept { source_.cancel(); }
  /// From now on the end of the task frees the task and this object. False: the task is done.
  bool leave() noexcept;

 private:
  enum class State : std::uint8_t { runs, done, left };
  static std::coroutine_handle<> finished(TaskPromiseBase& promise,
                                          std::coroutine_handle<> self) noexcept;

  CancellationSource source_;
  const TaskContext context_;
  std::atomic<State> state_{State::runs};
};

/// Waits for `span`, because the proactor is stopped and driving it would run nothing.
BATON_EXPORT void let_pass(const Proactor& proactor, Duration span) noexcept;

/// This thread cannot drive the proactor at all (DrivingRefused).
[[nodiscard]] BATON_EXPORT bool forbids_driving(const Proactor& proactor,
                                                const std::exception_ptr& exception) noexcept;

}  // namespace detail

/// Drives the proactor in this thread until the task is done; gives its value or throws its
/// exception. Other threads may be in run() meanwhile; if one of them ends the task, this one
/// notices within 10 ms. Other operations go on when the proactor is driven again. If the proactor
/// is stopped before the task is done, goes on all the same once it is restarted - so do not stop
/// it from inside. When a handler that has nothing to do with the task throws, the task is
/// cancelled, driven to its end, and the exception leaves. An empty task ends the program with a
/// message.
///
/// If this thread cannot drive the proactor to that end, DrivingRefused leaves with
/// errc::wrong_thread (see Proactor::run) or, in a forked child, errc::after_fork. The task was
/// cancelled then and is detached: it ends, and its result is dropped, when its lane is driven
/// again, or in the proactor's destructor. So what it refers to must live until then
/// (FinishAtEnd).
template <class T>
T run_until_complete(Proactor& proactor, Task<T> task) {
  const auto handle = detail::full(detail::TaskAccess::handle(task));
  auto run = std::make_unique<detail::TaskRun>(proactor, handle.promise());
  handle.resume();
  constexpr Duration look = std::chrono::milliseconds(10);
  std::exception_ptr thrown;
  while (!run->done()) {
    try {
      static_cast<void>(proactor.run_one(Deadline::after(look, proactor.now())));
      if (proactor.stopped() && !run->done()) detail::let_pass(proactor, look);
    } catch (...) {
      if (thrown == nullptr) thrown = std::current_exception();
      run->cancel();
      if (!detail::forbids_driving(proactor, std::current_exception()) || !run->leave()) continue;
      static_cast<void>(detail::TaskAccess::release(task));
      static_cast<void>(run.release());
      break;
    }
  }
  if (thrown != nullptr) std::rethrow_exception(thrown);
  return handle.promise().take();
}

}  // namespace baton
