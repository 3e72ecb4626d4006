// The linux_aio engine. The path of an operation:
//
//   submit -> admit -> [held in its lane] -> the batch -> io_submit -> settle -> finished -> out
//                                       \-> tried at once -> a worker -------/^
//                                           (or a worker continues what the kernel gave back)
#include "engines/linux_aio/linux_aio_engine.hpp"

#include <errno.h>
#include <fcntl.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/assert.hpp"
#include "base/tsan.hpp"
#include "base/uninitialized.hpp"

namespace baton::engines::linux_aio {
namespace {

// The longest pause while the kernel has no room and nothing completes; pauses double up to it.
constexpr Duration congestion_pause_max{160'000'000};

EngineInfo make_info(bool concurrent, std::uint32_t slots) noexcept {
  EngineInfo info;
  info.name = "linux_aio";
  for (const OperationKind kind :
       {OperationKind::read_file, OperationKind::write_file, OperationKind::sync_file}) {
    info.support[static_cast<std::size_t>(kind)] = Support::native;
  }
  info.support[static_cast<std::size_t>(OperationKind::close)] = Support::assisted;
  info.start_from_any_thread = concurrent;
  info.works_in_submit = true;
  info.operations_max = slots;
  return info;
}

// Whether the kernel does it without blocking the submitting thread.
bool by_kernel(const Operation& operation, const FileRecord& record) noexcept {
  if (operation.kind() == OperationKind::sync_file) return true;
  return record.direct && !is_ordered(operation) && operation.bytes() == 0;
}

bool done_without_kernel(Operation& operation) noexcept {
  if (operation.kind() == OperationKind::sync_file) return false;
  Attempt& attempt = progress(operation).attempt;
  if (needs_no_transfer(operation, attempt)) return true;
  if (offset_fits(operation)) return !take_block(operation, attempt);
  operation.finish(EINVAL);
  return true;
}

}  // namespace

LinuxAioEngine::LinuxAioEngine(const EngineOptions& options, std::unique_ptr<Context> context)
    : system_(os::or_real(options.system)),
      concurrent_(options.concurrent),
      info_(make_info(options.concurrent, context->slots())),
      context_(std::move(context)),
      calls_(system_),
      files_(options.handles_max),
      slots_(std::make_unique<Slot[]>(context_->slots())),
      workers_(system_, *this, options.config != nullptr ? options.config->workers : 0),
      closer_(system_, *this) {
  for (std::uint32_t i = 0; i + 1 < context_->slots(); ++i) slots_[i].next_free = i + 1;
}

LinuxAioEngine::~LinuxAioEngine() { BATON_ASSERT(used_slots_ == 0); }

void LinuxAioEngine::after_fork_in_child() noexcept {
  // The mutex may be locked by a thread that does not exist here.
  mutex_.assume_held();
  context_->abandon();
  workers_.abandon();
  closer_.abandon();
  used_slots_ = 0;
}

EngineCounters LinuxAioEngine::counters() const noexcept {
  return {.stale_events = stale_events_.load(std::memory_order_relaxed),
          .worker_jobs = workers_.jobs()};
}

std::error_code LinuxAioEngine::attach(Handle& handle) noexcept {
  os::LockGuard guard{mutex_, system_, concurrent_};
  if (handle.index() >= files_.bound()) return errc::no_free_handles;
  if (!files_.ensure(handle.index())) return std::make_error_code(std::errc::not_enough_memory);
  FileRecord& record = files_[handle.index()];
  BATON_ASSERT(record.in.queue.empty() && record.in.order.idle());
  BATON_ASSERT(record.out.queue.empty() && record.out.order.idle());
  record.is_file = handle.is_file();
  record.direct = handle.is_file() && handle.direct();
  record.no_wait_writes.store(true, std::memory_order_relaxed);
  return {};
}

void LinuxAioEngine::detach(Handle& handle) noexcept {
  // No registration outlives its request.
  os::LockGuard guard{mutex_, system_, concurrent_};
  const FileRecord& record = files_[handle.index()];
  BATON_ASSERT(record.in.queue.empty() && record.in.order.idle());
  BATON_ASSERT(record.out.queue.empty() && record.out.order.idle());
}

// -- starting -------------------------------------------------------------------------------------

std::uint32_t LinuxAioEngine::take_slot() noexcept {
  if (used_slots_ == context_->slots()) return no_slot;
  ++used_slots_;
  return std::exchange(free_slot_, slots_[free_slot_].next_free);
}

Submission LinuxAioEngine::submit(Operation& operation, void*) noexcept {
  if (operation.kind() == OperationKind::close) return closer_.submit(operation);
  FileRecord& record = record_of(operation);
  Submission answer = Submission::pending;
  bool tries = false;
  {
    os::LockGuard guard{mutex_, system_, concurrent_};
    answer = admit(operation, record, tries);
  }
  if (!tries) return answer;
  // Without the lock: copying out of the page cache takes time, and other threads may do the same.
  const bool done = calls_.try_now(operation, progress(operation).attempt, record.no_wait_writes);
  return after_try(operation, record, done);
}

// `tries`: this thread tries the operation, which is not visible to cancel before that.
Submission LinuxAioEngine::admit(Operation& operation, FileRecord& record, bool& tries) noexcept {
  // A cancel sets the mark before it takes the lock: either this thread sees the mark, or the
  // cancel finds the operation.
  int error = operation.cancel_asked() ? ECANCELED : 0;
  // The kernel answers the same for sockets and pipes.
  if (error == 0 && !record.is_file) {
    error = operation.kind() == OperationKind::sync_file ? EINVAL : ESPIPE;
  }
  if (error != 0) {
    operation.finish(error);
    settle_pooled(operation, Attempt{});
    return Submission::completed;
  }
  const bool kernel = by_kernel(operation, record);
  // relaxed, everywhere: a hint. The batch itself is under the lock, and a thread that leaves
  // something in it interrupts the leader.
  if (kernel && congested_.load(std::memory_order_relaxed)) return Submission::busy;
  const std::uint32_t slot = take_slot();
  if (slot == no_slot) return Submission::busy;
  Progress& state = progress(operation) = Progress{};
  state.slot = slot;
  Lane& lane = lane_of(record, operation);
  if (!lane.queue.empty() || !lane.order.admits(operation)) {
    slots_[slot].operation = &operation;
    lane.queue.push_back(operation);
    return Submission::pending;
  }
  lane.order.began(operation);
  if (!kernel) {
    tries = true;
    return Submission::pending;
  }
  slots_[slot].operation = &operation;
  if (go(operation, record)) return Submission::pending;
  lane.order.ended(operation);
  leave(operation);
  return Submission::completed;
}

Submission LinuxAioEngine::after_try(Operation& operation, FileRecord& record, bool done) noexcept {
  bool call_leader = false;
  {
    os::LockGuard guard{mutex_, system_, concurrent_};
    if (!done && operation.cancel_asked()) {
      operation.finish(ECANCELED);
      done = true;
    }
    if (!done) {
      slots_[progress(operation).slot].operation = &operation;
      if (go(operation, record)) return Submission::pending;
    }
    Lane& lane = lane_of(record, operation);
    lane.order.ended(operation);
    leave(operation);
    dispatch(record, lane);
    call_leader = !done_.empty();
  }
  submit_batch(call_leader);
  return Submission::completed;
}

// Starts an operation that its lane has counted as begun. False: it is complete instead.
bool LinuxAioEngine::go(Operation& operation, const FileRecord& record) noexcept {
  if (!by_kernel(operation, record)) {
    const int error = give_to_worker(operation);
    if (error != 0) operation.finish(error);
    return error == 0;
  }
  if (done_without_kernel(operation)) return false;
  progress(operation).place = Place::batch;
  batch_.push_back(operation);
  return true;
}

// ENOMEM: there is no worker, and no thread can be started.
int LinuxAioEngine::give_to_worker(Operation& operation) noexcept {
  progress(operation).place = Place::worker;
  return workers_.submit(operation);
}

void LinuxAioEngine::dispatch(const FileRecord& record, Lane& lane) noexcept {
  while (!lane.queue.empty() && lane.order.admits(*lane.queue.front())) {
    Operation& operation = lane.queue.pop_front();
    lane.order.began(operation);
    if (go(operation, record)) continue;
    lane.order.ended(operation);
    leave(operation);
    done_.push_back(operation);
  }
}

// Submits operations that an end has released. A single thread does so in its next wait.
void LinuxAioEngine::submit_batch(bool call_leader) noexcept {
  if (!concurrent_) return;
  if (hand_over() || call_leader) interrupt();
}

// -- the batch ------------------------------------------------------------------------------------

void LinuxAioEngine::flush() noexcept {
  // The leader retries after its pause. A leader of several engines flushes before it sleeps, so it
  // would wake itself for ever.
  if (congested_.load(std::memory_order_relaxed)) return;
  if (hand_over()) interrupt();
}

// True: something is left for the leader. Several threads may be here, each with its part of the
// batch. Requests that the kernel has taken are not touched any more: they may be complete.
bool LinuxAioEngine::hand_over() noexcept {
  bool call_leader = false;
  BATON_UNINITIALIZED std::array<std::uint32_t, Context::lot_max> list;
  for (;;) {
    std::span<const std::uint32_t> rest{list.data(), take_batch(list, call_leader)};
    if (rest.empty()) return call_leader;
    while (!rest.empty()) {
      const int taken = context_->submit(rest);
      if (taken > 0) {
        rest = rest.subspan(static_cast<std::size_t>(taken));
      } else if (taken == 0 || taken == -EAGAIN) {
        take_back(rest);
        return true;
      } else {
        refused(rest.front(), -taken);
        rest = rest.subspan(1);
        call_leader = true;
      }
    }
  }
}

// `call_leader` is set if operations are complete that could go to no worker.
std::size_t LinuxAioEngine::take_batch(std::span<std::uint32_t> slots, bool& call_leader) noexcept {
  os::LockGuard guard{mutex_, system_, concurrent_};
  std::size_t count = 0;
  std::optional<bool> limited;
  while (count < slots.size() && !batch_.empty()) {
    Operation& operation = batch_.pop_front();
    Progress& state = progress(operation);
    if (operation.kind() == OperationKind::write_file) {
      // Beyond RLIMIT_FSIZE the submitting thread would get SIGXFSZ. The program may have lowered
      // the limit since the write was started, so it is read here, once for a batch.
      if (!limited) limited = FileCalls::growth_is_limited(system_);
      if (*limited) {
        go_on_by_worker(operation, record_of(operation));
        call_leader |= !done_.empty();
        continue;
      }
    }
    state.place = Place::kernel;
    context_->prepare(state.slot, operation);
    BATON_TSAN_RELEASE(&operation);
    slots[count++] = state.slot;
  }
  if (count == 0) congested_.store(false, std::memory_order_relaxed);
  return count;
}

// The kernel had no room: the requests return to the front of the batch, in order, for the leader.
void LinuxAioEngine::take_back(std::span<const std::uint32_t> slots) noexcept {
  os::LockGuard guard{mutex_, system_, concurrent_};
  congested_.store(true, std::memory_order_relaxed);
  for (std::size_t i = slots.size(); i-- > 0;) {
    Operation& operation = *slots_[slots[i]].operation;
    if (operation.cancel_asked()) {  // the cancel answered that the completion comes out of wait
      operation.finish(ECANCELED);
      finished(operation, record_of(operation));
    } else {
      progress(operation).place = Place::batch;
      batch_.push_front(operation);
    }
  }
}

// EINVAL is about the request, not the transfer: the file system has no asynchronous form of it. A
// worker makes the plain call. EBADF, EFAULT and the rest: the outcome.
void LinuxAioEngine::refused(std::uint32_t slot, int error) noexcept {
  os::LockGuard guard{mutex_, system_, concurrent_};
  Operation& operation = *slots_[slot].operation;
  FileRecord& record = record_of(operation);
  if (error == EINVAL) return go_on_by_worker(operation, record);
  settle_error(operation, record, error);
}

// -- results --------------------------------------------------------------------------------------

void LinuxAioEngine::settle(const Completion& completion) noexcept {
  if (completion.slot == context_->wake_slot()) {
    // acq_rel: the interrupter's earlier writes are visible here, and a later interrupter wakes
    // again.
    wake_pending_.exchange(false, std::memory_order_acq_rel);
    return;
  }
  Operation* const operation =
      completion.slot < context_->slots() ? slots_[completion.slot].operation : nullptr;
  const bool expected = operation != nullptr && progress(*operation).place == Place::kernel;
  BATON_DASSERT(expected);
  if (!expected) {
    stale_events_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  BATON_TSAN_ACQUIRE(operation);
  FileRecord& record = record_of(*operation);
  if (completion.result < 0) {
    settle_error(*operation, record, static_cast<int>(-completion.result));
  } else if (operation->kind() == OperationKind::sync_file) {
    operation->finish(0);
    finished(*operation, record);
  } else {
    settle_transfer(*operation, record, static_cast<std::size_t>(completion.result));
  }
}

void LinuxAioEngine::settle_transfer(Operation& operation, FileRecord& record,
                                     std::size_t moved) noexcept {
  // At the end of the file, too: reading its size may take long, so a worker does it.
  if (advance_file(operation, moved)) return finished(operation, record);
  go_on_by_worker(operation, record);
}

// EAGAIN: it would have waited. EINTR: a signal came while the kernel started it. ECANCELED:
// io_cancel succeeded. go_on_by_worker() checks for a cancel. EOPNOTSUPP, ENOSYS: the file system
// does not know RWF_NOWAIT and may wait for its server in io_submit. Everything else is the
// outcome: EINVAL (not aligned for O_DIRECT), EBADF, EFAULT, EIO, ENOSPC, EDQUOT, EFBIG, EPERM.
void LinuxAioEngine::settle_error(Operation& operation, FileRecord& record, int error) noexcept {
  const bool never = FileCalls::means_never(error) && operation.kind() != OperationKind::sync_file;
  if (never) record.direct = false;
  if (never || error == EAGAIN || error == EINTR || error == ECANCELED) {
    return go_on_by_worker(operation, record);
  }
  fail_file(operation, error);
  finished(operation, record);
}

void LinuxAioEngine::go_on_by_worker(Operation& operation, FileRecord& record) noexcept {
  int error = ECANCELED;
  if (!operation.cancel_asked()) error = give_to_worker(operation);
  if (error == 0) return;
  operation.finish(error);
  finished(operation, record);
}

void LinuxAioEngine::finished(Operation& operation, FileRecord& record) noexcept {
  Lane& lane = lane_of(record, operation);
  lane.order.ended(operation);
  leave(operation);
  done_.push_back(operation);
  dispatch(record, lane);
}

// The operation leaves the engine: its slot is free, and a later completion for it is stale.
void LinuxAioEngine::leave(Operation& operation) noexcept {
  const Progress& state = progress(operation);
  settle_pooled(operation, state.attempt);
  BATON_ASSERT(used_slots_ > 0);
  --used_slots_;
  slots_[state.slot] = {.operation = nullptr, .next_free = free_slot_};
  free_slot_ = state.slot;
}

void LinuxAioEngine::work(Operation& operation) noexcept {
  if (operation.kind() == OperationKind::sync_file) return calls_.sync(operation);
  calls_.transfer(operation, progress(operation).attempt);
}

void LinuxAioEngine::take_from_workers() noexcept {
  OperationQueue all;
  workers_.take_finished(all);
  while (!all.empty()) {
    Operation& operation = all.pop_front();
    finished(operation, record_of(operation));
  }
}

// -- cancel ---------------------------------------------------------------------------------------

CancelAnswer LinuxAioEngine::cancel(Operation& operation) noexcept {
  CancelAnswer answer = CancelAnswer::too_late;
  bool call_leader = false;
  {
    os::LockGuard guard{mutex_, system_, concurrent_};
    answer = cancel_here(operation);
    call_leader = !done_.empty();
  }
  if (answer == CancelAnswer::completed) submit_batch(call_leader);
  return answer;
}

CancelAnswer LinuxAioEngine::cancel_here(Operation& operation) noexcept {
  const std::uint32_t slot = progress(operation).slot;
  if (slot >= context_->slots() || slots_[slot].operation != &operation) {
    return CancelAnswer::too_late;
  }
  FileRecord& record = record_of(operation);
  Lane& lane = lane_of(record, operation);
  switch (progress(operation).place) {
    case Place::kernel:
      context_->cancel(slot);
      return CancelAnswer::requested;
    case Place::worker:
      if (!workers_.cancel(operation)) return CancelAnswer::requested;
      lane.order.ended(operation);
      break;
    case Place::batch:
      batch_.erase(operation);
      lane.order.ended(operation);
      break;
    case Place::held:
      lane.queue.erase(operation);
      break;
  }
  operation.finish(ECANCELED);
  leave(operation);
  dispatch(record, lane);
  return CancelAnswer::completed;
}

// -- the leader -----------------------------------------------------------------------------------

void LinuxAioEngine::wait(OperationQueue& completed, Deadline deadline) noexcept {
  closer_.take(completed);
  const Deadline until = prepare_wait(completed, deadline);
  const std::size_t count = context_->take(completions_, until);
  collect(std::span<const Completion>{completions_}.first(count), completed);
  closer_.take(completed);
}

Deadline LinuxAioEngine::prepare_wait(OperationQueue& completed, Deadline deadline) noexcept {
  if (workers_.has_finished()) {
    os::LockGuard guard{mutex_, system_, concurrent_};
    take_from_workers();
  }
  const bool was_congested = congested_.load(std::memory_order_relaxed);
  static_cast<void>(hand_over());
  const bool is_congested = congested_.load(std::memory_order_relaxed);
  os::LockGuard guard{mutex_, system_, concurrent_};
  completed.splice_back(done_);
  // There is room again: operations that got busy are offered again after this wait.
  if (!completed.empty() || (was_congested && !is_congested)) return Deadline::immediately();
  if (!is_congested) pause_ = congestion_pause_min;
  if (!is_congested || deadline == Deadline::immediately()) return deadline;
  return std::min(deadline, end_of_pause());
}

// The workers last: one that finishes after an interrupt was taken interrupts again.
void LinuxAioEngine::collect(std::span<const Completion> completions,
                             OperationQueue& completed) noexcept {
  bool more = false;
  {
    os::LockGuard guard{mutex_, system_, concurrent_};
    for (const Completion& completion : completions) settle(completion);
    take_from_workers();
    more = !batch_.empty();
    completed.splice_back(done_);
  }
  // This thread may sleep next in another engine.
  if (!more || !hand_over()) return;
  os::LockGuard guard{mutex_, system_, concurrent_};
  completed.splice_back(done_);
}

void LinuxAioEngine::interrupt() noexcept {
  // acq_rel: the caller's earlier writes are visible to the leader that clears the flag. A caller
  // that finds the flag set may rely on the thread that set it.
  if (wake_pending_.exchange(true, std::memory_order_acq_rel)) return;
  const int saved = errno;  // the caller may be a signal handler
  context_->wake();
  errno = saved;
}

NativeHandle LinuxAioEngine::descriptor() const noexcept { return context_->descriptor(); }

// While the kernel has no room, the retry is due at a time that no descriptor reports.
Deadline LinuxAioEngine::due() noexcept {
  return congested_.load(std::memory_order_relaxed) ? end_of_pause() : Deadline::never();
}

Deadline LinuxAioEngine::end_of_pause() noexcept {
  const Deadline now = Deadline::at_ns(system_.monotonic_ns());
  const Deadline end = Deadline::after(pause_, now);
  pause_ = std::min(2 * pause_, congestion_pause_max);
  return end;
}

}  // namespace baton::engines::linux_aio
