// The pool of workers.
#include "engines/common/worker_pool.hpp"

#include <errno.h>

#include <algorithm>
#include <limits>

#include "base/assert.hpp"
#include "os/no_allocation.hpp"

namespace baton::engines {
namespace {
constexpr std::int64_t for_ever = std::numeric_limits<std::int64_t>::max();

WorkerJob& job_of(Operation& operation) noexcept { return operation.engine_state<WorkerJob>(); }
}  // namespace

WorkerPool::WorkerPool(const os::System& system, Client& client, std::uint32_t threads_max) noexcept
    : system_(system),
      client_(client),
      threads_max_(std::min(threads_max != 0 ? threads_max : limits::workers_max, threads_bound)) {}

WorkerPool::~WorkerPool() {
  if (abandoned_) return;
  {
    os::LockGuard guard{mutex_, system_};
    BATON_ASSERT(queue_.empty());
    stopping_ = true;
    event_.fetch_add(1, std::memory_order_relaxed);
  }
  const std::uint32_t count = threads_count_.load(std::memory_order_relaxed);
  if (count > 0) system_.futex_wake(&event_, count);
  for (std::uint32_t i = 0; i < count; ++i) system_.thread_join(threads_[i]);
}

int WorkerPool::submit(Operation& operation) noexcept {
  const bool may_start = !os::NoAllocation::now();
  if (!may_start && threads() == 0) {
    do_it_here(operation);
    return 0;
  }
  bool wake = false;
  {
    os::LockGuard guard{mutex_, system_};
    BATON_ASSERT(!stopping_);
    // Each idle worker takes one queued job; another thread helps only beyond that.
    const std::uint32_t threads = threads_count_.load(std::memory_order_relaxed);
    if (may_start && queue_.size() >= threads - working_ && threads < threads_max_) {
      const int error = start_thread();
      if (error != 0 && threads == 0) return error;
    }
    job_of(operation).queued = true;
    queue_.push_back(operation);
    wake = idle_ > 0;
    // relaxed: read and raised under the mutex; the futex compares it again.
    if (wake) event_.fetch_add(1, std::memory_order_relaxed);
  }
  jobs_.fetch_add(1, std::memory_order_relaxed);
  if (wake) system_.futex_wake(&event_, 1);
  return 0;
}

void WorkerPool::prepare() noexcept {
  const os::LockGuard guard{mutex_, system_};
  if (threads() == 0) static_cast<void>(start_thread());  // the job finds out why not
}

// The thread must not allocate, and there is no worker yet: the job may block it.
void WorkerPool::do_it_here(Operation& operation) noexcept {
  jobs_.fetch_add(1, std::memory_order_relaxed);
  client_.work(operation);
  give(operation);
}

int WorkerPool::start_thread() noexcept {
  const std::uint32_t count = threads_count_.load(std::memory_order_relaxed);
  BATON_ASSERT(count < threads_bound);
  const int error = system_.thread_start(&threads_[count], enter, this);
  if (error == 0) threads_count_.store(count + 1, std::memory_order_relaxed);
  // EAGAIN (a limit on threads) would tell the user to try again.
  return error == EAGAIN ? ENOMEM : error;
}

bool WorkerPool::cancel(Operation& operation) noexcept {
  os::LockGuard guard{mutex_, system_};
  WorkerJob& job = job_of(operation);
  if (!job.queued) return false;
  job.queued = false;
  queue_.erase(operation);
  return true;
}

void WorkerPool::run() noexcept {
  for (;;) {
    Operation* operation = nullptr;
    {
      os::LockGuard guard{mutex_, system_};
      operation = next_job();
    }
    if (operation == nullptr) return;
    client_.work(*operation);
    {
      // Before give(), so that a thread that sees the result finds this worker free for the next
      // job.
      os::LockGuard guard{mutex_, system_};
      --working_;
    }
    give(*operation);
  }
}

// Waits for a job; null when the pool is stopping.
Operation* WorkerPool::next_job() noexcept {
  while (queue_.empty()) {
    if (stopping_) return nullptr;
    const std::uint32_t seen = event_.load(std::memory_order_relaxed);
    ++idle_;
    mutex_.unlock(system_);
    system_.futex_wait(&event_, seen, for_ever);
    mutex_.lock(system_);
    --idle_;
  }
  ++working_;
  Operation& operation = queue_.pop_front();
  job_of(operation).queued = false;
  return &operation;
}

void WorkerPool::give(Operation& operation) noexcept {
  bool was_empty = false;
  {
    os::LockGuard guard{finished_mutex_, system_};
    was_empty = finished_.empty();
    finished_.push_back(operation);
    // release: see has_finished().
    any_finished_.store(true, std::memory_order_release);
  }
  if (was_empty) client_.workers_finished();
}

void WorkerPool::take_finished(OperationQueue& finished) noexcept {
  if (!has_finished()) return;
  os::LockGuard guard{finished_mutex_, system_};
  finished.splice_back(finished_);
  any_finished_.store(false, std::memory_order_relaxed);
}

}  // namespace baton::engines
