// Proactor::Core: the parts of a Proactor - the ledger, the lanes, the dispatcher or the lane loops
// - and the path of each public call to the thread that may carry it out.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "baton/proactor.hpp"
#include "core/crew.hpp"
#include "core/dispatcher.hpp"
#include "core/ended_in_handler.hpp"
#include "core/lane_loop.hpp"
#include "core/ledger.hpp"
#include "core/runner.hpp"
#include "core/starter.hpp"
#include "core/task_exceptions.hpp"
#include "os/fork.hpp"

namespace baton {

class Proactor::Core final : public HandlerRunner {
 public:
  /// `lanes`: 0 for shared and dedicated teams, else the number of per_thread lanes.
  Core(Config config, const os::System& system, std::uint32_t handles_max, std::uint32_t lanes);
  ~Core() override;

  // -- put together by Proactor (src/proactor), before anything starts ----------------------------

  /// One processor of the team. per_thread: once for each lane, in order; else lane 0.
  void add(std::unique_ptr<Engine> engine, const ProcessorConfig& config, Mode mode,
           std::uint16_t team_index, std::uint32_t lane);
  /// Starts the threads of dedicated processors; 0 or an errno.
  int start_threads();

  // -- the calls of Proactor ----------------------------------------------------------------------

  std::size_t turn(Deadline deadline, std::size_t handlers_max, bool return_after, bool for_good) {
    if (BATON_UNLIKELY(forked())) refuse_to_drive();
    return per_thread_ ? crew_.turn(deadline, handlers_max, return_after, for_good)
                       : dispatcher_->turn(deadline, handlers_max, return_after);
  }
  /// Null: there would be nothing to change.
  [[nodiscard]] std::unique_ptr<AttachedMember> attach();
  void stop() noexcept;
  [[nodiscard]] bool stopped() const noexcept { return stopped_.load(std::memory_order_acquire); }
  void restart() noexcept;
  void drain(Deadline deadline) noexcept;
  void finish() noexcept;
  /// For an end inside one of its own handlers, usually by exit(): its turn is still on the stack.
  /// Stops, and leaves everything else to the end of the process.
  void end_in_handler() noexcept;
  /// The calling thread is in a turn of this proactor.
  [[nodiscard]] bool inside() const noexcept {
    return current_lane() < lanes() && !crew_.attached_here();
  }

  [[gnu::noinline]] std::error_code start(Operation& operation) noexcept;
  /// The same for an operation that may be simple (Starter::start_less_simple).
  [[gnu::noinline]] std::error_code start_less_simple(Operation& operation) noexcept;
  /// The same for a simple operation (Starter::handle_of_simple), by the thread inside its lane.
  [[gnu::noinline]] std::error_code start_here(Lane& lane, Operation& operation,
                                               Handle& handle) noexcept;
  /// The same by any other thread; `lane`: null, or the handle's route.
  [[gnu::noinline]] std::error_code start_elsewhere(Lane* lane, Operation& operation,
                                                    Handle& handle) noexcept;
  bool move_deadline(Operation& operation, Deadline deadline) noexcept;
  CancelResult cancel(Operation& operation, std::uint32_t activation) noexcept;
  CancelResult cancel(Handle& handle) noexcept;
  void cancel_all() noexcept;
  CancelWait cancel_wait(Operation& operation, std::uint32_t activation,
                         Deadline deadline) noexcept;
  std::error_code post(Operation& operation, Notify level, Home home) noexcept;

  /// A place in the table of handles for a descriptor that leaves traces when it is made: a file.
  class Place {
   public:
    explicit Place(Core& core) noexcept : table_(core.ledger_.handles) {}
    ~Place() {
      if (record_ != nullptr) table_.release(*record_);
    }
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;

   private:
    friend class Core;
    HandleTable& table_;
    Handle* record_ = nullptr;
  };
  /// Any error of adopt() that does not depend on the descriptor.
  std::error_code reserve(Place& place, Home home) noexcept;
  Result<Handle*> adopt(NativeHandle native, HandleKind kind, Ownership ownership,
                        Home home) noexcept;
  /// `place`: null, or was reserved with this home.
  Result<Handle*> adopt_opened(NativeHandle native, HandleKind kind, int flags, Home home,
                               Place* place = nullptr) noexcept;
  std::error_code close(Handle& handle, Operation& operation) noexcept;
  void close_detached(Handle& handle) noexcept;

  // For foreign loops: of the only processor.
  [[nodiscard]] NativeHandle descriptor() const noexcept;
  [[nodiscard]] Glance glance() const noexcept;

  [[nodiscard]] std::uint32_t lanes() const noexcept {
    return static_cast<std::uint32_t>(lanes_.size());
  }
  [[nodiscard]] std::uint32_t current_lane() const noexcept;
  /// True if a thread is in run() or a similar call.
  [[nodiscard]] bool is_driven() const noexcept;
  [[nodiscard]] Statistics statistics() const;
  /// src/core/pending.cpp.
  [[nodiscard]] PendingReport pending(const PendingQuery& query);
  bool name_tag(std::uint32_t tag, std::string_view name);
  /// In a child process: ends everything without touching what the parent shares.
  void abandon_after_fork() noexcept;
  [[nodiscard]] bool refuses_everything() const noexcept {
    return ledger_.refusing.load(std::memory_order_acquire) == Refusing::everything;
  }
  using HandlerRunner::forked;

  // -- HandlerRunner ------------------------------------------------------------------------------

  void lane_is_quiet(Lane& lane) noexcept override;
  void lane_needs_leader() noexcept override { crew_.find_leader(); }

  const Config config;
  std::string explanation;
  TaskExceptions task_exceptions;
  std::unique_ptr<Core> ancestor;  // after reopen: keeps the records that old objects still name
  EndedInHandler ended_in_handler;

  [[nodiscard]] Ledger& ledger() noexcept { return ledger_; }

 private:
  /// A descriptor to adopt.
  struct Found {
    NativeHandle native;
    HandleKind kind;
    Ownership ownership;
    int flags;    // F_GETFL
    bool opened;  // by the caller, as adopt_opened() requires
  };
  Result<Handle*> enter(const Found& found, Home home, Place* place) noexcept;
  [[nodiscard]] std::error_code refuses_handles(Home home) const noexcept;
  std::error_code take(Place& place, Home home) noexcept;
  [[nodiscard]] const Engine* foreign_loops_engine() const noexcept;
  void requeue(Lane& lane, Operation& operation) noexcept override;
  void brought_back(Operation& operation) noexcept override;
  void returned_elsewhere(Handle& handle) noexcept override;

  [[nodiscard]] std::error_code check(const Operation& operation) const noexcept;
  std::error_code start_on_handle(Operation& operation) noexcept;
  std::error_code start_timer(Operation& operation, std::uint32_t lane) noexcept;
  /// drain, stop and restart: makes starts fail, or allows them again.
  void refuse(Refusing what) noexcept;
  /// All accepts when a drain begins, and everything at its deadline.
  void cancel_when_draining(LaneRequests::Wish wish) noexcept BATON_REQUIRES(shared_lane);
  void start_drain_timer() noexcept BATON_REQUIRES(drain_mutex_);
  void drain_timer_ended() noexcept;
  void look_under_the_mutex(const PendingQuery& query, PendingReport& report);
  void ask_lanes(const PendingQuery& query, PendingReport& report);
  [[nodiscard]] std::uint32_t home_of(Home home) noexcept;
  [[nodiscard]] std::uint32_t pick_lane(bool least_loaded) noexcept;
  [[noreturn]] void refuse_to_drive() const;
  void refuse_to_end_driven(const char* sentence) const noexcept;
  /// What a start returns. `taken`: no other thread has finished the proactor since the check.
  std::error_code taken_or_stopped(bool taken, Operation& operation) noexcept {
    if (BATON_LIKELY(taken)) return success_;
    OperationAccess::deactivate(operation);
    return errc::stopped;
  }
  std::error_code queue_post(Operation& operation, Notify level, Home home) noexcept;
  void run_what_is_left() noexcept;
  void wait_for_visitors() const noexcept;
  void finish_everything() noexcept;
  void end_engines() noexcept;
  void log_dropped_exception() const noexcept;
  [[nodiscard]] bool everything_finished() noexcept;
  bool close_mailboxes() noexcept;
  static void deliver_to_lanes(void* self, OperationQueue& finished);
  void keep_off(LaneLoop& loop, Handle& handle, std::uint32_t generation,
                Ledger::Which which) noexcept;

  const std::error_code success_;  // made once: each is a call into the C++ library
  const os::System& system_;
  const bool per_thread_;
  Ledger ledger_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  Lane* first_lane_ = nullptr;  // the only one of shared and dedicated mode
  std::vector<std::unique_ptr<Processor>> processors_;
  std::unique_ptr<Dispatcher> dispatcher_;        // shared and dedicated processors
  std::vector<std::unique_ptr<LaneLoop>> loops_;  // per_thread: one for each lane
  std::unique_ptr<Starter> starter_;
  std::atomic<std::uint32_t> next_lane_{0};
  Lane between_lanes_;  // per_thread: for the counters of the team's dedicated processors
  std::atomic<bool> stopped_{false};
  Crew crew_;
  std::atomic<bool> finishing_{false};  // finish() or the destructor has begun
  std::atomic<std::uint32_t> left_{0};  // posts to a finished proactor that are to be run
  os::Mutex stop_mutex_;                // of per_thread teams, after the ledger's: see stop()
  // The deadline of a drain, on a timer of our own: a drain needs no memory. The timer may outlive
  // the drain that started it, and serve the next. Before the ledger's mutex.
  os::Mutex drain_mutex_;
  Operation drain_timer_;
  bool drain_timer_runs_ BATON_GUARDED_BY(drain_mutex_) = false;
  Deadline drain_deadline_ BATON_GUARDED_BY(drain_mutex_);
  os::Mutex names_mutex_;
  std::map<std::uint32_t, std::string> tag_names_ BATON_GUARDED_BY(names_mutex_);
};

}  // namespace baton
