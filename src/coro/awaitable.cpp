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

OperationAwaiter::Node::Node(OperationAwaiter& owner) noexcept
    : CancellationNode([](CancellationNode& node) noexcept {
        static_cast<Node&>(node).awaiter.request_cancel();
      }),
      awaiter(owner) {}

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

OperationAwaiter::Begin OperationAwaiter::begin_generally(std::coroutine_handle<> waiter,
                                                          const TaskContext* context) noexcept {
  BATON_ASSERT(proactor_ != nullptr);
  waiter_ = waiter;
  operation_->set_strand(context != nullptr ? context->strand : nullptr);
  // A close is never cancelled: a cancelled coroutine still closes its objects.
  if (operation_->kind() != OperationKind::close) {
    context_ = context != nullptr ? context->cancellation : nullptr;
    if (context_ != nullptr || hook_ != nullptr) return begin_cancellable();
  }
  operation_->set_completion(resume, waiter.address());
  if (const std::error_code error = launch(*proactor_, *operation_)) {
    fail(error);
    return Begin::failed;
  }
  return Begin::suspended;
}

OperationAwaiter::Begin OperationAwaiter::begin_cancellable() noexcept {
  phase_.store(0, std::memory_order_relaxed);
  if (hook_ != nullptr) hook_->arm(*this);
  if (context_ != nullptr) {
    Node* const node = ::new (static_cast<void*>(&node_.node)) Node(*this);
    if (!context_->add(*node)) request_cancel();
  }

  std::error_code error = std::make_error_code(std::errc::operation_canceled);
  if ((phase_.load(std::memory_order_relaxed) & asked) == 0) {
    operation_->set_completion(
        [](Operation& operation) {
          auto& self = *static_cast<OperationAwaiter*>(operation.context());
          // release: the starter sees the result; acquire: this thread sees the starter's writes.
          if ((self.phase_.fetch_or(complete, std::memory_order_acq_rel) & begun) == 0) return;
          self.disarm();
          self.waiter_.resume();
        },
        this);
    error = launch(*proactor_, *operation_);
  }
  if (error) {
    disarm();
    fail(error);
    return Begin::failed;
  }

  // The operation is started, and this awaiter still exists: see the comment of the class.
  std::uint8_t found = 0;
  if (phase_.compare_exchange_strong(found, begun, std::memory_order_acq_rel)) {
    return Begin::suspended;
  }
  if ((found & asked) != 0) proactor_->cancel(*operation_);
  if ((phase_.fetch_or(begun, std::memory_order_acq_rel) & complete) == 0) return Begin::suspended;
  disarm();
  return Begin::finished;
}

void OperationAwaiter::disarm() noexcept {
  if (context_ != nullptr) context_->remove(node_.node);
  if (hook_ != nullptr) hook_->disarm();
}

void OperationAwaiter::request_cancel() noexcept {
  // acquire: this thread sees the operation as the starter left it.
  if ((phase_.fetch_or(asked, std::memory_order_acq_rel) & begun) != 0) {
    proactor_->cancel(*operation_);
  }
}

void OperationAwaiter::fail(std::error_code error) noexcept {
  if (error.category() == error_category()) {
    operation_->finish(static_cast<errc>(error.value()));
  } else {
    operation_->finish(error.value());
  }
}

}  // namespace baton::detail
