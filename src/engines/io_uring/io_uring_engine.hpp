// IoUringEngine: operations become requests of a ring; the waiting thread reaps their completions.
//
// Two forms. `any`: every thread may submit and cancel while another one waits. One lock guards the
// submission queue and the tables; it is held while a request is filled in, or while a batch of
// completions is processed, never during a wait. `pinned` (SINGLE_ISSUER with DEFER_TASKRUN): one
// thread does everything, nothing is locked, and the kernel does its part of the work inside that
// thread's wait. If its lane needs another leader, or one that also leads other lanes, the pinned
// form is given up for good (unpin): requests in flight end as cancelled in the old ring and are
// issued again in a new one. A transfer that the disk has begun cannot be cancelled, and its
// completion comes only to the thread that owns the old ring, so that thread waits for it.
//
// Submission is batched: submit() only fills in a request; the next wait(), or flush(), hands all
// of them to the kernel. cancel() in the `any` form enters the kernel itself, because no flush
// follows it.
//
// The kernel writes to the user's buffers and endpoints (the contract keeps them alive), the
// Message slab, and one word for interrupts. It never writes to a stack or into the operation.
//
// The ring may stop working. A system-call filter installed later refuses io_uring_enter, or the
// program closes the ring's descriptor: then nothing can be submitted or reaped. Or the kernel has
// lost a completion for lack of memory, and does not say whose: that operation would stay pending
// for ever, with everything that waits for its end. In these cases the engine is lost. New
// operations end at once with errc::engine_lost. Pending ones end in the same way, but only after
// the kernel provably uses none of their memory (see the end of a ring in ring.hpp). Until then the
// engine waits only for the witness and the interrupt descriptor.
//
// Pooled reads wait for readiness and then receive into a block taken at that moment. If only one
// socket is ready, a plain call receives at once, which saves an entry. For several, the kernel
// receives: one entry for all costs less than a call for each. Provided buffers would save the
// second request, but they are not used: a block given to the kernel is missing from the pool. An
// idle connection would pin it after all, another processor would find the pool empty, and the pool
// could not be destroyed while the engine lives.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>

#include "base/thread_annotations.hpp"
#include "baton/engine.hpp"
#include "baton/log.hpp"
#include "engines/common/handle_room.hpp"
#include "engines/common/pipe_calls.hpp"
#include "engines/common/spare_descriptor.hpp"
#include "engines/io_uring/outcome.hpp"
#include "engines/io_uring/prepare.hpp"
#include "engines/io_uring/request.hpp"
#include "engines/io_uring/ring.hpp"
#include "os/mutex.hpp"
#include "os/system.hpp"

namespace baton::engines::uring {

class IoUringEngine final : public Engine {
 public:
  struct Parts {
    std::unique_ptr<Ring> ring;
    int event = -1;  ///< the eventfd of interrupts; the engine owns it
    KernelFacts facts;
    RingOptions options;  ///< the ring was opened with these
  };
  /// Throws std::bad_alloc.
  IoUringEngine(const EngineOptions& options, Parts parts);
  ~IoUringEngine() override;

  [[nodiscard]] const EngineInfo& info() const noexcept override { return info_; }
  std::error_code attach(Handle& handle) noexcept override;
  void detach(Handle& handle) noexcept override;
  Submission submit(Operation& operation, void* record) noexcept override;
  // Without the analysis: attach() has made the record, and a growing table moves no record.
  [[nodiscard]] void* handle_record(const Handle& handle) noexcept override
      BATON_NO_THREAD_SAFETY_ANALYSIS {
    const bool is_simple =
        handle.kind() == HandleKind::stream_socket || handle.kind() == HandleKind::datagram_socket;
    return is_simple ? &handles_[handle.index()] : nullptr;
  }
  void flush() noexcept override;
  CancelAnswer cancel(Operation& operation) noexcept override;
  void wait(OperationQueue& completed, Deadline deadline) noexcept override;
  bool unpin(OperationQueue& completed) noexcept override;
  void interrupt() noexcept override;
  [[nodiscard]] NativeHandle descriptor() const noexcept override;
  [[nodiscard]] Glance glance() const noexcept override;
  [[nodiscard]] Deadline due() noexcept override;
  [[nodiscard]] EngineCounters counters() const noexcept override;
  void after_fork_in_child() noexcept override;

 private:
  // Everything from here to the tables is called with the lock held.

  // The fast path: a read or write of one buffer or of a whole list, on a socket with an empty
  // queue; or a datagram, which has no lane. False: the operation is none of these, or was not
  // issued; the slow path continues.
  [[gnu::always_inline]] bool submit_simple(Operation& operation, HandleRecord& record) noexcept
      BATON_REQUIRES(mutex_);
  [[gnu::always_inline]] bool submit_fast(Operation& operation, Lane& lane,
                                          abi::Opcode what) noexcept BATON_REQUIRES(mutex_);
  [[gnu::always_inline]] abi::Sqe* claim_fast(Operation& operation, Lane& lane) noexcept
      BATON_REQUIRES(mutex_);
  [[gnu::noinline]] bool submit_fast_pooled(Operation& operation, Lane& lane) noexcept
      BATON_REQUIRES(mutex_);
  [[gnu::noinline]] bool submit_fast_list(Operation& operation, Lane& lane) noexcept
      BATON_REQUIRES(mutex_);
  bool submit_fast_datagram(Operation& operation) noexcept BATON_REQUIRES(mutex_);
  bool submit_fast_message(Operation& operation, Lane* lane) noexcept BATON_REQUIRES(mutex_);
  [[gnu::always_inline]] bool is_complete(Operation& operation) noexcept BATON_REQUIRES(mutex_);
  [[gnu::noinline]] Submission submit_locked(Operation& operation, HandleRecord& record) noexcept;
  [[gnu::noinline]] Submission submit_generally(Operation& operation) noexcept;
  bool has_block(Operation& operation) noexcept BATON_REQUIRES(mutex_);
  bool fill_block(Operation& operation) noexcept BATON_REQUIRES(mutex_);
  [[gnu::always_inline]] bool settle_fast(abi::Cqe completion, OperationQueue& done) noexcept
      BATON_REQUIRES(mutex_);
  void settle_datagram(Request& request, int result, OperationQueue& done) noexcept
      BATON_REQUIRES(mutex_);

  // From submit to the ring.
  Submission no_memory(Operation& operation) const noexcept BATON_REQUIRES(mutex_);
  void begin(Operation& operation, OperationQueue& done) noexcept BATON_REQUIRES(mutex_);
  [[nodiscard]] FileRecord& file_of(const Operation& operation) noexcept BATON_REQUIRES(mutex_);
  [[nodiscard]] bool is_for_worker(const Operation& operation) const noexcept
      BATON_REQUIRES(mutex_);
  bool hold_sync(Operation& operation) noexcept BATON_REQUIRES(mutex_);
  void issue(Operation& operation) noexcept BATON_REQUIRES(mutex_);
  void pump(Lane& lane, OperationQueue& done) noexcept BATON_REQUIRES(mutex_);
  bool done_without_kernel(Operation& operation) noexcept BATON_REQUIRES(mutex_);
  [[nodiscard]] bool goes_by_call(Operation& operation) const noexcept;
  Verdict move_by_call(Operation& operation) noexcept BATON_REQUIRES(mutex_);
  [[nodiscard]] Request* request_of(std::uint64_t user_data) noexcept BATON_REQUIRES(mutex_);
  void leave_limited_writes_to_workers() noexcept BATON_REQUIRES(mutex_);
  abi::Sqe* claim() noexcept BATON_REQUIRES(mutex_);
  void leave_lane(Operation& operation) noexcept BATON_REQUIRES(mutex_);
  [[nodiscard]] bool ensure_message(const Operation& operation, Request& record) noexcept
      BATON_REQUIRES(mutex_);
  void fill(Operation& operation, abi::Sqe& request) noexcept BATON_REQUIRES(mutex_);
  bool merge(Lane& lane, Operation& first, abi::Sqe& request) noexcept BATON_REQUIRES(mutex_);
  CancelAnswer cancel_here(Operation& operation) noexcept BATON_REQUIRES(mutex_);
  bool withdraw(Operation& operation) noexcept BATON_REQUIRES(mutex_);
  [[nodiscard]] std::uint64_t tag_in_kernel(Operation& operation) noexcept BATON_REQUIRES(mutex_);
  void let_go_of_sync(Operation& operation) noexcept BATON_REQUIRES(mutex_);
  void send_cancel(Operation& operation) noexcept BATON_REQUIRES(mutex_);
  void settle_cancel(abi::Cqe completion) noexcept BATON_REQUIRES(mutex_);

  // From the ring to the completed queue.
  [[gnu::always_inline]] bool reap(OperationQueue& completed) noexcept;
  [[gnu::noinline]] bool reap_locked(OperationQueue& completed) noexcept;
  [[gnu::always_inline]] bool take_all(OperationQueue& completed) noexcept BATON_REQUIRES(mutex_);
  void take_the_last(OperationQueue& completed) noexcept BATON_REQUIRES(mutex_);
  /// Any completion, outside of the hot path. True: it is an interrupt.
  bool settle_any(abi::Cqe completion, OperationQueue& done) noexcept BATON_REQUIRES(mutex_);
  bool settle(abi::Cqe completion, OperationQueue& done) noexcept BATON_REQUIRES(mutex_);
  /// Only one thread at a time raises a counter, so no locked instruction is needed.
  static void count(std::atomic<std::uint64_t>& counter) noexcept {
    counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  bool settle_wake(abi::Cqe completion) noexcept BATON_REQUIRES(mutex_);
  void settle_request(Operation& operation, int result, OperationQueue& done) noexcept
      BATON_REQUIRES(mutex_);
  void settle_merged(Lane& lane, int result, OperationQueue& done) noexcept BATON_REQUIRES(mutex_);
  void go_on(Operation& operation, Verdict verdict, OperationQueue& done) noexcept
      BATON_REQUIRES(mutex_);
  void retire(Operation& operation, OperationQueue& done) noexcept BATON_REQUIRES(mutex_);
  void count_write_out(FileRecord& record, std::uint32_t epoch) noexcept BATON_REQUIRES(mutex_);

  // The leader's work before it waits.
  [[nodiscard]] bool nothing_to_prepare() const noexcept {
    if (locked_) return false;
    mutex_.assume_held();
    return wake_armed_ && postponed_ == 0 && resting_ == no_index &&
           !file_writes_.load(std::memory_order_relaxed);
  }
  Deadline prepare_wait(OperationQueue& completed, Deadline deadline) noexcept;
  void arm_wake() noexcept BATON_REQUIRES(mutex_);
  void submit_postponed(OperationQueue& done) noexcept BATON_REQUIRES(mutex_);
  int settle_accepted(Operation& operation, int accepted) noexcept BATON_REQUIRES(mutex_);
  void back_off(Operation& operation) noexcept BATON_REQUIRES(mutex_);
  void begin_rest(Progress& state) noexcept BATON_REQUIRES(mutex_);
  void look_later(Operation& operation) noexcept BATON_REQUIRES(mutex_);
  bool queues_behind_another(Operation& operation) noexcept BATON_REQUIRES(mutex_);
  void list(Progress& state) noexcept BATON_REQUIRES(mutex_);
  bool rest_with_another(Operation& operation) noexcept BATON_REQUIRES(mutex_);
  void stop_resting(Operation& operation) noexcept BATON_REQUIRES(mutex_);
  /// When operations that back off are tried again.
  [[nodiscard]] Deadline next_retry() const noexcept BATON_REQUIRES(mutex_);
  /// When to retry a kernel that had no room.
  [[nodiscard]] Deadline next_try() const noexcept;
  Deadline retry_backed_off(Deadline deadline, OperationQueue& done) noexcept
      BATON_REQUIRES(mutex_);
  [[gnu::always_inline]] Entered enter(Deadline until, OperationQueue& completed) noexcept;
  [[gnu::noinline]] Entered enter_otherwise(Entered entered, Deadline until,
                                            OperationQueue& completed) noexcept;
  void end_withdrawn(OperationQueue& completed) noexcept BATON_REQUIRES(mutex_);
  Entered submit_ring() noexcept;
  [[nodiscard]] bool may_enter() noexcept BATON_REQUIRES(mutex_);
  void submit_lot() noexcept BATON_REQUIRES(mutex_);
  void note_refusal(int error) noexcept;
  [[nodiscard]] bool is_lost() const noexcept {
    return lost_.load(std::memory_order_relaxed) != 0;  // the rest of the state is under the lock
  }
  Submission refuse(Operation& operation) const noexcept;
  void wait_lost(OperationQueue& completed, Deadline deadline) noexcept;
  void let_go_of_ring(OperationQueue& completed) noexcept;
  void end_all(OperationQueue& done) noexcept BATON_REQUIRES(mutex_);
  void end_close(Operation& operation) noexcept BATON_REQUIRES(mutex_);
  int take_over() noexcept;
  bool move_to_new_ring(OperationQueue& completed) noexcept BATON_REQUIRES(mutex_);
  [[nodiscard]] std::uint32_t prepared() const noexcept;
  void leave_ring(std::unique_ptr<Ring> old) noexcept BATON_REQUIRES(mutex_);
  bool empty_ring(Ring& old, OperationQueue& completed) noexcept BATON_REQUIRES(mutex_);
  void stop_messages() noexcept;
  void write_event() noexcept;

  [[nodiscard]] Lane* lane_of(Operation& operation) noexcept BATON_REQUIRES(mutex_);
  [[nodiscard]] Request* request_of(Operation& operation) noexcept BATON_REQUIRES(mutex_);
  void warn_now_and_then(const char* text) noexcept BATON_REQUIRES(mutex_);
  void log(LogLevel level, std::string_view text) noexcept;

  const os::System& system_;
  Log* const log_;
  const bool locked_;  // options.concurrent, in the `any` form
  const KernelFacts facts_;
  RingOptions ring_options_;
  const bool may_unpin_;
  EngineInfo info_;
  std::unique_ptr<Ring> ring_;
  int event_;

  // Interrupts: true from the first interrupt until its completion is reaped.
  std::atomic<bool> wake_pending_{false};
  // The ring that interrupters send messages to; -1: they write to event_. See stop_messages().
  std::atomic<int> message_target_;
  std::unique_ptr<Ring> retired_;
  // The errno of the entry that was refused; 0: none. Set by the leader under the lock.
  std::atomic<int> lost_{0};

  mutable os::Mutex mutex_;
  bool wake_armed_ BATON_GUARDED_BY(mutex_) = false;
  bool waits_ BATON_GUARDED_BY(mutex_) = false;         // the leader prepares its wait
  bool wake_by_read_ BATON_GUARDED_BY(mutex_) = false;  // the kernel has no multishot poll
  Slab<Request, 256> requests_ BATON_GUARDED_BY(mutex_);
  Slab<Message, 16> messages_ BATON_GUARDED_BY(mutex_);
  Slab<FileRecord, 64> files_ BATON_GUARDED_BY(mutex_);
  ChunkedTable<HandleRecord> handles_ BATON_GUARDED_BY(mutex_);
  std::uint32_t resting_ BATON_GUARDED_BY(mutex_) = no_index;  // slots: they back off or look
  std::int64_t look_ns_ BATON_GUARDED_BY(mutex_) = 0;          // none of them is due before
  std::uint32_t accepted_ BATON_GUARDED_BY(mutex_) = 0;        // connections, of all listeners
  std::uint32_t in_flight_ BATON_GUARDED_BY(mutex_) = 0;       // operations that the engine has
  std::uint32_t postponed_ BATON_GUARDED_BY(mutex_) =
      0;  // submissions and cancellations to make up
  std::uint32_t in_kernel_ BATON_GUARDED_BY(mutex_) = 0;  // their requests in the ring
  // Writes to files were prepared, and may not be in the kernel yet. Written under the lock.
  std::atomic<bool> file_writes_{false};
  std::uint32_t file_lot_ BATON_GUARDED_BY(mutex_) = 2;  // transfers of files in one entry
  const HandleRoom room_;
  SpareDescriptor spare_;
  PipeCalls pipes_;
  std::int64_t log_again_ns_ BATON_GUARDED_BY(mutex_) = 0;

  // Raised under the lock, read by any thread.
  std::atomic<std::uint64_t> stale_events_{0};
  std::atomic<std::uint64_t> accept_backoffs_{0};
};

}  // namespace baton::engines::uring
