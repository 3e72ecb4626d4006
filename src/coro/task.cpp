// What of tasks is not inline: the scope's token, and the way back into the strand.
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

std::coroutine_handle<> StrandReturn::come_back() noexcept {
  if (context_->strand->running_in_this_thread()) return waiter_;
  operation_.set_strand(context_->strand);
  operation_.set_completion(
      [](Operation& operation) {
        static_cast<StrandReturn*>(operation.context())->waiter_.resume();
      },
      this);
  const std::coroutine_handle<> waiter = waiter_;
  // When nothing can be posted any more, nothing runs besides this thread either.
  if (context_->proactor->post(operation_)) return waiter;
  return std::noop_coroutine();  // and this may be gone
}

}  // namespace detail
}  // namespace baton
