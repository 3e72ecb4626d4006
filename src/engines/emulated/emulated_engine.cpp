// The emulated engine: its records, the fast path, and the leader's wait. The header explains it.
// The other starts and cancels are in submit.cpp, what follows readiness in settle.cpp, the path
// through the workers in by_workers.cpp, the system calls in perform.cpp, work.cpp and
// common/file_calls.cpp.
#include "engines/emulated/emulated_engine.hpp"

#include <errno.h>
#include <sys/socket.h>

#include <algorithm>
#include <utility>

#include "base/assert.hpp"
#include "engines/common/transfer.hpp"

namespace baton::engines::emulated {
namespace {

constexpr EngineInfo facts() {
  EngineInfo info;
  info.name = "emulated";
  for (std::size_t i = 0; i < operation_kinds; ++i) {
    switch (static_cast<OperationKind>(i)) {
      case OperationKind::read_file:
      case OperationKind::write_file:
      case OperationKind::sync_file:
        info.support[i] = Support::assisted;
        break;
      case OperationKind::timer:
      case OperationKind::user:
        info.support[i] = Support::unsupported;
        break;
      default:
        info.support[i] = Support::native;
    }
  }
  info.works_in_submit = true;
  return info;
}

// A strategy that hands over does not have to end pending operations when its thread leaves.
LeaderRule leader_rule(const WaitStrategyInfo& wait) noexcept {
  if (wait.any_thread_waits) return LeaderRule::any;
  return wait.hands_over ? LeaderRule::steady : LeaderRule::pinned;
}

}  // namespace

// -- the engine -----------------------------------------------------------------------------------

EmulatedEngine::EmulatedEngine(const EngineOptions& options,
                               std::unique_ptr<demux::Demultiplexer> demux)
    : system_(os::or_real(options.system)),
      log_(options.log),
      concurrent_(options.concurrent),
      info_(facts()),
      demux_(std::move(demux)),
      records_(options.handles_max),
      back_offs_(system_, records_, concurrent_),
      performer_(system_, concurrent_, HandleRoom{options}),
      workers_(system_, *this, options.config != nullptr ? options.config->workers : 0) {
  info_.leader_rule = leader_rule(demux_->info());
  info_.start_from_any_thread = concurrent_;
  info_.wait_name = demux_->info().name;
  info_.interrupt_name = demux_->interrupt_name();
}

EmulatedEngine::~EmulatedEngine() = default;

Direction& EmulatedEngine::direction_of(Record& record, const Operation& operation) noexcept {
  return is_input(operation) ? record.in : record.out;
}

EngineCounters EmulatedEngine::counters() const noexcept {
  return {.stale_events = demux_->stale_reports(),
          .accept_backoffs = accept_backoffs_.load(std::memory_order_relaxed),
          .worker_jobs = workers_.jobs()};
}

void EmulatedEngine::after_fork_in_child() noexcept {
  demux_->after_fork_in_child();
  performer_.abandon();
  workers_.abandon();
}

std::error_code EmulatedEngine::attach(Handle& handle) noexcept {
  const bool by_workers = handle.is_file();
  {
    os::LockGuard guard{table_mutex_, system_, concurrent_};
    if (handle.index() >= records_.bound()) return errc::no_free_handles;
    if (!records_.ensure(handle.index())) return std::make_error_code(std::errc::not_enough_memory);
  }
  if (!by_workers) {
    const Ownership whose = handle.owned() ? Ownership::owned : Ownership::borrowed;
    if (const auto error = demux_->attach(handle.index(), handle.native(), whose)) return error;
  }
  Record& record = records_[handle.index()];
  os::LockGuard in{record.in.mutex, system_, concurrent_};
  os::LockGuard out{record.out.mutex, system_, concurrent_};
  BATON_ASSERT(record.fd == invalid_handle);
  record.fd = handle.native();
  record.index = handle.index();
  record.owned = handle.owned();
  record.watchable = !by_workers;
  const bool may_stay = record.owned || demux_->info().watches_once;
  record.fast = record.watchable && may_stay && is_socket(handle) && handle.readable();
  record.by_workers.store(by_workers, std::memory_order_relaxed);
  record.no_wait_writes.store(true, std::memory_order_relaxed);
  if (may_connect_by_worker(handle)) workers_.prepare();
  return {};
}

// A connect that begins in baton_poll finds the worker: the call itself could wait for ever.
bool EmulatedEngine::may_connect_by_worker(const Handle& handle) const noexcept {
  if (handle.kind() != HandleKind::stream_socket || handle.nonblocking()) return false;
  sockaddr_storage peer{};
  socklen_t size = sizeof(peer);
  return system_.getpeername(handle.native(), reinterpret_cast<sockaddr*>(&peer), &size) != 0 &&
         errno == ENOTCONN;
}

void EmulatedEngine::detach(Handle& handle) noexcept {
  Record& record = records_[handle.index()];
  os::LockGuard in{record.in.mutex, system_, concurrent_};
  os::LockGuard out{record.out.mutex, system_, concurrent_};
  BATON_ASSERT(record.fd == handle.native());
  BATON_ASSERT(record.in.queue.empty() && record.in.order.idle());
  BATON_ASSERT(record.out.queue.empty() && record.out.order.idle());
  back_offs_.remove(record.in);
  back_offs_.remove(record.out);
  if (record.watchable) demux_->detach(record.index);
  record.in.failures = record.out.failures = 0;
  record.in.asleep = record.out.asleep = false;
  record.out.asked = record.out.is_unix = false;
  record.watchable = record.fast = record.fast_in = false;
  record.accepts_ahead = 0;
  record.fd = invalid_handle;
}

// -- the fast path -------------------------------------------------------------------------------
//
// The functions are many and short so that the fast path saves no registers and takes only the
// locks that it needs.

// For a stream: one buffer, present already, and not larger than one call moves.
inline bool EmulatedEngine::fits_one_call(const Operation& operation, unsigned special) noexcept {
  return (operation.flags() & special) == 0 && operation.buffer().size - 1 < limits::transfer_max;
}

// No queued bytes go before it.
inline bool EmulatedEngine::may_send_fast(const Record& record) noexcept {
  return record.fast && record.out.queue.empty() && !record.out.asleep;
}

// Only calls, so that the fast path saves no registers.
Submission EmulatedEngine::submit(Operation& operation, void* known) noexcept {
  if (BATON_LIKELY(known != nullptr)) {
    Record& record = *static_cast<Record*>(known);
    switch (operation.kind()) {
      case OperationKind::read_stream:
      case OperationKind::read_datagram:
        return concurrent_ ? submit_read_locked(operation, record) : submit_read(operation, record);
      case OperationKind::write_stream:
        return concurrent_ ? submit_write_locked(operation, record)
                           : submit_write(operation, record);
      case OperationKind::write_datagram:
        if (!concurrent_) return submit_write_datagram(operation, record);
        break;
      default:
        break;
    }
  }
  return submit_generally(operation, true);
}

Submission EmulatedEngine::submit_read(Operation& operation, Record& record) noexcept {
  record.in.mutex.assume_held();
  return BATON_LIKELY(queue_watched(operation, record)) ? Submission::pending
                                                        : submit_generally(operation, true);
}

Submission EmulatedEngine::submit_read_locked(Operation& operation, Record& record) noexcept {
  bool done = false;
  {
    const os::LockGuard guard{record.in.mutex, system_};
    done = BATON_LIKELY(!operation.cancel_asked()) && queue_watched(operation, record);
  }
  return BATON_LIKELY(done) ? Submission::pending : submit_generally(operation, true);
}

inline bool EmulatedEngine::queue_watched(Operation& operation, Record& record) noexcept {
  constexpr unsigned special = Operation::vectored | Operation::pooled | Operation::until;
  if (BATON_UNLIKELY(!fits_one_call(operation, special)) && !operation.has(Operation::pooled) &&
      (!fits_one_call(operation, Operation::vectored) ||
       operation.bytes() > 0)) {  // may contain the delimiter already
    return false;
  }
  if (BATON_UNLIKELY(!record.fast_in) && !watch_borrowed(record)) return false;
  Progress& state = progress(operation);
  state.place = Place::queued;
  state.owner = &record.in;
  state.attempt.begun = true;  // there is something to move
  state.attempt.pool = nullptr;
  if (BATON_LIKELY(record.in.queue.empty())) {
    record.in.queue.push_only(operation);
  } else {
    record.in.queue.push_back(operation);
  }
  return true;
}

// A borrowed descriptor is armed anew for each read. A report that comes at once finds the mutex
// locked until the read is in the queue.
bool EmulatedEngine::watch_borrowed(const Record& record) noexcept {
  if (record.owned || !record.fast || record.in.asleep) return false;
  std::error_code error;
  return demux_->watch(record.index, Interest::in, error) == demux::Watch::armed;
}

Submission EmulatedEngine::submit_write(Operation& operation, Record& record) noexcept {
  record.out.mutex.assume_held();
  const Sent sent = send_fast(operation, record);
  return BATON_LIKELY(sent == Sent::done) ? Submission::completed
                                          : write_otherwise(operation, record, sent);
}

Submission EmulatedEngine::submit_write_locked(Operation& operation, Record& record) noexcept {
  Sent sent = Sent::nothing;
  {
    const os::LockGuard guard{record.out.mutex, system_};
    if (BATON_LIKELY(!operation.cancel_asked())) {
      sent = send_fast(operation, record);
      if (BATON_UNLIKELY(sent == Sent::nothing)) sent = send_list(operation, record);
    }
    if (BATON_UNLIKELY(sent == Sent::partly)) return queue_rest(operation, record);
  }
  return BATON_LIKELY(sent == Sent::done) ? Submission::completed
                                          : submit_generally(operation, sent != Sent::full);
}

Submission EmulatedEngine::submit_write_datagram(Operation& operation, Record& record) noexcept {
  record.out.mutex.assume_held();
  if (BATON_UNLIKELY(!may_send_fast(record))) return submit_generally(operation, true);
  const Outcome outcome = performer_.write_datagram(operation);
  if (BATON_UNLIKELY(outcome != Outcome::done)) {
    return submit_generally(operation, outcome != Outcome::again);
  }
  record.out.failures = 0;
  return Submission::completed;
}

Submission EmulatedEngine::write_otherwise(Operation& operation, Record& record,
                                           Sent sent) noexcept {
  if (sent == Sent::nothing) sent = send_list(operation, record);
  if (sent == Sent::done) return Submission::completed;
  if (sent == Sent::partly) return queue_rest(operation, record);
  return submit_generally(operation, sent != Sent::full);
}

// A part is sent: the rest must be in the queue before another thread may write.
Submission EmulatedEngine::queue_rest(Operation& operation, Record& record) noexcept {
  OperationQueue completed;
  progress(operation) = Progress{};
  progress(operation).owner = &record.out;
  progress(operation).attempt.begun = true;
  record.out.queue.push_back(operation);
  settle(record, record.out, Cause::start, true, completed);
  if (completed.empty()) return Submission::pending;
  completed.erase(operation);
  BATON_ASSERT(completed.empty());
  return Submission::completed;
}

inline EmulatedEngine::Sent EmulatedEngine::send_fast(Operation& operation,
                                                      Record& record) noexcept {
  if (BATON_UNLIKELY(!may_send_fast(record) || !fits_one_call(operation, Operation::vectored))) {
    return Sent::nothing;
  }
  const MutableBuffer buffer = operation.buffer();
  const ssize_t moved =
      system_.send(record.fd, buffer.data, buffer.size, MSG_DONTWAIT | MSG_NOSIGNAL);
  return sent(operation, record, operation.buffer().size, moved);
}

EmulatedEngine::Sent EmulatedEngine::send_list(Operation& operation, Record& record) noexcept {
  if (!operation.has(Operation::vectored) || !may_send_fast(record)) return Sent::nothing;
  const std::size_t size = remaining_bytes(operation);
  if (size - 1 >= limits::transfer_max) return Sent::nothing;
  return sent(operation, record, size, performer_.send_list(operation));
}

inline EmulatedEngine::Sent EmulatedEngine::sent(Operation& operation, Record& record,
                                                 std::size_t size, ssize_t moved) noexcept {
  if (BATON_UNLIKELY(moved < 0)) {
    if (errno == EAGAIN || errno == EWOULDBLOCK) return Sent::full;
    if (errno == EINTR) return Sent::nothing;
    fail(operation, errno);
    return Sent::done;
  }
  record.out.failures = 0;
  operation.set_bytes(static_cast<std::size_t>(moved));
  operation.finish(0);
  if (BATON_LIKELY(operation.bytes() == size)) return Sent::done;
  if (moved == 0) return Sent::nothing;  // the slow path interprets that
  return operation.has(Operation::exactly) ? Sent::partly : Sent::done;
}

inline void EmulatedEngine::handle(std::uint32_t index, Interest ready,
                                   OperationQueue& completed) noexcept {
  Record& record = records_[index];
  if (BATON_LIKELY(ready == Interest::in)) {
    if (BATON_UNLIKELY(concurrent_)) {
      if (BATON_LIKELY(receive_locked(record, completed))) return;
    } else {
      record.in.mutex.assume_held();
      if (BATON_LIKELY(receive_fast(record, completed))) return;
      if (receive_datagrams(record, completed)) return;
    }
  }
  handle_generally(index, ready, completed);
}

bool EmulatedEngine::receive_locked(Record& record, OperationQueue& completed) noexcept {
  record.in.mutex.lock(system_);
  const bool done = receive_fast(record, completed);
  record.in.mutex.unlock(system_);
  return done;
}

inline bool EmulatedEngine::receive_fast(Record& record, OperationQueue& completed) noexcept {
  constexpr unsigned special =
      Operation::vectored | Operation::pooled | Operation::until | Operation::exactly;
  Operation* const front = record.in.queue.front();
  // A report may have been taken before the handle was detached, so the record is valid only under
  // its mutex. A watched operation does not rest.
  if (BATON_UNLIKELY(!record.fast_in && (!record.fast || record.in.asleep))) return false;
  if (BATON_UNLIKELY(front == nullptr || record.in.queue.has_several() ||
                     front->kind() != OperationKind::read_stream)) {
    return false;
  }
  if (BATON_UNLIKELY(!fits_one_call(*front, special))) {
    return (front->flags() & special) == Operation::pooled
               ? receive_pooled(record, *front, completed)
               : receive_whole(record, *front, completed);
  }
  const MutableBuffer buffer = front->buffer();
  const ssize_t moved = system_.recv(record.fd, buffer.data, buffer.size, MSG_DONTWAIT);
  if (BATON_UNLIKELY(moved <= 0)) {
    if (moved == 0) {
      hear_writers(record);
      static_cast<void>(advance(*front, 0));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) {
      return false;  // the slow path tries these again and interprets the error
    } else {
      fail(*front, errno);  // reported only once
    }
  } else {
    front->set_bytes(static_cast<std::size_t>(moved));
    front->finish(0);
  }
  take_received(record, *front, completed);
  return true;
}

// A write may have taken the report of a loss (fail() in transfer.hpp) and not have recorded it.
void EmulatedEngine::hear_writers(Record& record) noexcept {
  const os::LockGuard out{record.out.mutex, system_, concurrent_};
}

// A read that may continue (exactly, until). It stays watched, and in the queue, until it is
// complete.
bool EmulatedEngine::receive_whole(Record& record, Operation& front,
                                   OperationQueue& completed) noexcept {
  if (!record.fast_in || !fits_one_call(front, Operation::vectored | Operation::pooled))
    return false;
  const MutableBuffer buffer = front.buffer();
  const std::size_t had = front.bytes();
  const ssize_t moved = system_.recv(record.fd, static_cast<std::byte*>(buffer.data) + had,
                                     buffer.size - had, MSG_DONTWAIT);
  if (moved == 0) hear_writers(record);
  if (moved < 0) {
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) return false;
    fail(front, errno);
  } else if (!advance(front, static_cast<std::size_t>(moved))) {
    record.in.failures = 0;
    return true;
  }
  take_received(record, front, completed);
  return true;
}

// One that the slow path has tried names its pool no longer.
bool EmulatedEngine::receive_pooled(Record& record, Operation& front,
                                    OperationQueue& completed) noexcept {
  if (progress(front).attempt.pool != nullptr || !receive_into_block(system_, front)) return false;
  take_received(record, front, completed);
  return true;
}

inline void EmulatedEngine::take_received(Record& record, Operation& front,
                                          OperationQueue& completed) noexcept {
  record.in.failures = 0;
  progress(front).owner = nullptr;
  record.in.queue.pop_last();
  completed.push_back(front);
  // A wait_ready for both directions may have had output watched.
  if (BATON_UNLIKELY(!record.owned) && demux_->is_watched(record.index)) let_go(record, record.in);
}

// Completes queued reads while datagrams arrive, but only a few of them, for the sake of other
// sockets. False: the slow path has to continue. A watched socket is reported again, so the rest
// needs no action.
bool EmulatedEngine::receive_datagrams(Record& record, OperationQueue& completed) noexcept {
  BATON_DASSERT(!concurrent_);
  if (!record.fast_in) return false;
  for (int calls = 0; calls < calls_max; ++calls) {
    Operation* const front = record.in.queue.front();
    if (front == nullptr) return calls > 0;
    if (front->kind() != OperationKind::read_datagram || front->has(Operation::pooled))
      return false;
    if (performer_.read_datagram(*front) != Outcome::done) return calls > 0;
    record.in.failures = 0;
    progress(*front).owner = nullptr;
    completed.push_back(record.in.queue.pop_front());
  }
  return true;
}

// -- the leader -----------------------------------------------------------------------------------

void EmulatedEngine::wait(OperationQueue& completed, Deadline deadline) noexcept {
  take_what_is_due(completed);
  // Poll the descriptors even with results in hand, so that busy workers do not starve them.
  const Deadline until = completed.empty() ? earliest(deadline) : Deadline::immediately();
  const auto visit = [&](std::uint32_t index, Interest ready)
                         __attribute__((always_inline)) { handle(index, ready, completed); };
  demux_->wait_for_each(reports_, until, visit);
  // Also with results in hand: the workers' interrupt may be consumed, and then nothing makes the
  // descriptor readable.
  take_what_is_due(completed);
}

inline void EmulatedEngine::take_what_is_due(OperationQueue& completed) noexcept {
  if (BATON_UNLIKELY(workers_.has_finished())) take_from_workers(completed);
  if (BATON_UNLIKELY(back_offs_.any())) wake_due(completed);
}

Deadline EmulatedEngine::earliest(Deadline deadline) noexcept {
  return back_offs_.any() ? std::min(deadline, back_offs_.next()) : deadline;
}

}  // namespace baton::engines::emulated
