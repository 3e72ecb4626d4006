// Destroys the frame of a task that is done.
#pragma once

#include <coroutine>
#include <exception>

namespace baton::detail {

/// Destroys a coroutine that is done. An exception of a parameter's destructor counts as the task's
/// exception, unless it has one already.
inline void destroy_finished(std::coroutine_handle<> task, std::exception_ptr& exception) noexcept {
  try {
    task.destroy();
  } catch (...) {
    if (!exception) exception = std::current_exception();
  }
}

}  // namespace baton::detail
