// Proactor::spawn: a detached task frees itself.
#include "base/assert.hpp"
#include "baton/coro/task.hpp"
#include "baton/proactor.hpp"
#include "coro/destroy_finished.hpp"

namespace baton {
namespace {

std::coroutine_handle<> detached_finished(detail::TaskPromiseBase& promise,
                                          std::coroutine_handle<> self) noexcept {
  auto& proactor = *static_cast<Proactor*>(promise.owner());
  std::exception_ptr exception = std::move(promise.exception());
  detail::destroy_finished(
      self, exception);  // first: its objects are closed when the exception is reported
  if (exception && !detail::is_refusal(exception)) proactor.task_failed(exception);
  return std::noop_coroutine();
}

}  // namespace

void Proactor::spawn(Task<void> task) {
  const auto handle = detail::TaskAccess::release(task);
  if (!handle) return;
  handle.promise().set_finished(detached_finished, this);
  handle.resume();
}

}  // namespace baton
