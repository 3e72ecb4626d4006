// Starting an operation for a coroutine, and resuming the coroutine when it is complete.
#include "baton/coro/awaitable.hpp"

#include <new>

#include "base/assert.hpp"

namespace baton::detail {
namespace {

// REQUIRES: after a success the caller touches nothing that the completion may have destroyed.
std::error_code launch(Proactor& proactor, Operation& operation) noexcept {
  return operation.kind() == OperationKind::user ? proactor.post(operation)
                                                 : proactor.start(operation);
}

}  // namespace

OperationAwaiter::Meeting::Meeting(OperationAwaiter& owner, Operation& awaited,
                                   std::coroutine_handle<> waiting, CancellationState* own) noexcept
    : CancellationNode([](CancellationNode& node) noexcept {
        static_cast<Meeting&>(node).awaiter.request_cancel();
      }),
      awaiter(owner),
      operation(awaited),
      waiter(waiting),
      context(own) {}

TokenHook::Node::Node() noexcept
    : CancellationNode([](CancellationNode& node) noexcept {
        static_cast<Node&>(node).awaiter->request_cancel();
      }) {}

void TokenHook::arm(OperationAwaiter& awaiter) noexcept {
  if (token_.state() == nullptr) return;
  node_.awaiter = &awaiter;
  if (!token_.state()->add(node_)) awaiter.request_cancel();
}

void TokenHook::disarm() noexcept {
  if (token_.state() != nullptr) token_.state()->remove(node_);
}

OperationAwaiter::Begin OperationAwaiter::begin_generally(Operation& operation,
                                                          std::coroutine_handle<> waiter,
                                                          const TaskContext* context) noexcept {
  BATON_ASSERT(proactor_ != nullptr);
  operation.set_strand(context != nullptr ? context->strand : nullptr);
  CancellationState* const own = context != nullptr ? context->cancellation : nullptr;
  // A close is never cancelled: a cancelled coroutine still closes its objects.
  if ((own != nullptr || hook_ != nullptr) && operation.kind() != OperationKind::close) {
    return begin_cancellable(*::new (static_cast<void*>(&place_.meeting))
                                 Meeting(*this, operation, waiter, own));
  }
  operation.set_completion(resume, waiter.address());
  if (const std::error_code error = launch(*proactor_, operation)) {
    fail(operation, error);
    return Begin::failed;
  }
  return Begin::suspended;
}

OperationAwaiter::Begin OperationAwaiter::begin_cancellable(Meeting& meeting) noexcept {
  if (hook_ != nullptr) hook_->arm(*this);
  if (meeting.context != nullptr && !meeting.context->add(meeting)) request_cancel();

  std::error_code error = std::make_error_code(std::errc::operation_canceled);
  if ((meeting.phase.load(std::memory_order_relaxed) & asked) == 0) {
    meeting.operation.set_completion(
        [](Operation& operation) {
          auto& found = *static_cast<Meeting*>(operation.context());
          // release: the starter sees the result; acquire: this thread sees the starter's writes.
          if ((found.phase.fetch_or(complete, std::memory_order_acq_rel) & begun) == 0) return;
          found.awaiter.disarm(found);
          found.waiter.resume();
        },
        &meeting);
    error = launch(*proactor_, meeting.operation);
  }
  if (error) {
    disarm(meeting);
    fail(meeting.operation, error);
    return Begin::failed;
  }

  // The operation is started, and this awaiter still exists: see the comment of the class.
  std::uint8_t found = 0;
  if (meeting.phase.compare_exchange_strong(found, begun, std::memory_order_acq_rel)) {
    return Begin::suspended;
  }
  if ((found & asked) != 0) proactor_->cancel(meeting.operation);
  if ((meeting.phase.fetch_or(begun, std::memory_order_acq_rel) & complete) == 0) {
    return Begin::suspended;
  }
  disarm(meeting);
  return Begin::finished;
}

void OperationAwaiter::disarm(Meeting& meeting) noexcept {
  if (meeting.context != nullptr) meeting.context->remove(meeting);
  if (hook_ != nullptr) hook_->disarm();
}

void OperationAwaiter::request_cancel() noexcept {
  Meeting& meeting = place_.meeting;
  // acquire: this thread sees the operation as the starter left it.
  if ((meeting.phase.fetch_or(asked, std::memory_order_acq_rel) & begun) != 0) {
    proactor_->cancel(meeting.operation);
  }
}

void OperationAwaiter::fail(Operation& operation, std::error_code error) noexcept {
  if (error.category() == error_category()) {
    operation.finish(static_cast<errc>(error.value()));
  } else {
    operation.finish(error.value());
  }
  await_ = Await::none;
}

}  // namespace baton::detail
