// The parts of tasks that are not inline: the scope's token, and the return into the strand.
#include "baton/coro/task.hpp"

#include "baton/proactor.hpp"
#include "baton/strand.hpp"

namespace baton {

CancellationToken TaskContext::token() const noexcept {
  if (cancellation == nullptr) return {};
  cancellation->acquire();
  return CancellationToken{detail::CancellationReference{cancellation}};
}

namespace detail {

TaskRefused::TaskRefused(std::error_code reason)
    : std::system_error(
          reason, "a task ignored the results of its operations, each of which was refused") {}

// Not inline: its temporaries would make gcc guard the stack at each resumption of a task.
void TaskPromiseBase::unhandled_exception() noexcept { exception_ = std::current_exception(); }

void TaskPromiseBase::count_refusal(std::error_code reason) {
  // Canceled: by a token, before the start.
  if (reason != errc::stopped && reason != errc::after_fork &&
      reason != std::errc::operation_canceled) {
    return;
  }
  refusals_ = starts_ == refused_start_ + 1 ? refusals_ + 1 : 1;
  refused_start_ = starts_;
  if (refusals_ > refusals_max) throw TaskRefused{reason};
}

bool is_refusal(const std::exception_ptr& exception) noexcept {
  try {
    std::rethrow_exception(exception);
  } catch (const TaskRefused&) {
    return true;
  } catch (...) {
    return false;
  }
}

std::coroutine_handle<> StrandReturn::come_back() noexcept {
  if (context_->strand->running_in_this_thread()) return waiter_;
  operation_.prepare(OperationKind::user, nullptr, Operation::internal);
  operation_.set_strand(context_->strand);
  operation_.set_completion(
      [](Operation& operation) {
        static_cast<StrandReturn*>(operation.context())->waiter_.resume();
      },
      this);
  const std::coroutine_handle<> waiter = waiter_;
  // The post is refused only in a forked child, where this thread is the only one.
  if (context_->proactor->post(operation_)) return waiter;
  return std::noop_coroutine();  // *this may be gone
}

}  // namespace detail
}  // namespace baton
