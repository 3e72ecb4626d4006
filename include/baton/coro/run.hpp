// run_until_complete: a task as the main program, for tools, examples and tests.
#pragma once

#include <atomic>
#include <chrono>
#include <coroutine>
#include <exception>

#include "baton/coro/cancellation.hpp"
#include "baton/coro/task.hpp"
#include "baton/deadline.hpp"
#include "baton/proactor.hpp"

namespace baton {

/// Drives the proactor in this thread until the task is done; gives its value or throws its
/// exception. Other threads may be in run() meanwhile; if one of them ends the task, this one
/// notices within 10 ms. Other operations go on when the proactor is driven again. If the proactor
/// is stopped before the task is done, goes on all the same once it is restarted - so do not stop
/// it from inside. When a handler that has nothing to do with the task throws, the task is
/// cancelled, driven to its end, and the exception leaves. An empty task ends the program with a
/// sentence.
template <class T>
T run_until_complete(Proactor& proactor, Task<T> task) {
  std::atomic<bool> done{false};
  const auto handle = detail::full(detail::TaskAccess::handle(task));
  handle.promise().set_finished(
      [](detail::TaskPromiseBase& promise,
         std::coroutine_handle<>) noexcept -> std::coroutine_handle<> {
        // release: the value is visible to the thread that sees it.
        static_cast<std::atomic<bool>*>(promise.owner())->store(true, std::memory_order_release);
        return std::noop_coroutine();
      },
      &done);
  CancellationSource source{proactor};
  const CancellationToken token = source.token();
  const TaskContext context{.cancellation = token.state(), .proactor = &proactor};
  handle.promise().set_context(&context);
  handle.resume();
  constexpr Duration look = std::chrono::milliseconds(10);
  std::exception_ptr thrown;
  while (!done.load(std::memory_order_acquire)) {
    try {
      static_cast<void>(proactor.run_one(Deadline::after(look, proactor.now())));
    } catch (...) {
      if (thrown == nullptr) thrown = std::current_exception();
      source.cancel();
    }
  }
  if (thrown != nullptr) std::rethrow_exception(thrown);
  return handle.promise().take();
}

}  // namespace baton
