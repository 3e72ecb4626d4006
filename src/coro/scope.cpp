// Scope: counts its tasks, keeps the first exception, resumes the joiner.
#include "baton/coro/scope.hpp"

#include <new>
#include <system_error>
#include <utility>

#include "base/assert.hpp"
#include "baton/error.hpp"
#include "baton/misuse.hpp"
#include "baton/proactor.hpp"
#include "coro/destroy_finished.hpp"
#include "os/fork.hpp"
#include "os/mutex.hpp"

namespace baton {
namespace {

static_assert(sizeof(os::Mutex) == 4 && alignof(os::Mutex) <= alignof(std::uint32_t));

os::Mutex& mutex_in(std::byte* bytes) noexcept {
  return *std::launder(reinterpret_cast<os::Mutex*>(bytes));
}

}  // namespace

Scope::Scope(Proactor& proactor, ScopeOptions options)
    : proactor_(proactor),
      strand_(options.strand ? std::make_unique<Strand>(proactor) : nullptr),
      source_(proactor),
      outer_(std::move(options.token)) {
  ::new (static_cast<void*>(mutex_)) os::Mutex;
  context_.strand = strand_.get();
  context_.cancellation = source_.token().state();  // lives as long as source_
  context_.proactor = &proactor;
  if (outer_.state() != nullptr && !outer_.state()->add(outer_node_)) cancel();
}

Scope::~Scope() {
  // Its tasks belong to threads that do not exist here, and one of them may hold the mutex.
  if (source_.token().state()->of_parent()) return;
  if (running() != 0) {
    detail::misused(
        "a scope was destroyed while its tasks run: await join() first, after an exception too");
  }
  if (first_ != nullptr) {
    detail::misused(
        "a scope was destroyed with an exception of a task that no join has thrown: await join() "
        "first");
  }
  if (outer_.state() != nullptr) outer_.state()->remove(outer_node_);
  // The last task may still be inside the strand.
  Strand::retire(std::move(strand_));
}

void Scope::spawn(Task<void> task) {
  const auto handle = detail::TaskAccess::release(task);
  if (!handle) return;
  handle.promise().set_context(&context_);
  handle.promise().set_finished(finished, this);
  {
    const os::LockGuard guard(mutex_in(mutex_), proactor_.system());
    ++running_;
  }
  if (strand_ == nullptr || strand_->running_in_this_thread()) {
    handle.resume();
    return;
  }
  CachedOperation* const operation = proactor_.take_cached();
  std::error_code error = std::make_error_code(std::errc::not_enough_memory);
  if (operation != nullptr) {
    operation->prepare(OperationKind::user, nullptr, Operation::cached);
    operation->set_strand(strand_.get());
    operation->emplace_handler([handle](Operation&) { handle.resume(); });
    error = proactor_.start_cached(*operation,
                                   [this](Operation& cached) { return proactor_.post(cached); });
  }
  if (!error) return;
  handle.destroy();
  failed(std::make_exception_ptr(std::system_error(error, "a task could not be started")));
  one_less().resume();
}

// Runs at the end of each task, on its thread, still inside the strand.
std::coroutine_handle<> Scope::finished(detail::TaskPromiseBase& promise,
                                        std::coroutine_handle<> self) noexcept {
  Scope& scope = *static_cast<Scope*>(promise.owner());
  std::exception_ptr exception = std::move(promise.exception());
  detail::destroy_finished(self, exception);  // its objects are gone before join returns
  if (exception && !detail::is_refusal(exception)) scope.failed(std::move(exception));
  return scope.one_less();
}

void Scope::failed(std::exception_ptr exception) noexcept {
  bool first = false;
  {
    const os::LockGuard guard(mutex_in(mutex_), proactor_.system());
    first = first_ == nullptr;
    if (first) {
      first_ = std::move(exception);
    } else {
      ++dropped_;
    }
  }
  if (first) cancel();
}

// Returns the coroutine to resume. After the lock the scope may be gone.
std::coroutine_handle<> Scope::one_less() noexcept {
  JoinAwaiter* joiner = nullptr;
  {
    const os::LockGuard guard(mutex_in(mutex_), proactor_.system());
    BATON_ASSERT(running_ > 0);
    if (--running_ == 0) joiner = std::exchange(joiner_, nullptr);
  }
  if (joiner == nullptr) return std::noop_coroutine();
  // Posted, not resumed here, because the joiner has another strand, or none. The post is refused
  // only in a forked child, where this thread is the only one.
  const std::coroutine_handle<> waiter = joiner->waiter_;
  if (!joiner->scope_.proactor_.post(joiner->operation_)) return std::noop_coroutine();
  return waiter;
}

bool Scope::wait_for_the_last(JoinAwaiter& joiner) noexcept {
  const os::LockGuard guard(mutex_in(mutex_), proactor_.system());
  if (running_ == 0) return false;
  if (joiner_ != nullptr) {
    joiner.refused_ = make_error_code(errc::operation_in_use);
    return false;
  }
  joiner_ = &joiner;
  return true;
}

std::size_t Scope::running() const noexcept {
  const os::LockGuard guard(mutex_in(mutex_), proactor_.system());
  return running_;
}

std::size_t Scope::exceptions_dropped() const noexcept {
  const os::LockGuard guard(mutex_in(mutex_), proactor_.system());
  return dropped_;
}

bool Scope::JoinAwaiter::suspend(std::coroutine_handle<> waiter,
                                 const TaskContext* context) noexcept {
  outer_ = context != nullptr ? context->cancellation : nullptr;
  if (outer_ != nullptr && outer_ == scope_.context_.cancellation) {
    outer_ = nullptr;
    refused_ = std::make_error_code(std::errc::resource_deadlock_would_occur);
    return false;
  }
  waiter_ = waiter;
  operation_.prepare(OperationKind::user, nullptr, Operation::internal);
  operation_.set_strand(context != nullptr ? context->strand : nullptr);
  operation_.set_completion(
      [](Operation& operation) {
        static_cast<JoinAwaiter*>(operation.context())->waiter_.resume();
      },
      this);
  // Cancelling the outer scope cancels this one.
  if (outer_ != nullptr && !outer_->add(node_)) scope_.cancel();
  suspended_ = true;
  return scope_.wait_for_the_last(*this);  // true: *this may be gone
}

void Scope::JoinAwaiter::destroyed_while_suspended() const noexcept {
  BATON_ASSERT(!suspended_ || os::left_behind.load(std::memory_order_relaxed));
}

void Scope::JoinAwaiter::await_resume() {
  suspended_ = false;
  if (outer_ != nullptr) outer_->remove(node_);
  if (refused_) {
    throw std::system_error(refused_, refused_ == errc::operation_in_use
                                          ? "a scope is joined twice at the same time"
                                          : "a task joins its own scope");
  }
  std::exception_ptr first;
  {
    const os::LockGuard guard(mutex_in(scope_.mutex_), scope_.proactor_.system());
    first = std::exchange(scope_.first_, nullptr);
  }
  if (first) std::rethrow_exception(first);
}

}  // namespace baton
