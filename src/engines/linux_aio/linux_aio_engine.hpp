// LinuxAioEngine: files by the kernel's native AIO, as far as that is asynchronous, and by workers
// otherwise. Everything else is for another processor of the team.
//
// io_submit blocks. It starts the transfer in the calling thread, and returns before the end only
// if the file was opened with O_DIRECT. A buffered read waits inside io_submit for the disk, a
// buffered write for room in the page cache, and a direct write that makes the file longer for the
// file system. Therefore:
//
//   - Positional transfers of O_DIRECT files go to the kernel, with RWF_NOWAIT: a transfer that
//     would have to wait fails with EAGAIN, and a worker does it. A file system that does not know
//     the flag may wait for its server in io_submit (FUSE does, NFS now and then), so workers do
//     the transfers of its files.
//   - Syncs of every file go to the kernel, which has workers of its own for them.
//   - The thread that starts any other operation tries it with RWF_NOWAIT and then leaves it to a
//     worker, as the emulated engine does: buffered files, and operations in order (appending makes
//     the file longer, and native AIO has no current position).
//   - A worker also does the rest of a short transfer: the end of the file, or of the disk, is
//     near, and another request for the rest would have to be aligned.
//
// Batches. submit() of an operation for the kernel only fills in a request; the next wait(), or
// flush(), hands the batch over, Context::lot_max requests in each io_submit. When the kernel has
// no room (EAGAIN), they stay in the batch, submit() answers busy, and the leader tries again after
// the next completion, or a pause. A fast disk completes requests before io_submit returns; the
// engine then reads their completions from the ring without a system call (see Context).
//
// Locks. One mutex guards the records, the slots and the batch; it is never held while bytes are
// moved or requests handed over. Then the workers' own. If EngineOptions::concurrent is false, only
// the workers' are real.
//
// The invariant, whenever the mutex is free: an operation that a lane holds is not admitted by its
// FileOrder, so something of that lane is in flight whose end lets the rest continue.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>

#include "base/chunked_table.hpp"
#include "baton/engine.hpp"
#include "engines/common/closer.hpp"
#include "engines/common/file_calls.hpp"
#include "engines/common/worker_pool.hpp"
#include "engines/linux_aio/context.hpp"
#include "engines/linux_aio/record.hpp"
#include "os/mutex.hpp"
#include "os/system.hpp"

namespace baton::engines::linux_aio {

class LinuxAioEngine final : public Engine, private WorkerPool::Client {
 public:
  /// Throws std::bad_alloc.
  LinuxAioEngine(const EngineOptions& options, std::unique_ptr<Context> context);
  ~LinuxAioEngine() override;

  [[nodiscard]] const EngineInfo& info() const noexcept override { return info_; }
  std::error_code attach(Handle& handle) noexcept override;
  void detach(Handle& handle) noexcept override;
  Submission submit(Operation& operation, void*) noexcept override;
  void flush() noexcept override;
  CancelAnswer cancel(Operation& operation) noexcept override;
  void wait(OperationQueue& completed, Deadline deadline) noexcept override;
  void interrupt() noexcept override;
  [[nodiscard]] NativeHandle descriptor() const noexcept override;
  [[nodiscard]] Deadline due() noexcept override;
  [[nodiscard]] EngineCounters counters() const noexcept override;
  void after_fork_in_child() noexcept override;

  [[nodiscard]] std::uint32_t worker_threads() const noexcept { return workers_.threads(); }

 private:
  // Starting: to the batch, to a worker, or held.
  Submission admit(Operation& operation, FileRecord& record, bool& tries) noexcept
      BATON_REQUIRES(mutex_);
  Submission after_try(Operation& operation, FileRecord& record, bool done) noexcept;
  bool go(Operation& operation, const FileRecord& record) noexcept BATON_REQUIRES(mutex_);
  int give_to_worker(Operation& operation) noexcept BATON_REQUIRES(mutex_);
  void dispatch(const FileRecord& record, Lane& lane) noexcept BATON_REQUIRES(mutex_);
  void submit_batch(bool call_leader) noexcept;

  // The batch.
  [[nodiscard]] bool hand_over() noexcept;
  std::size_t take_batch(std::span<std::uint32_t> slots, bool& call_leader) noexcept;
  void take_back(std::span<const std::uint32_t> slots) noexcept;
  void refused(std::uint32_t slot, int error) noexcept;

  // Results.
  void settle(const Completion& completion) noexcept BATON_REQUIRES(mutex_);
  void settle_transfer(Operation& operation, FileRecord& record, std::size_t moved) noexcept
      BATON_REQUIRES(mutex_);
  void settle_error(Operation& operation, FileRecord& record, int error) noexcept
      BATON_REQUIRES(mutex_);
  void go_on_by_worker(Operation& operation, FileRecord& record) noexcept BATON_REQUIRES(mutex_);
  void finished(Operation& operation, FileRecord& record) noexcept BATON_REQUIRES(mutex_);
  void leave(Operation& operation) noexcept BATON_REQUIRES(mutex_);
  void take_from_workers() noexcept BATON_REQUIRES(mutex_);
  void work(Operation& operation) noexcept override;
  void workers_finished() noexcept override { interrupt(); }

  // The leader.
  Deadline prepare_wait(OperationQueue& completed, Deadline deadline) noexcept;
  Deadline end_of_pause() noexcept;
  void collect(std::span<const Completion> completions, OperationQueue& completed) noexcept;

  CancelAnswer cancel_here(Operation& operation) noexcept BATON_REQUIRES(mutex_);
  std::uint32_t take_slot() noexcept BATON_REQUIRES(mutex_);
  [[nodiscard]] FileRecord& record_of(const Operation& operation) const noexcept {
    return files_[operation.handle()->index()];
  }
  static Lane& lane_of(FileRecord& record, const Operation& operation) noexcept {
    return operation.kind() == OperationKind::read_file ? record.in : record.out;
  }

  const os::System& system_;
  const bool concurrent_;
  EngineInfo info_;
  const std::unique_ptr<Context> context_;
  const FileCalls calls_;
  std::array<Completion, Context::batch_max> completions_;  // the leader's
  static constexpr Duration congestion_pause_min{10'000'000};
  Duration pause_ = congestion_pause_min;  // the leader's: the next while congested
  std::atomic<bool> wake_pending_{false};  // from the first interrupt until it is taken
  std::atomic<bool> congested_{false};     // the kernel had no room for all of the batch
  std::atomic<std::uint64_t> stale_events_{0};

  os::Mutex mutex_;
  ChunkedTable<FileRecord> files_;  // grown under the mutex
  const std::unique_ptr<Slot[]> slots_ BATON_GUARDED_BY(mutex_);
  std::uint32_t free_slot_ BATON_GUARDED_BY(mutex_) = 0;
  std::uint32_t used_slots_ BATON_GUARDED_BY(mutex_) = 0;
  OperationQueue batch_ BATON_GUARDED_BY(mutex_);
  OperationQueue done_ BATON_GUARDED_BY(mutex_);  // complete; the leader delivers them

  // Last: their threads are joined before anything else is destroyed.
  WorkerPool workers_;
  Closer closer_;
};

}  // namespace baton::engines::linux_aio
