// Proactor: starts operations and runs the handlers of those that are complete. It puts together
// one or more processors (an engine each), the threads that drive them, timers and the queue of
// completed operations (paper 000 sections 6 and 7).
//
//   Proactor proactor{Config::from_environment()};
//   ... start something ...
//   proactor.run();   // in as many threads as you like
//
// The written contract, the same on every engine, is in docs/guide/contract.md. In short: a start
// that succeeds gives exactly one completion, never inside start. The operation and its buffers
// belong to Baton until then. Nothing is lost, and every limit has a clear error.
//
// Threads: everything here may be called from any thread at any time, from inside handlers too,
// unless a line says otherwise. In per_thread mode a start from another thread goes through the
// mailbox of the handle's home lane.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "baton/config.hpp"
#include "baton/deadline.hpp"
#include "baton/endpoint.hpp"
#include "baton/engine.hpp"
#include "baton/error.hpp"
#include "baton/handle.hpp"
#include "baton/operation.hpp"
#include "baton/pending.hpp"
#include "baton/result.hpp"
#include "baton/statistics.hpp"
#include "baton/version.hpp"

namespace baton {

template <class T>
class Task;

/// Which threads posted work wakes (P-11; paper 000 section 6.1).
enum class Notify : std::uint8_t {
  none,      ///< only queue it: a thread takes it later
  follower,  ///< wake a sleeping follower, if there is one
  strong     ///< and if there is none, interrupt a leader
};

/// The result of cancel. Only the completion says whether it was in time, and how many bytes were
/// moved.
enum class CancelResult : std::uint8_t { requested, nothing_pending };

/// The result of cancel_wait.
enum class CancelWait : std::uint8_t {
  cancelled,     ///< it completed as cancelled (its handler has been entered or will be)
  done,          ///< it had completed, or completed otherwise, or its handler has started it again
  still_running  ///< not complete at the deadline
};

/// The home of a handle or of posted work: a lane (only per_thread mode has several), and
/// optionally one of the processors of a team.
struct Home {
  static constexpr std::uint32_t here_or_next =
      ~0U;  ///< the calling thread's lane, else round robin
  /// For an accepted connection: Config::accept_policy decides, and the table of handles keeps a
  /// place for it (limits::handles_for_accepted).
  static constexpr std::uint32_t by_policy = ~0U - 1;
  /// The first of the team that takes the operation (P-15).
  static constexpr std::uint16_t any_processor = Handle::any_processor;
  /// Number of a lane, or one of the values above. A number that this proactor does not have, as
  /// with fewer lanes than the program was written for, counts as here_or_next.
  std::uint32_t lane = here_or_next;
  /// The handle's operations go to this one of Config::processors, counted from 0, if it takes
  /// their kind, else to the first that does. adopt returns errc::bad_configuration when the team
  /// has no processor of that number.
  std::uint16_t processor = any_processor;
};

/// An operation from the proactor's cache, with room for an address and a handler of its own. Users
/// get it through the overloads that take no operation.
class CachedOperation final : public Operation {
 public:
  Endpoint endpoint_storage;  ///< where its address is kept

  /// Stores any callable void(Operation&) of at most limits::cached_handler_size bytes, whose move
  /// into the operation does not throw. It is destroyed when it has run.
  template <class Handler>
  void emplace_handler(Handler&& handler) noexcept {
    using Stored = std::decay_t<Handler>;
    static_assert(std::invocable<Stored&, Operation&>);
    detail::check_that_storing_cannot_throw<Handler>();
    static_assert(
        sizeof(Stored) <= sizeof(handler_) && alignof(Stored) <= alignof(std::max_align_t),
        "the handler is too large for a cached operation: capture a pointer");
    ::new (static_cast<void*>(handler_)) Stored(std::forward<Handler>(handler));
    destroy_ = [](CachedOperation& self) { self.stored<Stored>().~Stored(); };
    set_completion([](Operation& operation) {
      auto& self = static_cast<CachedOperation&>(operation);
      self.stored<Stored>()(operation);
    });
  }
  /// Destroys the handler without running it.
  void destroy_handler() noexcept {
    if (destroy_ != nullptr) std::exchange(destroy_, nullptr)(*this);
    set_completion(nullptr);  // the next user may start it without one
  }

 private:
  template <class Stored>
  Stored& stored() noexcept {
    return *std::launder(reinterpret_cast<Stored*>(handler_));
  }
  void (*destroy_)(CachedOperation&) = nullptr;
  // With room for a detail::TakingBack, which adds a pointer, and fills up to the alignment.
  alignas(
      std::max_align_t) std::byte handler_[limits::cached_handler_size + alignof(std::max_align_t)];
};

class BATON_EXPORT Proactor {
 public:
  /// Opens everything the configuration names. Throws std::system_error whose text says what is
  /// missing; open() returns it instead.
  explicit Proactor(Config config = Config{});
  /// As the constructor, without exceptions.
  static Result<std::unique_ptr<Proactor>, Failure> open(Config config);

  /// Calls finish() if the program has not. No handler runs afterwards. The handlers that run here
  /// must not touch destroyed objects, such as those declared after the proactor: see FinishAtEnd.
  /// A handler may call exit(): the proactor, if it is static, is left as it is. A thread that has
  /// just started or posted here what another one has completed may be on its way out of that call
  /// still, as when a task moves between two proactors: this waits for it.
  ~Proactor();
  Proactor(const Proactor&) = delete;
  Proactor& operator=(const Proactor&) = delete;

  // -- driving ------------------------------------------------------------------------------------

  /// Runs handlers until stop(). An exception of a handler leaves run() after the remaining work
  /// has been handed over; run() may be called again. per_thread: the thread takes a free lane, and
  /// also leads lanes that have work and no thread. If every lane has its thread, it stands by.
  /// Throws DrivingRefused: errc::wrong_thread with profile=pinned, when a lane has work and no
  /// thread has come for it in ten seconds, or when the lane is another thread's.
  void run();
  /// At most one handler, waiting until the deadline for one. True if one ran.
  bool run_one(Deadline deadline = Deadline::never());
  /// Runs the handlers that are due now, without waiting; returns their number.
  std::size_t poll();
  /// Runs queued handlers, or leads a processor, or sleeps as a follower; returns the number of
  /// handlers that ran, at the latest at the deadline or on stop() (paper 000 section 6.2).
  /// `handlers_max`: the largest number of handlers; 0: no bound.
  std::size_t handle_events(Deadline deadline = Deadline::never(), std::size_t handlers_max = 0);

  /// Every thread returns from run(), run_one(), poll() or handle_events() after its handler.
  /// Pending operations stay pending; starts fail with errc::stopped. Not from a signal handler.
  void stop() noexcept;
  [[nodiscard]] bool stopped() const noexcept;  ///< whether stop() was called or a drain has ended
  /// After stop() or drain(): run() works again.
  void restart() noexcept;
  /// Stops accepting (pending accepts are cancelled, new ones refused), lets the rest finish and
  /// stops; at the deadline everything left is cancelled, later starts are refused as stopped, and
  /// the proactor stops when everything is delivered. Returns at once; run() returns when the
  /// drain is complete. A second drain can only bring the deadline forward.
  void drain(Deadline deadline) noexcept;
  /// Ends the proactor: cancels what is pending, closes every handle, and runs the remaining
  /// completions in this thread (starts inside them fail as stopped). Afterwards nothing is
  /// pending, the proactor stays stopped, and its I/O objects are closed. REQUIRES: no thread is
  /// inside run(), run_one(), poll() or handle_events(), this one included; no other thread that is
  /// still alive keeps a pinned processor, as it does after run_one(), poll() or handle_events(),
  /// and after an exception. Does nothing in a forked child.
  void finish() noexcept;

  // -- foreign loops ------------------------------------------------------------------------------
  //
  // A program with a loop of its own, or with a lock around every call, waits for the descriptor
  // and then calls poll(). It calls poll() after each start, cancel, close and drain as well: the
  // operation may be complete (OperationState::result_ready), or wait for the thread that drives
  // (start=leader_only, mode per_thread), which the descriptor does not show. Timers, deadlines,
  // posted work, starts and cancels by other threads, operations that pause (an accept without
  // descriptors) and the delays of engine=chaos do not show here: limit the wait. For proactors
  // with one processor, not in mode dedicated.

  /// Readable when the engine may have completed something; invalid_handle when it has none, in
  /// mode dedicated, and with several engines. It changes with reopen(), and there is none after
  /// errc::engine_lost.
  [[nodiscard]] NativeHandle descriptor() const noexcept;
  /// Whether poll() would deliver operations that the engine has completed: no lock and no system
  /// call, safe in any thread and in signal handlers, except during reopen(). cannot_tell also
  /// without a descriptor().
  [[nodiscard]] Glance glance() const noexcept;

  // -- operations ---------------------------------------------------------------------------------

  /// Starts a prepared operation. An error means that nothing was started and no completion comes:
  /// it is in use or not prepared, its handle is closed, a limit is reached, the proactor is
  /// stopped, or no processor takes it. Everything else, EBADF included, is a completion.
  [[nodiscard]] std::error_code start(Operation& operation) noexcept;

  /// Requests the early end of one activation. REQUIRES: the operation object is alive during the
  /// call. Constant time, except for a timer in per_thread mode that another thread cancels: its
  /// lane then looks at all its timers, once for all that are cancelled by then. On a borrowed
  /// descriptor the rule below for the cancel of a handle holds as well.
  CancelResult cancel(Operation& operation, std::uint32_t activation) noexcept;
  CancelResult cancel(Operation& operation) noexcept {
    return cancel(operation, operation.activation());
  }
  /// Requests the early end of all operations of a handle. After the return the program may reuse
  /// the number of a borrowed descriptor for another file (contract.md, rule 12). For that, a
  /// caller on another thread than the lane's waits in per_thread mode until the lane's thread has
  /// left its engine. It never waits for a handler.
  CancelResult cancel(Handle& handle) noexcept;
  /// Requests the early end of everything except posted work.
  void cancel_all() noexcept;
  /// Cancels and waits until the operation is complete. Not from inside a handler.
  CancelWait cancel_wait(Operation& operation, std::uint32_t activation,
                         Deadline deadline) noexcept;

  /// Queues an operation as complete: its handler runs on a thread in run(). Like start, refuses
  /// one in use.
  [[nodiscard]] std::error_code post(Operation& operation, Notify level = Notify::strong,
                                     Home home = {}) noexcept;
  /// Posts a callable void(), in an operation from the cache. Throws what copying it throws; then
  /// nothing was posted.
  template <class Function>
    requires std::invocable<Function&>
  [[nodiscard]] std::error_code post(Function&& function) {
    auto handler = [call = std::forward<Function>(function)](Operation&) mutable { call(); };
    CachedOperation* operation = take_cached();
    if (operation == nullptr) return std::make_error_code(std::errc::not_enough_memory);
    operation->prepare(OperationKind::user, nullptr, Operation::cached);
    operation->emplace_handler(std::move(handler));
    return start_cached(*operation, [this](Operation& cached) { return post(cached); });
  }

  /// A timer without an object: completes without error at `when`; cancel(operation) ends it early.
  [[nodiscard]] std::error_code start_timer(Operation& operation, Deadline when) noexcept;

  /// Gives a pending timer, or a pending operation that was started with a deadline, another one:
  /// earlier or later, without a completion in between, and cheaply when it is later, as with the
  /// timeout of a connection that every message extends. False: nothing was changed, because it
  /// has no deadline or is no longer pending (its completion follows). Any thread may call it in
  /// shared and dedicated mode. In per_thread mode only the operation's own thread may; others get
  /// false, and cancel and start again. (Linux's mod_timer, libuv's uv_timer_again.)
  [[nodiscard]] bool move_deadline(Operation& operation, Deadline deadline) noexcept;

  /// An operation from the cache, or null when memory is exhausted. Give it a handler with
  /// emplace_handler, the flag Operation::cached by prepare, and start it with start_cached, which
  /// takes it back if the start fails.
  [[nodiscard]] CachedOperation* take_cached() noexcept;
  void give_back(CachedOperation& operation) noexcept;  ///< an operation that was not started
  /// Starts one by `begin`, a callable that returns start's error.
  template <class Start>
  [[nodiscard]] std::error_code start_cached(CachedOperation& operation, Start&& begin) noexcept {
    const std::error_code error = begin(operation);
    if (error) {
      operation.destroy_handler();
      give_back(operation);
    }
    return error;
  }

  /// Starts a detached coroutine: it runs on the calling thread until its first suspension. Its
  /// exception goes to the handler below.
  void spawn(Task<void> task);
  /// Default: std::terminate, also if the handler itself throws. It is called on the thread where
  /// the task ended, and by several threads at once. Any thread may replace it at any time; a call
  /// that has begun still goes to the old one. Throws std::bad_alloc.
  void on_task_exception(std::function<void(std::exception_ptr)> handler);
  /// For code that runs tasks: calls the handler of on_task_exception.
  void task_failed(std::exception_ptr exception) noexcept;

  // -- handles ------------------------------------------------------------------------------------

  /// Makes a descriptor known. Owned: set non-blocking and close-on-exec, closed by Baton.
  /// Borrowed: untouched. Errors: errc::already_adopted when another handle has the descriptor,
  /// until its close is complete (a borrowed one's: has begun); errc::no_free_handles,
  /// errc::stopped, ENOMEM, EBADF; EINVAL when a pipe, a terminal or a socket is adopted as a file.
  /// A folder may be adopted as one: its sync works, and its reads end with EISDIR.
  /// On failure the caller keeps it, as it was.
  Result<Handle*> adopt(NativeHandle native, HandleKind kind,
                        Ownership ownership = Ownership::owned, Home home = {}) noexcept;
  /// The same for an owned descriptor that the caller has just opened, and costs no system call.
  /// REQUIRES: it is close-on-exec and non-blocking (a file: neither matters), `flags` are what
  /// fcntl(F_GETFL) would answer, and it is what `kind` says.
  Result<Handle*> adopt_opened(NativeHandle native, HandleKind kind, int flags,
                               Home home = {}) noexcept;

  /// Close as an operation (contract.md, rule 6): refuses new work, cancels what is pending in
  /// every processor, waits until the engines have detached the handle, closes the descriptor
  /// (unless it is borrowed) and completes last. The handle is invalid once it is complete.
  /// REQUIRES: kind close, prepared. start() does the same for an operation of kind close.
  [[nodiscard]] std::error_code close(Handle& handle, Operation& operation) noexcept;
  /// The same, without a completion. Never fails; does nothing if a close is in progress.
  void close_detached(Handle& handle) noexcept;
  /// close(2) of this handle may block (SO_LINGER was set): another thread than those in run() does
  /// it.
  void set_close_may_block(Handle& handle, bool may_block) noexcept;

  /// Lanes: how many completed queues there are (per_thread: the configured threads; else 1).
  [[nodiscard]] std::uint32_t lanes() const noexcept;
  /// The lane that the calling thread is in; lanes() if it is not in run() of this proactor.
  [[nodiscard]] std::uint32_t current_lane() const noexcept;
  /// The lane that runs its handlers.
  [[nodiscard]] std::uint32_t home_lane(const Handle& handle) const noexcept;

  // -- what is going on ---------------------------------------------------------------------------

  [[nodiscard]] Deadline now() const noexcept;  ///< the proactor's clock, virtual under simulation
  [[nodiscard]] Statistics statistics() const;  ///< counters since the opening
  /// Operations that are pending for at least `age`, the oldest first: a snapshot, bounded, from
  /// any thread, while the others go on (docs/guide/operations.md). In per_thread mode each lane
  /// answers between two handlers; the report names lanes that do not answer in time.
  /// From inside a handler of a lane it may therefore wait for `patience`. Throws std::bad_alloc.
  [[nodiscard]] PendingReport pending(const PendingQuery& query) const;
  [[nodiscard]] PendingReport pending(Duration age = {}) const {
    PendingQuery query;
    query.age = age;
    return pending(query);
  }
  /// A name for operations with this tag (Operation::set_tag), for reports; looked up only there.
  /// False when there are limits::tag_names_max of them. Names are cut to
  /// limits::tag_name_size_max. reopen() forgets them.
  bool name_tag(std::uint32_t tag, std::string_view name);
  /// Which engine, strategies and modes were chosen, from which source, and what was replaced and
  /// why.
  [[nodiscard]] std::string explain() const;
  /// The facts of the engines as they were opened: one for each processor of the configuration, in
  /// its order. In per_thread mode all lanes have engines of the same facts. Throws std::bad_alloc.
  [[nodiscard]] std::vector<EngineInfo> engines() const;
  [[nodiscard]] const Config& config() const noexcept;      ///< as it was opened
  [[nodiscard]] const os::System& system() const noexcept;  ///< the table of system calls

  /// In the child after fork, before it opens anything (docs/guide/shutdown.md): an inherited
  /// proactor can only be destroyed or reopened. The parent is not disturbed; operations pending in
  /// it are complete with errc::after_fork here (their handlers do not run); handles are gone,
  /// borrowed descriptors untouched, owned ones closed. Afterwards the proactor is like a newly
  /// opened one.
  Result<void, Failure> reopen();

  class Core;  // src/core: for the library's own parts
  /// For the library's own parts.
  [[nodiscard]] Core& core() noexcept { return *core_; }

 private:
  friend class DrivingRefused;
  explicit Proactor(std::unique_ptr<Core> core) noexcept;
  Core* core_ = nullptr;  // owned; left alone when one of its handlers calls exit()
};

/// Finishes a proactor at the end of its scope, also when an exception leaves it. Declare it last:
/// the remaining handlers then still find all objects that were declared between the proactor and
/// this one.
///
///   Proactor proactor;
///   Session session{proactor};        // its handlers use it
///   const FinishAtEnd end{proactor};
class FinishAtEnd {
 public:
  /// REQUIRES: the proactor outlives this; at the end as finish().
  explicit FinishAtEnd(Proactor& proactor) noexcept : proactor_(proactor) {}
  FinishAtEnd(const FinishAtEnd&) = delete;
  FinishAtEnd& operator=(const FinishAtEnd&) = delete;
  ~FinishAtEnd() { proactor_.finish(); }

 private:
  Proactor& proactor_;
};

}  // namespace baton
