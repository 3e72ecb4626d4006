// The emulated engine: queues, readiness, cancellation. The header explains it. The system calls
// are in perform.cpp, work.cpp and common/file_calls.cpp, the path through the workers in
// by_workers.cpp.
#include "engines/emulated/emulated_engine.hpp"

#include <errno.h>
#include <sys/socket.h>

#include <algorithm>
#include <exception>
#include <string>
#include <utility>

#include "base/assert.hpp"
#include "baton/endpoint.hpp"
#include "baton/log.hpp"
#include "engines/common/pauses.hpp"
#include "engines/common/transfer.hpp"

namespace baton::engines::emulated {
namespace {

/// Calls for one descriptor in a row: a busy one must not keep the others waiting. It is reported
/// again.
constexpr unsigned calls_max = 32;
// How often a write is tried whose room may not be reported.
constexpr std::uint32_t look_ms = 500;
/// Retries of blocking connects that workers make at once.
constexpr std::uint32_t retries_max = 2;
constexpr std::int64_t log_every_ns = 10'000'000'000;

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

bool is_input(const Operation& operation) noexcept {
  switch (operation.kind()) {
    case OperationKind::read_stream:
    case OperationKind::read_file:
    case OperationKind::read_datagram:
    case OperationKind::accept:
      return true;
    case OperationKind::wait_ready:
      return operation.has(Operation::readable);
    default:
      return false;
  }
}

// Writes usually succeed at once and reads usually have to wait, so writes are tried first. A
// handle that cannot be read, or does not listen, fails at once.
bool tries_first(const Operation& operation) noexcept {
  return !is_input(operation) || waits_for_both(operation) || !operation.handle()->readable();
}

// A stream that gave less than there was room for has no more data for now.
bool was_short(const Operation& operation) noexcept {
  return operation.kind() == OperationKind::read_stream && remaining_bytes(operation) > 0;
}

// A connect of a borrowed socket in blocking mode: there is no MSG_DONTWAIT for it.
bool may_block(const Operation& operation) noexcept {
  return operation.kind() == OperationKind::connect && !operation.handle()->nonblocking();
}

bool is_socket(const Handle& handle) noexcept {
  return handle.kind() != HandleKind::pipe && handle.kind() != HandleKind::file;
}

void finish(Operation& operation, std::error_code error) noexcept {
  if (error.category() == error_category()) {
    operation.finish(static_cast<errc>(error.value()));
  } else {
    operation.finish(error.value());
  }
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

inline Record& EmulatedEngine::record_of(const Operation& operation) const noexcept {
  BATON_DASSERT(operation.handle() != nullptr);
  return records_[operation.handle()->index()];
}

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
  constexpr unsigned special = Operation::vectored | Operation::pooled;
  if (BATON_UNLIKELY(!fits_one_call(operation, special | Operation::until)) &&
      (!fits_one_call(operation, special) ||
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
    operation.finish(errno);
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
  if (BATON_UNLIKELY(!fits_one_call(*front, special)))
    return receive_whole(record, *front, completed);
  const MutableBuffer buffer = front->buffer();
  const ssize_t moved = system_.recv(record.fd, buffer.data, buffer.size, MSG_DONTWAIT);
  if (BATON_UNLIKELY(moved < 0)) {
    // The slow path tries these again and interprets the error. Other errors are reported only
    // once.
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) return false;
    front->finish(errno);
  } else {
    front->set_bytes(static_cast<std::size_t>(moved));
    front->finish(0);
  }
  take_received(record, *front, completed);
  return true;
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
  if (moved < 0) {
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) return false;
    front.finish(errno);
  } else if (!advance(front, static_cast<std::size_t>(moved))) {
    record.in.failures = 0;
    return true;
  }
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
  for (unsigned calls = 0; calls < calls_max; ++calls) {
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

// -- starting -------------------------------------------------------------------------------------

Submission EmulatedEngine::submit_generally(Operation& operation, bool try_first) noexcept {
  if (operation.kind() == OperationKind::close) return submit_close(operation);
  Record& record = record_of(operation);
  Direction& direction = direction_of(record, operation);
  // relaxed: set before the first operation, or by a failed watch, whose effect on the queue is
  // guarded by the mutex.
  const bool by_workers = record.by_workers.load(std::memory_order_relaxed);
  switch (operation.kind()) {
    case OperationKind::read_file:
    case OperationKind::write_file:
    case OperationKind::sync_file:
      if (by_workers) return submit_to_workers(operation, record, direction);
      // The kernel answers the same for sockets and pipes.
      operation.finish(operation.kind() == OperationKind::sync_file ? EINVAL : ESPIPE);
      return Submission::completed;
    case OperationKind::read_stream:
    case OperationKind::write_stream:
      if (by_workers) return submit_to_workers(operation, record, direction);
      return submit_watched(operation, record, direction, try_first);
    case OperationKind::connect:
      if (!by_workers && may_block(operation)) return submit_connect(operation, direction);
      break;
    case OperationKind::accept:
      performer_.prepare_spare();
      break;
    default:
      break;
  }
  if (by_workers) return submit_unwatchable(operation, direction);
  return submit_watched(operation, record, direction, true);
}

// The operation was cancelled before it became visible. REQUIRES: the mutex of its direction, so
// that either this sees the mark or the cancel sees the operation.
bool EmulatedEngine::refused(Operation& operation) noexcept {
  if (!operation.cancel_asked()) return false;
  operation.finish(ECANCELED);
  Performer::settle_pooled(operation);
  return true;
}

// -- datagrams to several peers -------------------------------------------------------------------
//
// A UNIX datagram waits in the queue of its peer, so a full queue of one peer says nothing about
// the others.

bool EmulatedEngine::waits_for_its_peer(const Operation& operation) noexcept {
  if (operation.kind() != OperationKind::write_datagram) return false;
  const Endpoint* const peer = operation.endpoint();  // null: the connected one
  return peer == nullptr || peer->family() == AddressFamily::unix_domain;
}

// REQUIRES: both wait for a peer.
bool EmulatedEngine::goes_to_the_same(const Operation& a, const Operation& b) noexcept {
  if (a.endpoint() == nullptr || b.endpoint() == nullptr) return a.endpoint() == b.endpoint();
  return *a.endpoint() == *b.endpoint();
}

// Moves the first operation of the queue, and all behind it that go to the same peer, to `refused`.
void EmulatedEngine::set_aside(OperationList& queue, OperationList& refused) noexcept {
  Operation& first = *queue.front();
  for (Operation* each = &first; each != nullptr;) {
    Operation& operation = *std::exchange(each, OperationList::next(*each));
    if (!waits_for_its_peer(operation) || !goes_to_the_same(operation, first)) continue;
    queue.erase(operation);
    refused.push_back(operation);
  }
}

// Datagrams to one peer keep their order. A wait for room delays nothing: there is room for a few
// bytes long before the system reports it.
bool EmulatedEngine::passes(const Operation& operation, const OperationList& queue) noexcept {
  if (is_input(operation) || operation.kind() == OperationKind::connect) return false;
  const bool to_a_peer = waits_for_its_peer(operation);
  for (const Operation* each = queue.front(); each != nullptr; each = OperationList::next(*each)) {
    if (each->kind() == OperationKind::wait_ready) continue;
    if (!to_a_peer || !waits_for_its_peer(*each) || goes_to_the_same(*each, operation)) {
      return false;
    }
  }
  return true;
}

// The first operation that is not a wait for readiness, or null.
const Operation* EmulatedEngine::behind_waits(const OperationList& queue) noexcept {
  const Operation* each = queue.front();
  while (each != nullptr && each->kind() == OperationKind::wait_ready) {
    each = OperationList::next(*each);
  }
  return each;
}

// Transfers until a call finds no room. After such a call every strategy reports the next room.
Outcome EmulatedEngine::perform_ahead(Operation& operation) noexcept {
  Outcome outcome = Outcome::partial;
  while (outcome == Outcome::partial) outcome = performer_.perform(operation);
  return outcome;
}

Submission EmulatedEngine::submit_watched(Operation& operation, Record& record,
                                          Direction& direction, bool try_first) noexcept {
  OperationQueue completed;
  {
    os::LockGuard guard{direction.mutex, system_, concurrent_};
    progress(operation) = Progress{};
    if (refused(operation)) return Submission::completed;
    const bool first = direction.queue.empty();
    if (operation.kind() == OperationKind::read_stream &&
        behind_waits(direction.queue) == nullptr && Performer::needs_no_transfer(operation)) {
      return Submission::completed;
    }
    const bool ahead = !first && direction.order.idle() && passes(operation, direction.queue);
    if (ahead && perform_ahead(operation) == Outcome::done) return Submission::completed;
    progress(operation).owner = &direction;
    direction.queue.push_back(operation);
    if (ahead && !direction.asleep) look_later(record, direction, false, look_ms);
    if (waits_for_both(operation)) record.both_waiting.fetch_add(1, std::memory_order_relaxed);
    if (first && !direction.asleep) {
      settle(record, direction, Cause::start, try_first && tries_first(operation), completed);
    }
    if (waits_for_both(operation) && completed.empty()) {
      settle_both(record, direction, &operation, completed);
    }
  }
  if (completed.empty()) return Submission::pending;
  completed.erase(operation);
  BATON_ASSERT(completed.empty());  // it was the only one
  return Submission::completed;
}

// A file without readiness is answered at once.
Submission EmulatedEngine::submit_unwatchable(Operation& operation, Direction& direction) noexcept {
  os::LockGuard guard{direction.mutex, system_, concurrent_};
  progress(operation) = Progress{};
  if (refused(operation)) return Submission::completed;
  if (performer_.perform(operation) != Outcome::done) operation.finish(EPERM);
  Performer::settle_pooled(operation);
  return Submission::completed;
}

// The operation is out of the engine. REQUIRES: the mutex of its direction.
void EmulatedEngine::leave(Operation& operation, Record* record) noexcept {
  if (record != nullptr && waits_for_both(operation)) {
    BATON_ASSERT(record->both_waiting.load(std::memory_order_relaxed) > 0);
    record->both_waiting.fetch_sub(1, std::memory_order_relaxed);
  }
  Performer::settle_pooled(operation);
  progress(operation).owner = nullptr;
}

// -- by readiness ---------------------------------------------------------------------------------

void EmulatedEngine::handle_generally(std::uint32_t index, Interest ready,
                                      OperationQueue& completed) noexcept {
  Record* const record = records_.find(index);
  BATON_ASSERT(record != nullptr);
  if (any(ready & Interest::in)) handle(*record, record->in, false, completed);
  if (!any(ready & Interest::out)) return;
  handle(*record, record->out, false, completed);
  if (record->both_waiting.load(std::memory_order_relaxed) == 0) return;
  os::LockGuard guard{record->in.mutex, system_, concurrent_};
  settle_both(*record, record->in, nullptr, completed);
}

void EmulatedEngine::handle(Record& record, Direction& direction, bool woken,
                            OperationQueue& completed) noexcept {
  os::LockGuard guard{direction.mutex, system_, concurrent_};
  // The report was taken before the handle was detached. For a new handle with this index it is a
  // spurious hint.
  if (!record.watchable || record.by_workers.load(std::memory_order_relaxed)) return;
  if (direction.asleep && (!woken || !direction.order.idle())) return;
  const Cause cause = woken && !direction.asleep ? Cause::look : Cause::report;
  direction.asleep = false;
  if (direction.queue.empty()) {
    if (cause == Cause::report) drop(record, direction);
    return;
  }
  settle(record, direction, cause, true, completed);
}

// Tries as long as it makes sense, and leaves the direction in one of the states of the invariant.
void EmulatedEngine::settle(Record& record, Direction& direction, Cause cause, bool try_first,
                            OperationQueue& completed) noexcept {
  const bool by_leader = cause != Cause::start;
  bool said_to_be_ready = cause == Cause::report;
  // One turn with a level-triggered strategy. With an edge-triggered one, as many turns as the
  // descriptor is found ready again: the queue bounds them, and the back-off if they are fruitless.
  for (;;) {
    Ran ran = Ran::blocked;
    if (try_first) {
      ran = run(record, direction, completed);
      if (ran == Ran::blocked && said_to_be_ready) end_hopeless(record, direction, completed);
      if (direction.queue.empty()) ran = Ran::empty;
      if (settled(record, direction, ran, said_to_be_ready, by_leader)) return;
    }
    std::error_code error;
    switch (demux_->watch(record.index, interest_of(record, direction), error)) {
      case demux::Watch::armed:
        if (&direction == &record.in && demux_->keeps_watching()) {
          record.fast_in = record.fast && record.owned;
        }
        if (&direction == &record.in) return;
        if (ran != Ran::more || !tells_room_after_try_) {
          // Some have found room, so that others behind them may: they are tried at once.
          const bool goes_on = ran == Ran::more && waits_for_its_peer(*direction.queue.front());
          look_later(record, direction, by_leader, goes_on ? 0 : look_ms);
          return;
        }
        // There was room for a part. The strategy reports more room only after a call that answered
        // EAGAIN.
        try_first = true;
        said_to_be_ready = false;
        break;
      case demux::Watch::try_now:
        try_first = said_to_be_ready = true;
        break;
      case demux::Watch::failed:
        fail_all(record, direction, error, completed);
        return;
    }
  }
}

// True: there is nothing to watch for.
bool EmulatedEngine::settled(Record& record, Direction& direction, Ran ran, bool said_to_be_ready,
                             bool by_leader) noexcept {
  const unsigned failures = direction.failures;
  switch (ran) {
    case Ran::empty:
      let_go(record, direction);
      return true;
    case Ran::more:
      return false;
    case Ran::by_worker:
      return true;
    case Ran::blocked: {
      if (!said_to_be_ready) return false;
      if (failures < failures_max) ++direction.failures;
      const std::uint32_t pause_ms = fruitless_pause_ms(failures);
      if (pause_ms == 0) return false;
      rest(record, direction, pause_ms, by_leader);
      return true;
    }
    case Ran::back_off: {
      if (direction.queue.front()->kind() == OperationKind::accept) {
        count_shortage(*direction.queue.front());
      }
      if (failures < failures_max) ++direction.failures;
      rest(record, direction, shortage_pause_ms(failures), by_leader);
      return true;
    }
  }
  BATON_UNREACHABLE("a result of run");
}

EmulatedEngine::Ran EmulatedEngine::run(Record& record, Direction& direction,
                                        OperationQueue& completed) noexcept {
  OperationList waits;
  OperationList refused;
  const Ran ran = run_queue(record, direction, waits, refused, completed);
  if (waits.empty() && refused.empty()) return ran;
  waits.splice_back(direction.queue);
  waits.splice_back(refused);
  direction.queue.splice_back(waits);
  return ran == Ran::empty ? Ran::blocked : ran;
}

// `waits` gets waits for room, which do not delay the operations behind them; `refused` gets
// datagrams whose peer has no room.
EmulatedEngine::Ran EmulatedEngine::run_queue(Record& record, Direction& direction,
                                              OperationList& waits, OperationList& refused,
                                              OperationQueue& completed) noexcept {
  Ran out_of_calls = Ran::blocked;
  for (unsigned calls = 0; !direction.queue.empty(); ++calls) {
    if (calls == calls_max) return out_of_calls;
    Operation& front = *direction.queue.front();
    if (may_block(front) && !progress(front).attempt.begun) {
      // Each retry keeps a worker for a moment, and the others are for files.
      if (progress(front).goes_on && retries_.load(std::memory_order_relaxed) >= retries_max) {
        rest(record, direction, shortage_pause_ms(direction.failures), true);
        return Ran::by_worker;
      }
      if (hand_over(direction, completed)) return Ran::by_worker;
      continue;
    }
    switch (run_front(record, direction, completed)) {
      case Outcome::done:
        direction.failures = 0;
        out_of_calls = Ran::more;
        if (was_short(front)) return direction.queue.empty() ? Ran::empty : Ran::more;
        break;
      case Outcome::partial:
        direction.failures = 0;
        // A part of merged writes may have been enough for all of them.
        return direction.queue.empty() ? Ran::empty : Ran::more;
      case Outcome::again:
        if (waits_for_its_peer(front)) {
          set_aside(direction.queue, refused);
        } else if (front.kind() == OperationKind::wait_ready && &direction == &record.out) {
          // The answer holds for all adjacent waits. The remaining calls are for the operations
          // behind them.
          do {
            waits.push_back(direction.queue.pop_front());
          } while (!direction.queue.empty() &&
                   direction.queue.front()->kind() == OperationKind::wait_ready);
        } else {
          return Ran::blocked;
        }
        break;
      case Outcome::back_off:
        return Ran::back_off;
    }
  }
  return Ran::empty;
}

Outcome EmulatedEngine::run_front(Record& record, Direction& direction,
                                  OperationQueue& completed) noexcept {
  Operation& front = *direction.queue.front();
  OperationQueue finished;
  Outcome outcome;
  if (front.kind() == OperationKind::write_stream && direction.queue.has_several()) {
    outcome = performer_.perform_merged(direction.queue, finished);
  } else {
    outcome = performer_.perform(front);
    if (outcome == Outcome::done) finished.push_back(direction.queue.pop_front());
  }
  for (Operation* each = finished.front(); each != nullptr; each = OperationList::next(*each)) {
    leave(*each, &record);
  }
  completed.splice_back(finished);
  return outcome;
}

void EmulatedEngine::end_hopeless(Record& record, Direction& direction,
                                  OperationQueue& completed) noexcept {
  Operation& front = *direction.queue.front();
  const bool unheard = writes_to_closed_terminal(system_, front);
  if (!unheard && !reads_what_is_shut(system_, front)) return;
  front.finish(unheard ? EIO : 0);
  direction.queue.pop_front();
  leave(front, &record);
  completed.push_back(front);
}

void EmulatedEngine::rest(Record& record, Direction& direction, std::uint32_t span_ms,
                          bool by_leader) noexcept {
  drop(record, direction);
  direction.asleep = true;
  back_offs_.add(record, direction, span_ms);
  // A waiting leader does not know the time to wake up yet.
  if (!by_leader && concurrent_) demux_->interrupt();
}

// A full UNIX stream reports nothing when its peer shuts its reading side, or the program the
// writing side (shutdown(2)). From then on a write fails (EPIPE), and a blocking write would end.
// A UNIX datagram socket reports nothing while peers that do not read hold a quarter of its memory,
// although another peer has room. Such writes are therefore tried again now and then.
void EmulatedEngine::look_later(Record& record, Direction& direction, bool by_leader,
                                std::uint32_t span_ms) noexcept {
  if (!may_end_unheard(record, direction)) return;
  const bool is_new = back_offs_.add(record, direction, span_ms);
  if (!by_leader && is_new && concurrent_) demux_->interrupt();  // as in rest()
}

bool EmulatedEngine::may_end_unheard(const Record& record, Direction& direction) noexcept {
  const Operation* const first = behind_waits(direction.queue);
  if (first == nullptr) return false;
  const bool is_stream = first->kind() == OperationKind::write_stream &&
                         first->handle()->kind() == HandleKind::stream_socket;
  if (!is_stream && !waits_for_its_peer(*first)) return false;
  if (!direction.asked) {
    int domain = 0;
    socklen_t size = sizeof(domain);
    direction.asked = system_.getsockopt(record.fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0;
    direction.is_unix = domain == AF_UNIX;
  }
  return direction.is_unix;
}

// EPERM: files without readiness (devices such as /dev/null, other files that epoll refuses).
// Workers do their streams, and they are always "ready". Every other error - ENOMEM, ENOSPC
// (fs.epoll.max_user_watches), EBADF, errc::descriptor_out_of_range - is the operations' outcome.
void EmulatedEngine::fail_all(Record& record, Direction& direction, std::error_code error,
                              OperationQueue& completed) noexcept {
  // For a socket EPERM comes from a filter.
  const bool no_readiness =
      error == std::errc::operation_not_permitted && !is_socket(*direction.queue.front()->handle());
  if (no_readiness) record.by_workers.store(true, std::memory_order_relaxed);
  OperationList all;
  all.splice_back(direction.queue);
  while (!all.empty()) {
    Operation& operation = all.pop_front();
    const OperationKind kind = operation.kind();
    if (no_readiness &&
        (kind == OperationKind::read_stream || kind == OperationKind::write_stream)) {
      direction.queue.push_back(operation);
      continue;
    }
    finish(operation,
           no_readiness && kind == OperationKind::wait_ready ? std::error_code{} : error);
    leave(operation, &record);
    completed.push_back(operation);
  }
  dispatch(direction, completed);
}

// No operation of either direction waits for this direction's readiness.
bool EmulatedEngine::droppable(const Record& record, const Direction& direction) noexcept {
  const bool for_both =
      &direction == &record.out && record.both_waiting.load(std::memory_order_relaxed) > 0;
  return record.watchable && !for_both;
}

void EmulatedEngine::drop(Record& record, const Direction& direction) noexcept {
  if (&direction == &record.in) record.fast_in = false;
  if (droppable(record, direction)) demux_->drop(record.index, interest_of(record, direction));
}

// The queue is empty. An owned descriptor stays watched for the next operation. The owner of a
// borrowed one may close it from now on.
void EmulatedEngine::let_go(Record& record, Direction& direction) noexcept {
  if (record.owned) return;
  if (droppable(record, direction)) demux_->let_go(record.index, interest_of(record, direction));
  if (&direction == &record.out) return;
  // A wait_ready for both directions may have had output watched.
  os::LockGuard guard{record.out.mutex, system_, concurrent_};
  if (!record.out.queue.empty() || !droppable(record, record.out)) return;
  demux_->let_go(record.index, Interest::out);
}

// -- waiting for both -----------------------------------------------------------------------------

// Completes the wait_ready operations for both directions, wherever they are in the queue, and has
// output watched for the others. A start passes `only` its own operation, since it cannot deliver
// others; the leader completes those by the next report.
void EmulatedEngine::settle_both(Record& record, Direction& in, Operation* only,
                                 OperationQueue& completed) noexcept {
  if (!record.watchable) return;
  for (;;) {
    answer_both(record, in, only, {}, completed);
    const bool all_answered = only != nullptr
                                  ? !completed.empty()
                                  : record.both_waiting.load(std::memory_order_relaxed) == 0;
    if (all_answered) break;
    std::error_code error;
    {
      os::LockGuard guard{record.out.mutex, system_, concurrent_};
      if (demux_->watch(record.index, Interest::out, error) == demux::Watch::armed) return;
    }
    if (error) answer_both(record, in, only, error, completed);
  }
  if (in.queue.empty()) let_go(record, in);
}

// With an error: ends `only`, or all that wait for both. Without: ends those that are ready.
void EmulatedEngine::answer_both(Record& record, Direction& in, Operation* only,
                                 std::error_code error, OperationQueue& completed) noexcept {
  Operation* next = nullptr;
  for (Operation* each = only != nullptr ? only : in.queue.front(); each != nullptr; each = next) {
    next = only != nullptr ? nullptr : OperationList::next(*each);
    if (!waits_for_both(*each)) continue;
    if (error) {
      finish(*each, error);
    } else if (performer_.perform(*each) != Outcome::done) {
      continue;
    }
    in.queue.erase(*each);
    leave(*each, &record);
    completed.push_back(*each);
  }
}

// -- cancel ---------------------------------------------------------------------------------------

CancelAnswer EmulatedEngine::cancel(Operation& operation) noexcept {
  if (operation.kind() == OperationKind::close) return cancel_at(operation, nullptr, closing_);
  Record* const record = records_.find(operation.handle()->index());
  if (record == nullptr) return CancelAnswer::too_late;
  return cancel_at(operation, record, direction_of(*record, operation));
}

CancelAnswer EmulatedEngine::cancel_at(Operation& operation, Record* record,
                                       Direction& direction) noexcept {
  os::LockGuard guard{direction.mutex, system_, concurrent_};
  if (progress(operation).owner != &direction) return CancelAnswer::too_late;
  if (progress(operation).place == Place::worker) {
    // A close runs to its end in any case.
    if (record == nullptr || !workers_.cancel(operation)) return CancelAnswer::requested;
    came_back(operation, direction);
  } else {
    direction.queue.erase(operation);
  }
  operation.finish(ECANCELED);
  leave(operation, record);
  if (record->by_workers.load(std::memory_order_relaxed)) {
    OperationQueue failed;
    dispatch(direction, failed);
    BATON_ASSERT(failed.empty());  // only a first job can be refused, and there was one
  } else if (!direction.queue.empty()) {
    // What waited for a connect goes on, by the leader.
    if (operation.kind() == OperationKind::connect && direction.order.idle()) {
      rest(*record, direction, 0, false);
    }
  } else if (direction.order.idle()) {
    // The next operation need not wait for the end of another one's back-off.
    back_offs_.remove(direction);
    direction.asleep = false;
    let_go(*record, direction);
  }
  return CancelAnswer::completed;
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

void EmulatedEngine::wake_due(OperationQueue& completed) noexcept {
  Record* record = nullptr;
  Direction* direction = nullptr;
  // Thousands of connects to one full backlog are due together, and again before all were tried.
  for (std::size_t i = 0; i < limits::reports_max && back_offs_.take_due(record, direction); ++i) {
    handle(*record, *direction, true, completed);
  }
}

void EmulatedEngine::count_shortage(const Operation& accept) noexcept {
  accept_backoffs_.fetch_add(1, std::memory_order_relaxed);
  if (log_ == nullptr) return;
  const std::int64_t now = system_.monotonic_ns();
  std::int64_t again = log_again_ns_.load(std::memory_order_relaxed);
  if (now < again) return;
  // One of several threads writes the line. relaxed: only the number matters.
  if (!log_again_ns_.compare_exchange_strong(again, now + log_every_ns,
                                             std::memory_order_relaxed)) {
    return;
  }
  try {
    log_->write(LogLevel::warning, iso_8601(system_.realtime_us()),
                "accept on descriptor " + std::to_string(accept.handle()->native()) +
                    " rests: " + accept.error().message());
  } catch (const std::exception&) {
    // No memory for a line of the log: drop it.
  }
}

}  // namespace baton::engines::emulated
