// Engine: turns started operations into completed ones (the paper's AIO_Provider, 000 section 8).
// This header is all that a new engine needs; registry.hpp tells how to make it selectable by name,
// and the conformance suite runs over every engine in the registry.
//
// The life of an operation inside an engine
//
//   submit(op)   The engine takes it: `pending` (it will come out of wait), `completed` (it is
//                done, the outcome is inside, the processor queues it) or `busy` (no room now: the
//                processor keeps it deferred and offers it again after the next wait).
//
//   wait(queue)  Flushes what was submitted, blocks at most until the deadline, appends what is
//                complete.
//
//   cancel(op)   Asks for an early end. However it is answered, the operation comes out exactly
//                once.
//
// An outcome is recorded with op.add_bytes() / op.set_bytes() and op.finish(error). An engine never
// calls upward, never runs a handler, never blocks in submit.
//
// Threads. info().start_from_any_thread tells whether submit, flush and cancel may be called by any
// thread at any time, also while another one is inside wait. Then the engine brings its own locks
// (fine ones: submit may enter the kernel, and must not be serialised with the whole engine). If
// not, they are called only by the thread that waits. EngineOptions::concurrent == false promises
// that only one thread ever touches the engine, and locks should cost nothing. wait is never
// entered by two threads at once. interrupt may be called by any thread, also from a signal
// handler, and is sticky: an interrupt that comes before wait makes the next wait return at once.
//
// The races an engine must settle inside its own critical section:
//
//   - cancel may arrive for an operation whose submit has not been entered yet, or is running. The
//     processor has then set Operation::cancel_asked() before; submit looks at it where it would
//     make the operation visible, and answers `completed` with ECANCELED.
//
//   - cancel may arrive for an operation that is already complete but still in the leader's batch:
//     answer too_late. (The processor guarantees that the operation's memory is alive during
//     cancel.)
//
// Order (contract.md, rule 3). Operations of one handle are executed one after the other, in the
// order of submit, if they are of these kinds: read_stream; write_stream and shutdown together;
// file operations flagged `append`. Reads and writes are independent of each other. An engine may
// merge queued writes. All other kinds may overtake each other, and none waits for an earlier
// wait_ready.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <system_error>

#include "baton/config.hpp"
#include "baton/deadline.hpp"
#include "baton/export.hpp"
#include "baton/fwd.hpp"
#include "baton/handle.hpp"
#include "baton/operation.hpp"
#include "baton/operation_queue.hpp"
#include "baton/result.hpp"

namespace baton {

/// How an engine does a kind of operation.
enum class Support : std::uint8_t {
  unsupported,  ///< goes to another processor of the team
  assisted,     ///< by emulation inside the engine: a worker thread, a readiness wait
  native,       ///< by the mechanism itself
};

/// May the leader change?
enum class LeaderRule : std::uint8_t {
  any,     ///< any thread may wait next: fit for shared mode
  steady,  ///< any thread may wait next, but a change is expensive: not for shared mode
  pinned   ///< one thread: the one that calls wait (and then submit) first, until unpin()
};

/// "any", "steady" or "pinned".
[[nodiscard]] constexpr std::string_view to_string(LeaderRule rule) noexcept {
  switch (rule) {
    case LeaderRule::any:
      return "any";
    case LeaderRule::steady:
      return "steady";
    case LeaderRule::pinned:
      break;
  }
  return "pinned";
}

/// The view of completed operations that takes no lock and no system call.
enum class Glance : std::uint8_t {
  cannot_tell,  ///< only the kernel knows: ask descriptor(), or wait
  nothing,      ///< polling now would find nothing
  something     ///< polling now would find completions, or let the kernel deliver some
};

/// Facts, fixed once the engine is open, except for what unpin() changes. The core decides by
/// these, never by the name.
struct EngineInfo {
  std::string_view name;                     ///< as in the registry
  Support support[operation_kinds] = {};     ///< of each OperationKind
  LeaderRule leader_rule = LeaderRule::any;  ///< which threads may wait
  /// submit, flush and cancel may be called while another thread is inside wait.
  bool start_from_any_thread = true;
  /// A wait that has begun does not see operations submitted after (select, poll, aio_suspend): the
  /// processor interrupts the leader after a submit from another thread. An engine whose wait
  /// adapts by itself leaves this false.
  bool start_interrupts_leader = false;
  /// The system calls of an operation are mostly made inside submit, so that threads that start
  /// operations work side by side. If not, the waiting thread does it, for all of them.
  bool works_in_submit = false;
  /// Operations it can hold at once; 0: as many as there is memory for. Beyond it submit answers
  /// busy.
  std::uint32_t operations_max = 0;
  /// The parts inside, for reports; empty when there is no choice.
  std::string_view wait_name;
  std::string_view interrupt_name;  ///< of the interrupt strategy
};

/// The answer of submit: it will come out of wait, is complete already, or finds no room now.
enum class Submission : std::uint8_t { pending, completed, busy };

/// The answer of an engine's cancel.
enum class CancelAnswer : std::uint8_t {
  completed,  ///< the operation is out of the engine, finished as cancelled; the processor queues
              ///< it
  requested,  ///< it will come out of wait, cancelled or not: its outcome tells
  too_late,   ///< it is already complete (or was never here)
};

/// Everything an engine is opened with. References are valid only during open, except system and
/// log.
struct EngineOptions {
  const os::System* system = nullptr;  ///< every system call goes through it (src/os/system.hpp)
  Log* log = nullptr;                  ///< for what a person should know; may be null
  const ProcessorConfig* config = nullptr;  ///< wait, interrupt, limits, workers, flags
  bool concurrent = true;                   ///< false: only one thread will ever touch this engine
  bool pinned_ok = false;  ///< one and the same thread will wait and submit: `pinned` is welcome
  /// One and the same thread will wait, though others may submit: less than pinned_ok.
  bool one_thread_waits = false;
  std::uint32_t handles_max = limits::handles_max;  ///< no Handle::index() reaches this
  /// The number of handles now, or null. With `handles_full` of them an accept backs off as it does
  /// without descriptors: its connection could not be adopted.
  const std::atomic<std::uint32_t>* handles = nullptr;
  std::uint32_t handles_full = limits::handles_max;  ///< Config::handles_max
  /// Gets memory for one more handle, or null: asked before an accept. False: there is none, and
  /// the accept backs off. Any thread.
  bool (*handle_memory)(void* context) noexcept = nullptr;
  void* handle_memory_context = nullptr;  ///< its first argument
  /// Out: what was replaced by the engine's own choice, a line for each ("wait: poll -> epoll:
  /// ..."), shown by Proactor::explain() (P-33). Each ends with its reason code: see with_code().
  std::function<void(std::string_view)> explain;
};

/// Problems that the engine has handled, and jobs given to workers, since it was opened.
struct EngineCounters {
  std::uint64_t stale_events = 0;     ///< for handles that were detached meanwhile
  std::uint64_t accept_backoffs = 0;  ///< an accept backed off: no descriptor, handle or memory
  std::uint64_t worker_jobs = 0;      ///< operations given to worker threads
};

class BATON_EXPORT Engine {
 public:
  Engine() = default;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  /// REQUIRES: nothing in flight.
  virtual ~Engine() = default;

  /// The same reference for the engine's whole life.
  [[nodiscard]] virtual const EngineInfo& info() const noexcept = 0;

  /// Called once before the first operation on a handle, and once after the last one and before the
  /// descriptor is closed. detach drops every registration; after it no operation names the handle,
  /// and stale events are dropped by generation. Same thread rule as submit.
  virtual std::error_code attach(Handle&) noexcept { return {}; }
  /// See attach().
  virtual void detach(Handle&) noexcept {}

  /// Begins an operation, without waiting. completed: the outcome is in the operation already.
  /// busy: nothing was begun; the processor submits it again after a completion. `record`: the
  /// result of handle_record() since the handle was attached, or null if the core does not have it
  /// at hand. REQUIRES: the handle is attached, except for a close.
  virtual Submission submit(Operation& operation, void* record) noexcept = 0;
  /// The engine's own record of an attached handle, valid until detach, so that submit need not
  /// look for it; null if it has none.
  [[nodiscard]] virtual void* handle_record(const Handle&) noexcept { return nullptr; }
  /// Hands what was submitted so far to the kernel, for starts from a thread that will not wait
  /// next.
  virtual void flush() noexcept {}
  /// Asks for the early end of an operation that was submitted. Same thread rule as submit.
  virtual CancelAnswer cancel(Operation& operation) noexcept = 0;

  /// Appends completed operations; returns when there is at least one, after an interrupt, or at
  /// the deadline. May return early with nothing. Flushes first.
  virtual void wait(OperationQueue& completed, Deadline deadline) noexcept = 0;

  /// Ends a wait, or the next one, early. Any thread. Several interrupts before a wait count as
  /// one.
  virtual void interrupt() noexcept = 0;

  /// For an engine whose leader_rule is pinned: from now on the rule is any, and operations in
  /// flight go on. The caller is the thread that waits in this engine, or any thread if none has
  /// waited yet. Appends what has completed meanwhile, even when it fails; an interrupt may be
  /// lost. May wait for transfers of files that the system has begun. False: the engine stays bound
  /// to its thread, by its nature, by its configuration (profile=pinned) or for lack of memory.
  virtual bool unpin(OperationQueue& completed) noexcept {
    static_cast<void>(completed);
    return false;
  }

  /// Readable when wait would not block; invalid_handle if there is none (the wait of a thread that
  /// leads several processors is then sliced).
  [[nodiscard]] virtual NativeHandle descriptor() const noexcept { return invalid_handle; }
  /// Called right before a wait on descriptor(): the time at which the engine must be polled even
  /// if nothing is readable, because an operation backs off until then.
  [[nodiscard]] virtual Deadline due() noexcept { return Deadline::never(); }

  /// Any thread, any time, and signal handlers: no lock, no system call.
  [[nodiscard]] virtual Glance glance() const noexcept { return Glance::cannot_tell; }

  /// Any thread, any time.
  [[nodiscard]] virtual EngineCounters counters() const noexcept { return {}; }

  /// In the child after fork: close or abandon every kernel object shared with the parent without
  /// disturbing it. Afterwards the engine may only be destroyed.
  virtual void after_fork_in_child() noexcept {}
};

/// Opens an engine: probes by doing and reserves what it needs; a Failure says what is missing.
using EngineFactory =
    std::function<Result<std::unique_ptr<Engine>, Failure>(const EngineOptions& options)>;

}  // namespace baton
