// Scope: a set of tasks that is joined. The task that opens a scope waits for all tasks spawned in
// it, so that no task outlives the objects that it uses.
//
//   Scope scope{proactor};
//   scope.spawn(reader(socket));
//   scope.spawn(writer(socket));
//   co_await scope.join();          // rethrows the first exception
//
// The tasks of a scope share a strand unless asked otherwise: they may use each other's data
// without a lock, for they run one at a time. The first exception cancels the others.
#pragma once

#include <atomic>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <system_error>

#include "baton/coro/awaitable.hpp"
#include "baton/coro/cancellation.hpp"
#include "baton/coro/task.hpp"
#include "baton/export.hpp"
#include "baton/fwd.hpp"
#include "baton/operation.hpp"
#include "baton/strand.hpp"

namespace baton {

/// How the tasks of a scope run, and what cancels them.
struct ScopeOptions {
  bool strand = true;  ///< the tasks never run at the same time
  /// Cancels the scope, as cancel() does. A scope that is awaited inside a task of another scope is
  /// also cancelled with that one.
  CancellationToken token{};
};

class BATON_EXPORT Scope {
 public:
  /// Throws std::bad_alloc.
  explicit Scope(Proactor& proactor, ScopeOptions options = {});
  /// REQUIRES: no task is running, and no exception of a task waits for join; else the program ends
  /// with a message, as with std::thread. When something between spawn and join may throw, catch
  /// it, cancel() and join. In the child of a fork a scope of the parent may be destroyed at any
  /// time.
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

  /// Starts a task: at once, on the calling thread, without a strand or from inside the scope's own
  /// strand; else as posted work. Any thread, but not concurrently with the end of join. If it
  /// cannot be posted (the proactor is stopped), join throws std::system_error.
  void spawn(Task<void> task);

  /// Cancels everything that the tasks wait for, now and later. Any thread.
  void cancel() noexcept { source_.cancel(); }
  /// Whether the scope was cancelled.
  [[nodiscard]] bool cancelled() const noexcept { return source_.cancelled(); }
  /// A token that is cancelled with the scope.
  [[nodiscard]] CancellationToken token() const noexcept { return source_.token(); }

  /// Waits until no task is left, then throws the first exception, if there was one. Afterwards the
  /// scope may be used again (a cancelled one stays cancelled). One at a time: a second join throws
  /// std::system_error(errc::operation_in_use) and leaves the first as it is. A task of the scope
  /// itself would wait for its own end: std::system_error(resource_deadlock_would_occur).
  class JoinAwaiter;
  [[nodiscard("the scope must be awaited")]] JoinAwaiter join() noexcept;  ///< waits for all tasks

  [[nodiscard]] std::size_t running() const noexcept;  ///< tasks that have not ended
  /// Exceptions that no join has thrown, because another one came first; since the scope was made.
  [[nodiscard]] std::size_t exceptions_dropped() const noexcept;

 private:
  static std::coroutine_handle<> finished(detail::TaskPromiseBase& promise,
                                          std::coroutine_handle<> self) noexcept;
  void failed(std::exception_ptr exception) noexcept;
  std::coroutine_handle<> one_less() noexcept;
  bool wait_for_the_last(JoinAwaiter& joiner) noexcept;

  Proactor& proactor_;
  std::unique_ptr<Strand> strand_;
  CancellationSource source_;
  CancellationToken outer_;
  detail::CancellationNode outer_node_{*source_.token().state()};
  TaskContext context_;
  alignas(std::uint32_t) mutable std::byte mutex_[4];  // os::Mutex
  // Guarded by the mutex.
  std::size_t running_ = 0;
  std::size_t dropped_ = 0;
  std::exception_ptr first_;
  JoinAwaiter* joiner_ = nullptr;
};

/// The awaitable of join(): awaited once, at once.
class BATON_EXPORT Scope::JoinAwaiter {
 public:
  using keeps_task_context = void;
  explicit JoinAwaiter(Scope& scope) noexcept
      : scope_(scope), node_(*scope.source_.token().state()) {}
  JoinAwaiter(const JoinAwaiter&) = delete;
  JoinAwaiter& operator=(const JoinAwaiter&) = delete;
  /// REQUIRES: not suspended: destroying a coroutine that joins ends the program here.
  ~JoinAwaiter() {
    if (suspended_) destroyed_while_suspended();
  }

  [[nodiscard]] bool await_ready() const noexcept { return false; }
  template <class Promise>
  bool await_suspend(std::coroutine_handle<Promise> waiter) noexcept {
    return suspend(waiter, detail::context_of(waiter));
  }
  void await_resume();

 private:
  friend class Scope;
  bool suspend(std::coroutine_handle<> waiter, const TaskContext* context) noexcept;
  void destroyed_while_suspended() const noexcept;

  Scope& scope_;
  Operation operation_;  // brings the waiter back into its own strand
  std::coroutine_handle<> waiter_;
  detail::CancellationState* outer_ = nullptr;
  detail::CancellationNode node_;
  std::error_code refused_;
  bool suspended_ = false;  // until it is resumed
};

inline Scope::JoinAwaiter Scope::join() noexcept { return JoinAwaiter{*this}; }

}  // namespace baton
