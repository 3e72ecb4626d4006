// WorkerPool: a few threads for work that a readiness engine cannot do without blocking: files,
// sync, a blocking connect or close. Jobs are operations, linked through themselves.
//
// Lazy: a thread starts when a job finds none idle, up to the bound; a program without jobs has no
// second thread. A caller that must not allocate (baton_poll) starts none: its job waits for a
// worker. Workers take no signals (System::thread_start blocks them all), so a signal to the
// program never interrupts their calls (EINTR).
//
// A finished operation goes to a list; the worker that finds it empty calls
// Client::workers_finished once, which interrupts the engine's wait. A queued job can be removed
// again; a running one cannot, and ends with its own outcome.
#pragma once

#include <atomic>
#include <cstdint>

#include "baton/limits.hpp"
#include "baton/operation.hpp"
#include "baton/operation_queue.hpp"
#include "os/mutex.hpp"
#include "os/system.hpp"

namespace baton::engines {

/// The pool's part of the engine state of an operation. REQUIRES: the first member of the engine's
/// own standard-layout state.
struct WorkerJob {
  bool queued = false;  // guarded by the pool's mutex
};

class WorkerPool {
 public:
  class Client {
   public:
    /// Does the operation, blocking, and records the outcome. On a worker.
    virtual void work(Operation& operation) noexcept = 0;
    /// The list of finished operations was empty and is not any more. On a worker.
    virtual void workers_finished() noexcept = 0;

   protected:
    ~Client() = default;
  };

  /// `threads_max` 0: limits::workers_max.
  WorkerPool(const os::System& system, Client& client, std::uint32_t threads_max) noexcept;
  ~WorkerPool();  ///< REQUIRES: nothing queued or running. Joins the threads.
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  /// Queues a job. Returns an errno, without queuing it, when there is no thread and none can be
  /// started.
  [[nodiscard]] int submit(Operation& operation) noexcept;
  /// Starts the first thread, if there is memory for it: for a job that may wait without end, and
  /// that a caller which must not allocate may submit later.
  void prepare() noexcept;
  /// True: it was still queued and belongs to the caller again. False: it runs, or is finished.
  bool cancel(Operation& operation) noexcept;

  /// Appends the finished operations. One load when there are none.
  void take_finished(OperationQueue& finished) noexcept;
  [[nodiscard]] bool has_finished() const noexcept {
    // acquire: pairs with the release of the worker; the list itself is read under the mutex.
    return any_finished_.load(std::memory_order_acquire);
  }

  [[nodiscard]] std::uint64_t jobs() const noexcept {
    return jobs_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint32_t threads() const noexcept {
    return threads_count_.load(std::memory_order_relaxed);
  }

  /// In the child after fork the threads do not exist: nothing to join.
  void abandon() noexcept { abandoned_ = true; }

 private:
  /// limits::workers_max is the default; more are for configurations that know their disks. This is
  /// the largest value of the setting `workers`.
  static constexpr std::uint32_t threads_bound = 256;

  static void enter(void* self) noexcept { static_cast<WorkerPool*>(self)->run(); }
  void run() noexcept;
  void do_it_here(Operation& operation) noexcept;
  Operation* next_job() noexcept BATON_REQUIRES(mutex_);
  void give(Operation& operation) noexcept;
  int start_thread() noexcept BATON_REQUIRES(mutex_);

  const os::System& system_;
  Client& client_;
  const std::uint32_t threads_max_;
  bool abandoned_ = false;

  os::Mutex mutex_;
  OperationQueue queue_ BATON_GUARDED_BY(mutex_);
  std::uint32_t idle_ BATON_GUARDED_BY(mutex_) = 0;     // asleep
  std::uint32_t working_ BATON_GUARDED_BY(mutex_) = 0;  // with a job
  bool stopping_ BATON_GUARDED_BY(mutex_) = false;
  std::uint64_t threads_[threads_bound];  // the first threads_count_ are set; guarded by mutex_
  std::atomic<std::uint32_t> threads_count_{0};  // changed under mutex_
  /// Idle workers sleep on it. Each job that finds an idle one raises it, under the mutex: an event
  /// count.
  std::atomic<std::uint32_t> event_{0};

  os::Mutex finished_mutex_;
  OperationQueue finished_ BATON_GUARDED_BY(finished_mutex_);
  std::atomic<bool> any_finished_{false};
  std::atomic<std::uint64_t> jobs_{0};
};

}  // namespace baton::engines
