// run_until_complete: the end of the task.
#include "baton/coro/run.hpp"

#include <cstdint>

#include "baton/driving_refused.hpp"
#include "coro/destroy_finished.hpp"
#include "os/system.hpp"

namespace baton::detail {

TaskRun::TaskRun(Proactor& proactor, TaskPromiseBase& promise)
    : source_(proactor), context_{.cancellation = source_.token().state(), .proactor = &proactor} {
  promise.set_finished(finished, this);
  promise.set_context(&context_);
}

// acq_rel, here and below: the thread that takes the value sees it, and another thread frees the
// task only after it has ended.
std::coroutine_handle<> TaskRun::finished(TaskPromiseBase& promise,
                                          std::coroutine_handle<> self) noexcept {
  auto* const run = static_cast<TaskRun*>(promise.owner());
  if (run->state_.exchange(State::done, std::memory_order_acq_rel) == State::left) {
    std::exception_ptr exception = std::move(promise.exception());
    destroy_finished(self, exception);
    delete run;
  }
  return std::noop_coroutine();
}

bool TaskRun::leave() noexcept {
  return state_.exchange(State::left, std::memory_order_acq_rel) != State::done;
}

void let_pass(const Proactor& proactor, Duration span) noexcept {
  const os::System& system = proactor.system();
  std::atomic<std::uint32_t> never_changes{0};
  system.futex_wait(&never_changes, 0, system.monotonic_ns() + span.count());
}

bool forbids_driving(const Proactor& proactor, const std::exception_ptr& exception) noexcept {
  try {
    std::rethrow_exception(exception);
  } catch (const DrivingRefused& refused) {
    return refused.is_of(proactor);
  } catch (...) {
    return false;
  }
}

}  // namespace baton::detail
