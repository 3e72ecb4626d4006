// The io_uring engine. The path of an operation:
//
//   submit -> begin -> [its lane, behind others] -> issue -> the ring -> reap -> settle -> judge
//                                                     ^                                     |
//                                                     +---- go_on: the rest, or a retry ----+
//                                                                                           |
//                                                           completed <- retire <- finished +
//
// Either an operation has a slot in requests_ and will come out of wait, or it has none and the
// engine does not have it. cancel checks the slot, because the engine state of an operation that
// was never submitted is undefined.
#include "engines/io_uring/io_uring_engine.hpp"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <limits>
#include <new>
#include <optional>
#include <utility>

#include "base/assert.hpp"
#include "base/tsan.hpp"
#include "baton/limits.hpp"
#include "baton/log.hpp"
#include "engines/common/epoll_takes.hpp"
#include "engines/common/file_calls.hpp"
#include "engines/common/look.hpp"
#include "engines/common/pauses.hpp"
#include "engines/common/records.hpp"
#include "engines/common/transfer.hpp"

namespace baton::engines::uring {
namespace {

constexpr std::int64_t ns_per_ms = 1'000'000;
constexpr Duration congestion_pause{10 * ns_per_ms};
// Transfers of files in one entry. A disk starts on the requests of one entry one by one if there
// are at most two; of more it sees none before all are prepared (the kernel plugs its queue). A
// large lot completes as one and returns as one, and the disk is idle while the next lot is
// prepared: with 64 random reads in flight, lots of 2 are some 10 % faster than lots of 16. Reads
// from the page cache wait for no disk. Sockets gain nothing from smaller lots.
constexpr std::uint32_t disk_lot = 2;
constexpr std::uint32_t cache_lot = 16;
constexpr std::int64_t log_every_ns = 10'000 * ns_per_ms;

// All reads of interrupt descriptors write their counts here; nothing uses the counts. A closed
// ring releases a read in flight only later, so this memory must never be freed.
std::uint64_t wake_counts;

bool moves_file(OperationKind kind) noexcept {
  return kind == OperationKind::read_file || kind == OperationKind::write_file;
}

// With or without an offset.
bool writes_to_file(const Operation& operation) noexcept {
  return (operation.kind() == OperationKind::write_file ||
          operation.kind() == OperationKind::write_stream) &&
         operation.handle()->is_file();
}

bool is_blocking_terminal(const Operation& operation) noexcept {
  return operation.handle()->is_terminal() && !operation.handle()->nonblocking();
}

// A terminal that a plain call opens anew in non-blocking mode.
bool goes_by_pipe_calls(Operation& operation) noexcept {
  return is_blocking_terminal(operation) && !progress(operation).by_worker;
}

EngineInfo make_info(bool pinned, bool concurrent, const KernelFacts& facts) noexcept {
  EngineInfo info;
  info.name = "io_uring";
  std::fill(std::begin(info.support), std::end(info.support), Support::native);
  const auto set = [&](OperationKind kind, Support support) {
    info.support[static_cast<std::size_t>(kind)] = support;
  };
  if (!facts.shutdown) set(OperationKind::shutdown, Support::assisted);
  set(OperationKind::timer, Support::unsupported);
  set(OperationKind::user, Support::unsupported);
  info.leader_rule = pinned ? LeaderRule::pinned : LeaderRule::any;
  info.start_from_any_thread = concurrent && !pinned;
  info.interrupt_name = facts.message ? "ring" : "eventfd";
  return info;
}

// A retry would fail in the same way.
bool is_forbidden(int error) noexcept {
  return error == EPERM || error == EACCES || error == ENOSYS;
}

// Only one thread at a time raises a counter, so no locked instruction is needed.
void count(std::atomic<std::uint64_t>& counter) noexcept {
  counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

// A direct transfer at the position of the file may leave that where it is (seen on Linux 6.18),
// and the next one would move the same bytes. An append needs no position.
bool needs_position(Operation& operation) noexcept {
  const Handle& handle = *operation.handle();
  if (!handle.direct() || !handle.is_file()) return false;
  const bool reads = operation.kind() == OperationKind::read_stream;
  const bool writes = operation.kind() == OperationKind::write_stream && !handle.appends();
  return (reads || writes) && progress(operation).step == Step::perform;
}

bool is_transient(int error) noexcept {
  return error == EAGAIN || error == EINTR || error == ECANCELED;
}

}  // namespace

IoUringEngine::IoUringEngine(const EngineOptions& options, Parts parts)
    : system_(os::or_real(options.system)),
      log_(options.log),
      locked_(options.concurrent && !parts.options.pinned),
      facts_(parts.facts),
      ring_options_(parts.options),
      may_unpin_(options.config == nullptr || options.config->profile != "pinned"),
      info_(make_info(parts.options.pinned, options.concurrent, parts.facts)),
      ring_(std::move(parts.ring)),
      event_(parts.event),
      message_target_(facts_.message ? ring_->descriptor() : -1),
      requests_(limits::operations_max),
      messages_(limits::operations_max),
      files_(options.handles_max),
      handles_(options.handles_max),
      room_(options),
      spare_(system_, locked_),
      pipes_(system_) {
  // So that one is free whenever none is in use, also where nothing may be allocated.
  if (const std::uint32_t first = messages_.take(); first != no_index) messages_.give(first);
}

IoUringEngine::~IoUringEngine() {
  BATON_ASSERT(in_flight_ == 0);
  ring_.reset();
  if (event_ >= 0) system_.close(event_);
}

void IoUringEngine::after_fork_in_child() noexcept {
  // The child has not inherited the ring's pages (MADV_DONTFORK), and closing its copies of the
  // descriptors leaves the parent's requests alone. The mutex may be locked by a thread that does
  // not exist here.
  mutex_.assume_held();
  ring_->abandon_in_child();
  if (retired_ != nullptr) retired_->abandon_in_child();
  message_target_.store(-1, std::memory_order_relaxed);
  system_.close(event_);
  event_ = -1;
  spare_.abandon();
  in_flight_ = 0;
}

EngineCounters IoUringEngine::counters() const noexcept {
  EngineCounters counters;
  counters.stale_events = stale_events_.load(std::memory_order_relaxed);
  counters.accept_backoffs = accept_backoffs_.load(std::memory_order_relaxed);
  return counters;
}

// The kernel tries a file that can be polled in the thread that enters the ring: it polls the file,
// which is nearly always ready, and transfers there for as long as that takes, because the file
// system does not know the flag for not waiting. With FUSE both wait for the server.
std::error_code IoUringEngine::attach(Handle& handle) noexcept {
  const bool for_worker = handle.is_file() && epoll_takes(system_, handle.native());
  os::LockGuard guard{mutex_, system_, locked_};
  if (!handles_.ensure(handle.index())) return std::make_error_code(std::errc::not_enough_memory);
  HandleRecord& record = handles_[handle.index()];
  BATON_ASSERT(record.reads.queue.empty());
  BATON_ASSERT(record.writes.queue.empty());
  if (handle.is_file()) record.writes.file = files_.take();
  if (handle.is_file() && record.writes.file == no_index) {
    return std::make_error_code(std::errc::not_enough_memory);
  }
  record.reads.for_worker = for_worker;
  return {};
}

void IoUringEngine::detach(Handle& handle) noexcept {
  // No registration outlives its request.
  os::LockGuard guard{mutex_, system_, locked_};
  HandleRecord& record = handles_[handle.index()];
  BATON_ASSERT(record.reads.queue.empty());
  BATON_ASSERT(record.writes.queue.empty());
  std::uint32_t& file = record.writes.file;
  if (file == no_index) return;
  BATON_ASSERT(files_[file].held_syncs.empty() && files_[file].open_writes == 0);
  files_.give(file);
  file = no_index;
}

// -- from submit to the ring ----------------------------------------------------------------------

inline bool IoUringEngine::submit_fast(Operation& operation, Lane& lane,
                                       abi::Opcode what) noexcept {
  constexpr unsigned special = Operation::vectored | Operation::pooled | Operation::until;
  const unsigned found = operation.flags() & special;
  // The bytes already read may contain the delimiter.
  if (BATON_UNLIKELY(found != 0) && (found != Operation::until || operation.bytes() > 0)) {
    return submit_fast_list(operation, lane);
  }
  if (BATON_UNLIKELY(operation.buffer().size - 1 >= limits::transfer_max || !lane.queue.empty())) {
    return false;
  }
  abi::Sqe* const request = ring_->claim();
  if (BATON_UNLIKELY(request == nullptr)) return false;
  std::uint32_t slot = no_index;
  Request* const free = requests_.take_given(slot);
  if (BATON_UNLIKELY(free == nullptr)) return false;  // the slab must grow first
  Request& named = *free;
  named.operation = &operation;
  Progress& state = progress(operation) = Progress{};
  state.slot = slot;
  state.place = Place::kernel;
  state.fast = true;
  state.fast_lane = &lane;
  lane.queue.push_only(operation);
  lane.covered = 1;
  ++in_flight_;
  ++in_kernel_;
  request->opcode = what;
  request->fd = operation.handle()->native();
  request->address = reinterpret_cast<std::uintptr_t>(operation.buffer().data);
  request->length = static_cast<std::uint32_t>(operation.buffer().size);
  request->operation_flags = what == abi::op_send ? MSG_NOSIGNAL : 0;
  request->user_data = tag_of(slot, named.generation);
  BATON_TSAN_RELEASE(&operation);
  ring_->publish();
  return true;
}

// If one call can move all the bytes, the kernel gets the user's own list.
bool IoUringEngine::submit_fast_list(Operation& operation, Lane& lane) noexcept {
  return operation.has(Operation::vectored) && !operation.has(Operation::pooled) &&
         lane.queue.empty() && remaining_bytes(operation) - 1 < limits::transfer_max &&
         submit_fast_message(operation, &lane);
}

bool IoUringEngine::submit_fast_datagram(Operation& operation) noexcept {
  constexpr unsigned special = Operation::vectored | Operation::pooled;
  return (operation.flags() & special) == 0 && submit_fast_message(operation, nullptr);
}

// A datagram (no lane) or a list (`lane`).
bool IoUringEngine::submit_fast_message(Operation& operation, Lane* lane) noexcept {
  abi::Sqe* const request = ring_->claim();
  if (BATON_UNLIKELY(request == nullptr)) return false;
  std::uint32_t slot = no_index;
  Request* const named = requests_.take_given(slot);
  if (BATON_UNLIKELY(named == nullptr)) return false;
  Message* message = nullptr;
  if (lane != nullptr || operation.endpoint() != nullptr) {
    named->message = messages_.take();
    if (BATON_UNLIKELY(named->message == no_index)) {
      requests_.give(slot, *named);
      return false;
    }
    message = &messages_[named->message];
  }
  named->operation = &operation;
  Progress& state = progress(operation) = Progress{};
  state.slot = slot;
  state.place = Place::kernel;
  state.fast = true;
  state.fast_lane = lane;
  ++in_flight_;
  ++in_kernel_;
  request->user_data = tag_of(slot, named->generation);
  if (lane != nullptr) {
    lane->queue.push_only(operation);
    lane->covered = 1;
    prepare_list(*request, operation, *message);
  } else {
    prepare_datagram(*request, operation, message);
  }
  BATON_TSAN_RELEASE(&operation);
  ring_->publish();
  return true;
}

inline bool IoUringEngine::submit_simple(Operation& operation, HandleRecord& record) noexcept {
  switch (operation.kind()) {
    case OperationKind::read_stream:
      return submit_fast(operation, record.reads, abi::op_recv);
    case OperationKind::write_stream:
      return submit_fast(operation, record.writes, abi::op_send);
    case OperationKind::read_datagram:
    case OperationKind::write_datagram:
      return submit_fast_datagram(operation);
    default:
      return false;
  }
}

Submission IoUringEngine::submit(Operation& operation, void* known) noexcept {
  if (BATON_UNLIKELY(known == nullptr)) return submit_generally(operation);
  HandleRecord& record = *static_cast<HandleRecord*>(known);
  if (locked_) return submit_locked(operation, record);
  mutex_.assume_held();
  return BATON_LIKELY(submit_simple(operation, record)) ? Submission::pending
                                                        : submit_generally(operation);
}

Submission IoUringEngine::submit_locked(Operation& operation, HandleRecord& record) noexcept {
  bool done = false;
  {
    const os::LockGuard guard{mutex_, system_};
    done = BATON_LIKELY(!operation.cancel_asked()) && submit_simple(operation, record);
  }
  return BATON_LIKELY(done) ? Submission::pending : submit_generally(operation);
}

Submission IoUringEngine::submit_generally(Operation& operation) noexcept {
  OperationQueue done;
  bool call_leader = false;
  {
    os::LockGuard guard{mutex_, system_, locked_};
    // A canceller sets the mark first and then takes the lock: either this thread sees the mark, or
    // the canceller finds the operation.
    if (operation.cancel_asked()) {
      if (operation.has(Operation::pooled)) operation.set_taken_buffer(nullptr, 0);
      operation.finish(ECANCELED);
      return Submission::completed;
    }
    if (BATON_UNLIKELY(is_lost())) return refuse(operation);
    const std::uint32_t slot = requests_.take();
    if (slot == no_index) return no_memory(operation);
    if (!ensure_message(operation, requests_[slot])) {
      requests_.give(slot);
      return no_memory(operation);
    }
    requests_[slot].operation = &operation;
    Progress& state = progress(operation) = Progress{};
    state.slot = slot;
    ++in_flight_;
    const std::uint32_t resting = resting_;
    begin(operation, done);
    call_leader = locked_ && (postponed_ > 0 || resting_ != resting);
  }
  if (call_leader) interrupt();
  if (done.empty()) return Submission::pending;
  done.pop_front();
  BATON_ASSERT(done.empty());
  return Submission::completed;
}

// Requests in flight make room when they complete, and the leader then offers this one again. With
// none in flight it would never be offered. The caller does a close that finds no room.
Submission IoUringEngine::no_memory(Operation& operation) const noexcept {
  if (in_flight_ > 0 || operation.kind() == OperationKind::close) return Submission::busy;
  if (operation.has(Operation::pooled)) operation.set_taken_buffer(nullptr, 0);
  operation.finish(ENOMEM);
  return Submission::completed;
}

// True if a kernel worker transfers from the start: the entering thread would block (a
// pseudo-terminal's master), be busy for long or get SIGXFSZ, or the file is in non-blocking mode.
// The kernel tries such a file, and after a short try it reads the rest from the old offset and
// reports all of it as read (FUSE with FOPEN_DIRECT_IO, seen up to Linux 6.18).
bool IoUringEngine::is_for_worker(const Operation& operation) const noexcept {
  if (is_blocking_terminal(operation)) {
    return pipes_.is_master(*operation.handle()) &&
           (operation.kind() == OperationKind::write_stream ||
            operation.kind() == OperationKind::read_stream);
  }
  if (!operation.handle()->is_file()) return false;
  switch (operation.kind()) {
    case OperationKind::write_file:
    case OperationKind::write_stream:
      // Another thread may enter the ring as soon as the request is in it.
      if (locked_ && FileCalls::growth_is_limited(system_)) return true;
      break;
    case OperationKind::read_file:
    case OperationKind::read_stream:
      break;
    default:
      return false;
  }
  const HandleRecord& record = handles_[operation.handle()->index()];
  if (operation.handle()->nonblocking() || record.reads.for_worker) return true;
  // A direct transfer is asynchronous anyway, and a pooled one is short.
  const bool copied = !operation.handle()->direct() && !operation.has(Operation::pooled);
  return copied && FileCalls::lasts(operation);
}

void IoUringEngine::begin(Operation& operation, OperationQueue& done) noexcept {
  Progress& state = progress(operation);
  if (operation.has(Operation::pooled)) state.pool = operation.pool();
  if (writes_to_file(operation)) {
    FileRecord& record = file_of(operation);
    ++record.open_writes;
    state.holds_syncs = true;
    state.epoch = record.epoch;
  }
  const bool syncs = operation.kind() == OperationKind::sync_file && operation.handle()->is_file();
  if (syncs && hold_sync(operation)) return;
  state.by_worker = is_for_worker(operation);
  if (Lane* const lane = lane_of(operation); lane != nullptr) {
    lane->queue.push_back(operation);
    pump(*lane, done);
  } else if (done_without_kernel(operation)) {
    retire(operation, done);
  } else {
    issue(operation);
  }
}

Lane* IoUringEngine::lane_of(const Operation& operation) noexcept {
  // A close comes after detach, perhaps without an attach, so there may be no record.
  if (operation.kind() == OperationKind::close) return nullptr;
  HandleRecord& record = handles_[operation.handle()->index()];
  switch (operation.kind()) {
    case OperationKind::read_stream:
      return &record.reads;
    case OperationKind::write_stream:
    case OperationKind::shutdown:
    case OperationKind::connect:
      return &record.writes;
    case OperationKind::read_file:
      return operation.has(Operation::append) ? &record.reads : nullptr;
    case OperationKind::write_file:
      return operation.has(Operation::append) ? &record.writes : nullptr;
    default:
      return nullptr;
  }
}

FileRecord& IoUringEngine::file_of(const Operation& operation) noexcept {
  return files_[handles_[operation.handle()->index()].writes.file];
}

// A sync waits for the writes submitted before it, not for later ones. A write carries the number
// of the next sync; a held sync counts its writes.
bool IoUringEngine::hold_sync(Operation& operation) noexcept {
  FileRecord& record = file_of(operation);
  if (record.open_writes == 0 && record.held_syncs.empty()) return false;
  Progress& state = progress(operation);
  state.place = Place::held;
  state.epoch = record.epoch++;
  state.writes_before = record.open_writes;
  record.open_writes = 0;
  record.held_syncs.push_back(operation);
  return true;
}

void IoUringEngine::count_write_out(FileRecord& record, std::uint32_t epoch) noexcept {
  Operation* sync = record.held_syncs.front();
  // Compares by difference, because epochs wrap. A cancelled sync has left its writes to the next
  // one.
  while (sync != nullptr && static_cast<std::int32_t>(progress(*sync).epoch - epoch) < 0) {
    sync = OperationList::next(*sync);
  }
  std::uint32_t& count = sync != nullptr ? progress(*sync).writes_before : record.open_writes;
  BATON_ASSERT(count > 0);
  --count;
  while (!record.held_syncs.empty() && progress(*record.held_syncs.front()).writes_before == 0) {
    issue(record.held_syncs.pop_front());
  }
}

// Issues the front of a lane, and the next one if the front is complete without the kernel.
void IoUringEngine::pump(Lane& lane, OperationQueue& done) noexcept {
  while (lane.covered == 0 && !lane.queue.empty()) {
    Operation& front = *lane.queue.front();
    if (progress(front).step == Step::perform && done_without_kernel(front)) {
      lane.queue.erase(front);
      retire(front, done);
    } else {
      issue(front);
    }
  }
}

bool IoUringEngine::done_without_kernel(Operation& operation) noexcept {
  if (!is_valid(operation)) return true;
  if (progress(operation).pool != nullptr) return !start_pooled(operation);
  switch (operation.kind()) {
    case OperationKind::write_stream:
      return complete_without_transfer(operation) ||
             (goes_by_call(operation) && move_by_call(operation) == Verdict::finished);
    case OperationKind::read_stream:
      return complete_without_transfer(operation) ||
             (goes_by_pipe_calls(operation) && move_by_call(operation) == Verdict::finished);
    case OperationKind::read_file:
    case OperationKind::write_file:
      return complete_without_transfer(operation);
    case OperationKind::accept:
      spare_.prepare();
      return false;
    case OperationKind::shutdown:
      if (facts_.shutdown) return false;
      operation.finish(system_.shutdown(operation.handle()->native(), SHUT_WR) < 0 ? errno : 0);
      return true;
    default:
      return false;
  }
}

// Before Linux 6.18 a write into a pipe without readers raises SIGPIPE, even in the waiting thread
// when the kernel retries a write for which the pipe was too full. A request also has no room for
// the rest of a long list that is one record. A blocking terminal blocks the entering thread: a
// write until all fits, and a read that waits for several characters (VMIN with VTIME) from the
// first one. A kernel worker has all signals blocked, so a process in the background would not be
// stopped there: its reads fail with EIO, and it writes in spite of TOSTOP. In all these cases the
// ring only polls, and a plain call moves the bytes. A pseudo-terminal's master cannot be opened
// anew and knows no background: a kernel worker moves its bytes.
bool IoUringEngine::goes_by_call(Operation& operation) const noexcept {
  const bool writes = operation.kind() == OperationKind::write_stream;
  if (!writes && operation.kind() != OperationKind::read_stream) return false;
  if (goes_by_pipe_calls(operation)) return true;
  if (writes && !facts_.no_signal && operation.handle()->kind() == HandleKind::pipe) return true;
  return operation.bytes() > 0 && goes_whole(system_, operation, request_pieces_max);
}

// Returns `finished`, or `poll` when it would block.
Verdict IoUringEngine::move_by_call(Operation& operation) noexcept {
  Verdict verdict = Verdict::again;
  while (verdict == Verdict::again) {
    const Progress& state = progress(operation);
    iovec block{state.block, state.pool != nullptr ? state.pool->block_size() : 0};
    const ssize_t moved = state.pool != nullptr ? pipes_.read(*operation.handle(), &block, 1)
                                                : move_whole_list(system_, pipes_, operation);
    verdict = judge(operation, nullptr, moved < 0 ? -errno : static_cast<int>(moved), system_);
  }
  return verdict;
}

// Null: it names no operation, or one that has left the engine. So may a request that looks
// unsubmitted: another thread is entering with it. The kernel tells that it has taken the requests
// of an entry only when it has begun all of them, and the first may be complete by then.
Request* IoUringEngine::request_of(std::uint64_t user_data) noexcept {
  Request* const named = requests_.find(static_cast<std::uint32_t>(user_data >> 32));
  const bool is_there = named != nullptr && named->operation != nullptr &&
                        named->generation == static_cast<std::uint32_t>(user_data);
  return is_there ? named : nullptr;
}

// A write beyond RLIMIT_FSIZE raises SIGXFSZ in the thread that enters the ring, but not in a
// worker of the kernel. The program may lower the limit after a write was prepared, so the limit is
// read before each entry.
void IoUringEngine::leave_limited_writes_to_workers() noexcept {
  if (!file_writes_.load(std::memory_order_relaxed)) return;
  std::optional<bool> limited;
  ring_->for_each_unsubmitted([&](abi::Sqe& request) {
    mutex_.assume_held();
    const Request* const named = request_of(request.user_data);
    if (named == nullptr || !writes_to_file(*named->operation)) return;
    if (!limited) limited = FileCalls::growth_is_limited(system_);
    if (*limited) request.flags |= abi::sqe_async;
  });
  file_writes_.store(limited.has_value(), std::memory_order_relaxed);
}

// A cancel by another thread waits for a wait, not for a start or a cancel of the only thread
// (LaneLoop::InEngines). So these must not enter with the number of a borrowed descriptor, which
// may name another file by now.
bool IoUringEngine::may_enter() noexcept {
  if (locked_ || waits_) return true;
  bool borrowed = false;
  ring_->for_each_unsubmitted([&](const abi::Sqe& request) {
    mutex_.assume_held();
    const Request* const named = request_of(request.user_data);
    borrowed = borrowed || (named != nullptr && !named->operation->handle()->owned());
  });
  return !borrowed;
}

abi::Sqe* IoUringEngine::claim() noexcept {
  if (abi::Sqe* const request = ring_->claim(); request != nullptr) return request;
  if (!may_enter()) return nullptr;
  leave_limited_writes_to_workers();
  submit_ring();
  return ring_->claim();
}

void IoUringEngine::issue(Operation& operation) noexcept {
  if (operation.kind() == OperationKind::accept && room_.none()) {
    // The kernel would accept a connection that has to be closed.
    if (!rest_with_another(operation)) back_off(operation);
    return;
  }
  Progress& state = progress(operation);
  if (Lane* const lane = lane_of(operation); lane != nullptr) lane->covered = 1;
  abi::Sqe* const request = claim();
  if (request == nullptr) {
    state.place = Place::postponed;
    ++postponed_;
    return;
  }
  fill(operation, *request);
  state.place = Place::kernel;
  ++in_kernel_;
  BATON_TSAN_RELEASE(&operation);
  ring_->publish();
  // relaxed: a thread that enters for this one may miss it, see is_for_worker().
  if (writes_to_file(operation)) file_writes_.store(true, std::memory_order_relaxed);
  if (moves_file(operation.kind()) && ring_->unsubmitted() >= file_lot_ && may_enter()) {
    submit_lot();
  }
}

// Reads that are complete in the same call were in the cache; the next ones probably are, too.
void IoUringEngine::submit_lot() noexcept {
  const std::uint32_t count = ring_->unsubmitted();
  const std::uint32_t before = ring_->brought();
  leave_limited_writes_to_workers();
  submit_ring();
  file_lot_ = ring_->brought() - before >= count ? cache_lot : disk_lot;
}

// At the submit, because the call that issues the operation may be baton_poll. False: no memory for
// a message without which it cannot be done. Others can be done with the first buffer alone.
bool IoUringEngine::ensure_message(const Operation& operation, Request& record) noexcept {
  const MessageNeed need = message_need(operation);
  if (need == MessageNeed::none) return true;
  record.message = messages_.take();
  if (record.message != no_index) return true;
  const bool stream = operation.kind() == OperationKind::read_stream ||
                      operation.kind() == OperationKind::write_stream;
  return need == MessageNeed::useful && !(stream && goes_whole(system_, operation, 1));
}

void IoUringEngine::fill(Operation& operation, abi::Sqe& request) noexcept {
  const Progress& state = progress(operation);
  const Request& record = requests_[state.slot];
  request.user_data = tag_of(state.slot, record.generation);
  Lane* const lane = lane_of(operation);
  if (lane != nullptr && state.step == Step::perform && merge(*lane, operation, request)) return;
  const bool use = record.message != no_index && state.step != Step::poll &&
                   message_need(operation) != MessageNeed::none;
  prepare(request, operation, use ? &messages_[record.message] : nullptr, facts_);
  if (BATON_UNLIKELY(needs_position(operation))) {
    request.offset =
        static_cast<std::uint64_t>(system_.lseek(operation.handle()->native(), 0, SEEK_CUR));
  }
}

// Merges queued writes into one vectored send; each completes on its own.
bool IoUringEngine::merge(Lane& lane, Operation& first, abi::Sqe& request) noexcept {
  const Operation* const second = OperationList::next(first);
  if (second == nullptr || !can_merge(first) || !can_merge(*second)) return false;
  if (keeps_records(system_, *first.handle())) return false;
  Request& record = requests_[progress(first).slot];
  if (record.message == no_index) record.message = messages_.take();
  if (record.message == no_index) return false;
  lane.covered =
      static_cast<std::uint16_t>(prepare_merged(request, first, messages_[record.message]));
  BATON_ASSERT(lane.covered >= 1);
  Operation* next = &first;
  for (std::uint32_t i = 0; i < lane.covered; ++i, next = OperationList::next(*next)) {
    BATON_ASSERT(next != nullptr);
    progress(*next).place = Place::kernel;
    BATON_TSAN_RELEASE(next);
  }
  return true;
}

void IoUringEngine::flush() noexcept {
  if (ring_->unsubmitted() == 0) return;
  if (file_writes_.load(std::memory_order_relaxed)) {
    os::LockGuard guard{mutex_, system_, locked_};
    leave_limited_writes_to_workers();
  }
  // The leader reaps, which makes room, and submits the rest; or its entry is refused as well.
  const Entered entered = submit_ring();
  bool more = false;
  if (!locked_) {
    mutex_.assume_held();
    more = postponed_ > 0;
  }
  if (more || entered == Entered::congested || entered == Entered::refused) interrupt();
}

// -- cancel ---------------------------------------------------------------------------------------

Request* IoUringEngine::request_of(Operation& operation) noexcept {
  Request* const request = requests_.find(progress(operation).slot);
  return request != nullptr && request->operation == &operation ? request : nullptr;
}

CancelAnswer IoUringEngine::cancel(Operation& operation) noexcept {
  CancelAnswer answer = CancelAnswer::too_late;
  bool call_leader = false;
  {
    os::LockGuard guard{mutex_, system_, locked_};
    answer = cancel_here(operation);
    call_leader = locked_ && postponed_ > 0;
  }
  if (call_leader) interrupt();
  // No flush follows a cancel. An engine with one thread submits in the wait that comes next.
  if (locked_ && answer != CancelAnswer::too_late) flush();
  return answer;
}

// The kernel has yet to look up the file of the operation's number, which may be a borrowed
// descriptor's and name another file by then. So the request becomes one that does nothing. False:
// the kernel has it, or another thread may be entering with it.
bool IoUringEngine::withdraw(Operation& operation) noexcept {
  if (locked_) return false;
  const std::uint64_t tag = tag_in_kernel(operation);
  bool found = false;
  ring_->for_each_unsubmitted([&](abi::Sqe& request) {
    if (request.user_data != tag) return;
    request = abi::Sqe{};
    request.opcode = abi::op_nop;
    request.user_data = tag;
    found = true;
  });
  const Lane* const lane = lane_of(operation);
  const bool merged = lane != nullptr && lane->covered > 1;  // has then moved nothing
  if (found && !merged) progress(operation).step = Step::withdrawn;
  return found;
}

// Merged writes are in the kernel under the slot of the first one.
std::uint64_t IoUringEngine::tag_in_kernel(Operation& operation) noexcept {
  const Lane* const lane = lane_of(operation);
  Operation& first = lane != nullptr ? *lane->queue.front() : operation;
  const std::uint32_t slot = progress(first).slot;
  return tag_of(slot, requests_[slot].generation);
}

CancelAnswer IoUringEngine::cancel_here(Operation& operation) noexcept {
  if (request_of(operation) == nullptr) return CancelAnswer::too_late;
  Progress& state = progress(operation);
  if (state.cancelled) return CancelAnswer::requested;
  switch (state.place) {
    case Place::kernel:
      state.cancelled = true;
      // A close runs to its end in any case. A lost ring cancels everything.
      if (operation.kind() != OperationKind::close && !is_lost() && !withdraw(operation)) {
        send_cancel(operation);
      }
      return CancelAnswer::requested;
    case Place::postponed:
      state.cancelled = true;  // the leader sees it instead of submitting it
      return CancelAnswer::requested;
    case Place::lane:
      lane_of(operation)->queue.erase(operation);
      break;
    case Place::held:
      let_go_of_sync(operation);
      break;
    case Place::backing_off:
      stop_resting(operation);
      if (const Lane* const lane = lane_of(operation);
          lane != nullptr && lane->queue.has_several()) {
        // The leader ends it as if the kernel had cancelled it, and continues with the others.
        state.cancelled = true;
        state.place = Place::postponed;
        ++postponed_;
        return CancelAnswer::requested;
      }
      leave_lane(operation);
      break;
  }
  OperationQueue done;
  finish_cancelled(operation);
  retire(operation, done);
  done.erase(operation);
  BATON_ASSERT(done.empty());
  return CancelAnswer::completed;
}

// A cancelled held sync leaves its writes to the next one.
void IoUringEngine::let_go_of_sync(Operation& operation) noexcept {
  FileRecord& record = file_of(operation);
  Operation* const next = OperationList::next(operation);
  (next != nullptr ? progress(*next).writes_before : record.open_writes) +=
      progress(operation).writes_before;
  record.held_syncs.erase(operation);
}

void IoUringEngine::send_cancel(Operation& operation) noexcept {
  Progress& state = progress(operation);
  abi::Sqe* const request = claim();
  if (request == nullptr) {
    if (!state.cancel_postponed) ++postponed_;
    state.cancel_postponed = true;
    return;
  }
  request->opcode = abi::op_async_cancel;
  request->fd = -1;
  request->address = tag_in_kernel(operation);
  request->user_data = cancel_tag | state.slot;
  ring_->publish();
}

// The target's completion reports the outcome. But the kernel does not find (ENOENT) a request that
// is moving between two of its lists: a blocking connect to a UNIX listener whose backlog is full
// is retried as task work before a kernel worker has it. A target that was complete has reported
// that before this answer, so one that is still in the kernel was missed.
void IoUringEngine::settle_cancel(abi::Cqe completion) noexcept {
  if (completion.result != -ENOENT) return;
  const Request* const request = requests_.find(static_cast<std::uint32_t>(completion.user_data));
  if (request == nullptr || request->operation == nullptr) return;
  const Progress& state = progress(*request->operation);
  if (state.cancelled && state.place == Place::kernel) send_cancel(*request->operation);
}

// -- from the ring to the completed queue ---------------------------------------------------------

// The bytes moved complete the operation.
inline bool IoUringEngine::is_complete(Operation& operation) noexcept {
  const unsigned flags = operation.flags();
  if ((flags & (Operation::exactly | Operation::until)) == 0) return true;
  if (BATON_LIKELY((flags & (Operation::vectored | Operation::until)) == 0)) {
    return operation.bytes() == operation.buffer().size;
  }
  return complete_without_transfer(operation);
}

inline bool IoUringEngine::settle_fast(abi::Cqe completion, OperationQueue& done) noexcept {
  const auto slot = static_cast<std::uint32_t>(completion.user_data >> 32);
  if (BATON_UNLIKELY(slot >= requests_.used())) return false;
  Request* const request = &requests_[slot];
  if (BATON_UNLIKELY(request->operation == nullptr ||
                     request->generation != static_cast<std::uint32_t>(completion.user_data))) {
    return false;
  }
  Operation& operation = *request->operation;
  Progress& state = progress(operation);
  if (BATON_UNLIKELY(!state.fast)) return false;
  state.fast = false;
  if (BATON_UNLIKELY(completion.result <= 0 || state.cancelled)) return false;
  if (BATON_UNLIKELY(state.fast_lane == nullptr)) {
    settle_datagram(*request, completion.result, done);
    return true;
  }
  Lane& lane = *state.fast_lane;
  BATON_TSAN_ACQUIRE(&operation);
  operation.set_bytes(static_cast<std::size_t>(completion.result));
  operation.finish(0);
  if (BATON_UNLIKELY(lane.queue.has_several() || !is_complete(operation))) {
    operation.set_bytes(0);
    return false;
  }
  lane.covered = 0;
  lane.queue.pop_last();
  if (BATON_UNLIKELY(operation.has(Operation::vectored))) {
    messages_.give(request->message);
    request->message = no_index;
  }
  request->operation = nullptr;
  ++request->generation;
  requests_.give(slot, *request);
  --in_flight_;
  --in_kernel_;
  done.push_back(operation);
  return true;
}

// REQUIRES: `result` is positive.
void IoUringEngine::settle_datagram(Request& request, int result, OperationQueue& done) noexcept {
  Operation& operation = *request.operation;
  BATON_TSAN_ACQUIRE(&operation);
  --in_kernel_;
  const Message* const message =
      request.message != no_index ? &messages_[request.message] : nullptr;
  const Verdict verdict = judge(operation, message, result, system_);
  BATON_ASSERT(verdict == Verdict::finished);
  retire(operation, done);
}

// Completions are passed by value, in two registers.
inline bool IoUringEngine::take_all(OperationQueue& completed) noexcept {
  bool interrupted = false;
  const auto take = [&](abi::Cqe completion) __attribute__((always_inline)) {
    mutex_.assume_held();
    if (BATON_LIKELY(settle_fast(completion, completed))) return;
    interrupted |= settle(completion, completed);
  };
  ring_->pop_each(limits::reports_max, take);
  return interrupted;
}

// Takes the last completions of a ring that is given up.
void IoUringEngine::take_the_last(OperationQueue& completed) noexcept {
  while (ring_->has_completions()) static_cast<void>(take_all(completed));
}

inline bool IoUringEngine::reap(OperationQueue& completed) noexcept {
  if (BATON_UNLIKELY(locked_)) return reap_locked(completed);
  mutex_.assume_held();
  return take_all(completed);
}

bool IoUringEngine::reap_locked(OperationQueue& completed) noexcept {
  if (!ring_->has_completions()) return false;
  os::LockGuard guard{mutex_, system_, true};
  return take_all(completed);
}

// True: the completion is an interrupt.
bool IoUringEngine::settle(abi::Cqe completion, OperationQueue& done) noexcept {
  if (is_cancel_tag(completion.user_data)) {
    settle_cancel(completion);
    return false;
  }
  if (completion.user_data == wake_tag) return settle_wake(completion);
  if (completion.user_data == message_tag) {
    wake_pending_.exchange(false, std::memory_order_seq_cst);  // as in settle_wake
    return true;
  }
  Request* const request = request_of(completion.user_data);
  BATON_DASSERT(request != nullptr);
  if (request == nullptr) {
    count(stale_events_);
    return false;
  }
  BATON_TSAN_ACQUIRE(request->operation);
  --in_kernel_;
  settle_request(*request->operation, completion.result, done);
  return false;
}

bool IoUringEngine::settle_wake(abi::Cqe completion) noexcept {
  if ((completion.flags & abi::cqe_more) == 0) wake_armed_ = false;
  if (completion.result == -EINVAL) wake_by_read_ = true;
  // ECANCELED: the thread that submitted the poll has ended. The next wait arms it again.
  if (completion.result < 0) return false;
  // acquire and release: the interrupter's earlier writes are visible here, and a later interrupter
  // writes again. seq_cst: one order with interrupt() and stop_messages().
  wake_pending_.exchange(false, std::memory_order_seq_cst);
  return true;
}

void IoUringEngine::settle_request(Operation& operation, int result,
                                   OperationQueue& done) noexcept {
  if (Lane* const lane = lane_of(operation); lane != nullptr) {
    BATON_ASSERT(lane->covered > 0 && lane->queue.front() == &operation);
    if (lane->covered > 1) {
      settle_merged(*lane, result, done);
      return;
    }
  }
  if (BATON_UNLIKELY(progress(operation).step == Step::withdrawn)) result = -ECANCELED;
  if (operation.kind() == OperationKind::accept && result >= 0 && room_.none_for_accepted()) {
    // The table has no handle for it. The close tells its peer.
    system_.close(result);
    result = progress(operation).cancelled ? -ECANCELED : -ENOBUFS;
  }
  if (BATON_UNLIKELY(result > 0 && needs_position(operation))) {
    system_.lseek(operation.handle()->native(), result, SEEK_CUR);
  }
  const Request& request = requests_[progress(operation).slot];
  const Message* const message =
      request.message != no_index ? &messages_[request.message] : nullptr;
  go_on(operation, judge(operation, message, result, system_), done);
}

void IoUringEngine::go_on(Operation& operation, Verdict verdict, OperationQueue& done) noexcept {
  if (verdict == Verdict::again && goes_by_call(operation)) verdict = move_by_call(operation);
  if (verdict == Verdict::turn_away || verdict == Verdict::back_off) {
    if (rest_with_another(operation)) return;
    if (verdict == Verdict::turn_away) spare_.turn_one_away(*operation.handle());
    back_off(operation);
    return;
  }
  Lane* const lane = lane_of(operation);
  if (verdict == Verdict::finished) {
    leave_lane(operation);
    retire(operation, done);
  } else {
    issue(operation);
  }
  if (lane != nullptr) pump(*lane, done);
}

void IoUringEngine::leave_lane(Operation& operation) noexcept {
  Lane* const lane = lane_of(operation);
  if (lane == nullptr) return;
  lane->queue.erase(operation);
  lane->covered = 0;
}

// One send has moved bytes of several operations: each gets its part, in order.
void IoUringEngine::settle_merged(Lane& lane, int result, OperationQueue& done) noexcept {
  std::uint32_t covered = lane.covered;
  lane.covered = 0;
  Operation* each = lane.queue.front();
  for (std::uint32_t i = 0; i < covered; ++i, each = OperationList::next(*each)) {
    BATON_TSAN_ACQUIRE(each);
    progress(*each).place = Place::lane;
  }
  const auto retire_front = [&]() BATON_REQUIRES(mutex_) {
    --covered;
    retire(lane.queue.pop_front(), done);
  };
  auto left = static_cast<std::size_t>(std::max(result, 0));
  while (covered > 0 && left > 0) {
    Operation& front = *lane.queue.front();
    const std::size_t part = std::min(left, remaining_bytes(front));
    left -= part;
    if (!advance(front, part)) break;
    retire_front();
  }
  if (result == -EAGAIN) progress(*lane.queue.front()).step = Step::poll;
  if (result < 0 && !is_transient(-result)) {
    // The first operation gets the stream's error; the others get it from their own requests.
    lane.queue.front()->finish(-result);
    retire_front();
  }
  Operation* next = lane.queue.front();
  for (; covered > 0; --covered) {
    Operation& rest = *next;
    next = OperationList::next(rest);
    if (!progress(rest).cancelled) continue;
    lane.queue.erase(rest);
    finish_cancelled(rest);
    retire(rest, done);
  }
  pump(lane, done);
}

// The operation leaves the engine: its slot is free, and a later completion for it is stale.
void IoUringEngine::retire(Operation& operation, OperationQueue& done) noexcept {
  const Progress& state = progress(operation);
  if (state.cancel_postponed) --postponed_;
  Request& request = requests_[state.slot];
  BATON_ASSERT(request.operation == &operation);
  if (request.message != no_index) messages_.give(request.message);
  request.message = no_index;
  request.operation = nullptr;
  ++request.generation;
  requests_.give(state.slot);
  --in_flight_;
  done.push_back(operation);
  if (state.holds_syncs) count_write_out(file_of(operation), state.epoch);
}

// -- the leader -----------------------------------------------------------------------------------

// For merged waits. A pinned ring works only inside its owner's wait, so its descriptor stays
// silent while the owner polls. A lost ring has two descriptors to wait for.
NativeHandle IoUringEngine::descriptor() const noexcept {
  return ring_options_.pinned || is_lost() ? invalid_handle : ring_->descriptor();
}

// Only the owner may take the completions of a pinned ring.
Glance IoUringEngine::glance() const noexcept {
  if (ring_options_.pinned || is_lost()) return Glance::cannot_tell;
  const bool some = ring_->has_completions() || ring_->needs_kernel();
  return some ? Glance::something : Glance::nothing;
}

Deadline IoUringEngine::due() noexcept {
  os::LockGuard guard{mutex_, system_, locked_};
  // An interrupt would not make the ring readable: its poll ended with the thread that submitted
  // it, or the ring is new. The next wait arms it.
  if (!wake_armed_) return Deadline::immediately();
  const Deadline retry = next_retry();
  if (ring_->unsubmitted() == 0) return retry;
  // The kernel had no room for these, perhaps not for the interrupt's poll either.
  return std::min(retry, next_try());
}

Deadline IoUringEngine::next_try() const noexcept {
  return Deadline::after(congestion_pause, Deadline::at_ns(system_.monotonic_ns()));
}

// Or earlier: the one that was due first may have been cancelled.
Deadline IoUringEngine::next_retry() const noexcept {
  return resting_ == no_index ? Deadline::never() : Deadline::at_ns(look_ns_);
}

// Makes one entry, or none if there is nothing to submit and no need to wait. Completions that the
// kernel holds back for an entry are fetched even when others are at hand: one connection with some
// each time would starve the others.
inline Entered IoUringEngine::enter(Deadline until) noexcept {
  const std::uint32_t count = ring_->unsubmitted();
  if (count == 0 && !ring_->needs_kernel()) {
    if (ring_->has_completions()) return Entered::done;
    if (until == Deadline::immediately()) return Entered::timed_out;
  }
  const Entered entered = ring_->submit_and_wait(count, until);
  return BATON_LIKELY(entered == Entered::done) ? entered : enter_otherwise(entered, until);
}

void IoUringEngine::wait(OperationQueue& completed, Deadline deadline) noexcept {
  for (;;) {
    Deadline until = deadline;
    if (BATON_LIKELY(nothing_to_prepare())) {
      if (!completed.empty()) until = Deadline::immediately();
    } else if (BATON_UNLIKELY(is_lost())) {
      return wait_lost(completed, deadline);
    } else {
      until = prepare_wait(completed, deadline);
    }
    const Entered entered = enter(until);
    const bool interrupted = reap(completed);
    if (!completed.empty() || interrupted || entered == Entered::interrupted) return;
    if (deadline.is_never()) continue;
    if (deadline == Deadline::immediately()) return;
    if (entered == Entered::timed_out) return;  // maybe early, which the contract of wait() allows
    if (deadline.ns() <= system_.monotonic_ns()) return;
  }
}

Deadline IoUringEngine::prepare_wait(OperationQueue& completed, Deadline deadline) noexcept {
  os::LockGuard guard{mutex_, system_, locked_};
  waits_ = true;
  arm_wake();
  submit_postponed(completed);
  Deadline until = retry_backed_off(deadline, completed);
  if (!wake_armed_ || postponed_ > 0) until = std::min(until, next_try());
  leave_limited_writes_to_workers();
  waits_ = false;
  return completed.empty() ? until : Deadline::immediately();
}

// A poll of the interrupt descriptor is always in the ring. A multishot poll is edge-triggered and
// reports each write, so the count is not read and simply grows. The poll ends with the thread that
// submitted it, and when the completion ring overflows; a new one reports earlier writes. Before
// Linux 5.13 a read takes its place.
void IoUringEngine::arm_wake() noexcept {
  if (wake_armed_) return;
  abi::Sqe* const request = claim();
  if (request == nullptr) return;
  request->fd = event_;
  request->user_data = wake_tag;
  if (wake_by_read_) {
    request->opcode = abi::op_read;
    request->address = reinterpret_cast<std::uintptr_t>(&wake_counts);
    request->length = sizeof(wake_counts);
  } else {
    prepare_poll(*request, POLLIN);
    request->length = abi::poll_add_multi;
  }
  ring_->publish();
  wake_armed_ = true;
}

// Called only after the kernel was short of memory, or had completions to deliver first. That is so
// rare that a search is better than a list.
void IoUringEngine::submit_postponed(OperationQueue& done) noexcept {
  for (std::uint32_t slot = 0; postponed_ > 0 && slot < requests_.used(); ++slot) {
    Operation* const operation = requests_[slot].operation;
    if (operation == nullptr) continue;
    Progress& state = progress(*operation);
    const std::uint32_t before = postponed_;
    if (state.place == Place::postponed) {
      --postponed_;
      if (state.cancelled) {
        settle_request(*operation, -ECANCELED, done);
      } else {
        Lane* const lane = lane_of(*operation);
        issue(*operation);
        if (lane != nullptr) pump(*lane, done);
      }
    } else if (state.cancel_postponed) {
      --postponed_;
      state.cancel_postponed = false;
      send_cancel(*operation);
    } else {
      continue;
    }
    if (postponed_ >= before) return;  // still no room
  }
}

void IoUringEngine::back_off(Operation& operation) noexcept {
  Progress& state = progress(operation);
  const bool shortage =
      operation.kind() == OperationKind::accept || operation.kind() == OperationKind::connect;
  const std::uint32_t pause_ms =
      shortage ? shortage_pause_ms(state.failures) : fruitless_pause_ms(state.failures);
  if (state.failures < failures_max) ++state.failures;
  const auto now_ms = static_cast<std::uint64_t>(system_.monotonic_ns() / ns_per_ms);
  state.due_ns = static_cast<std::int64_t>(end_of_pause_ms(now_ms, pause_ms)) * ns_per_ms;
  begin_rest(state);
  if (operation.kind() != OperationKind::accept) return;
  count(accept_backoffs_);
  warn_now_and_then("io_uring: accept is out of descriptors, handles or memory; it stays pending");
}

void IoUringEngine::begin_rest(Progress& state) noexcept {
  state.place = Place::backing_off;
  Request& request = requests_[state.slot];
  request.previous_resting = no_index;
  request.next_resting = resting_;
  look_ns_ = resting_ == no_index ? state.due_ns : std::min(look_ns_, state.due_ns);
  if (resting_ != no_index) requests_[resting_].previous_resting = state.slot;
  resting_ = state.slot;
}

// The accepts of a listener have one pause, however many are pending: each that looked for itself
// would turn another client away. False: none of them rests.
bool IoUringEngine::rest_with_another(Operation& operation) noexcept {
  if (operation.kind() != OperationKind::accept) return false;
  for (std::uint32_t slot = resting_; slot != no_index; slot = requests_[slot].next_resting) {
    Operation& other = *requests_[slot].operation;
    if (other.kind() != OperationKind::accept || other.handle() != operation.handle()) continue;
    Progress& state = progress(operation);
    state.due_ns = progress(other).due_ns;
    state.failures = progress(other).failures;
    begin_rest(state);
    return true;
  }
  return false;
}

void IoUringEngine::stop_resting(Operation& operation) noexcept {
  const Request& request = requests_[progress(operation).slot];
  const std::uint32_t previous = request.previous_resting;
  const std::uint32_t next = request.next_resting;
  (previous == no_index ? resting_ : requests_[previous].next_resting) = next;
  if (next != no_index) requests_[next].previous_resting = previous;
}

// Retries operations that are due, not all at once if they are thousands. Returns the deadline, or
// the earlier end of a back-off.
Deadline IoUringEngine::retry_backed_off(Deadline deadline, OperationQueue& done) noexcept {
  if (BATON_LIKELY(resting_ == no_index)) return deadline;
  const std::int64_t now = system_.monotonic_ns();
  if (look_ns_ > now) return std::min(deadline, next_retry());
  look_ns_ = std::numeric_limits<std::int64_t>::max();
  std::int64_t first = look_ns_;
  std::size_t tried = 0;
  // An operation that backs off again is put before those that are still to come.
  for (std::uint32_t slot = resting_; slot != no_index;) {
    Operation& operation = *requests_[slot].operation;
    slot = requests_[slot].next_resting;
    const std::int64_t due_ns = progress(operation).due_ns;
    if (due_ns > now || tried == limits::reports_max) {
      first = std::min(first, due_ns);
      continue;
    }
    ++tried;
    stop_resting(operation);
    go_on(operation, Verdict::again, done);
  }
  look_ns_ = std::min(look_ns_, first);
  return std::min(deadline, next_retry());
}

Entered IoUringEngine::enter_otherwise(Entered entered, Deadline until) noexcept {
  if (BATON_UNLIKELY(entered == Entered::foreign)) {
    // Does not wait: the new ring has no poll of the interrupt descriptor yet.
    const int error = take_over();
    if (error == 0) return ring_->submit();
    if (!is_forbidden(error)) return Entered::congested;
    note_refusal(error);
    return Entered::interrupted;  // the next wait goes on from here
  }
  if (entered == Entered::congested && !ring_->has_completions()) {
    // Nothing to reap and no room to submit: wait for a completion, but try again soon.
    entered = ring_->wait_only(std::min(until, next_try()));
    if (entered == Entered::congested && until != Deadline::immediately()) {
      pause_for(system_, 1);  // not even a wait is possible
    }
    if (entered == Entered::timed_out) entered = Entered::congested;
  }
  if (BATON_UNLIKELY(entered == Entered::refused)) {
    note_refusal(errno);
    return Entered::interrupted;  // the next wait goes on from here
  }
  return entered;
}

Entered IoUringEngine::submit_ring() noexcept {
  const Entered entered = ring_->submit();
  if (BATON_LIKELY(entered != Entered::foreign)) return entered;
  return take_over() == 0 ? ring_->submit() : Entered::congested;  // the next wait finds out why
}

// The owner of a pinned ring has gone, with nothing left in the kernel, and another thread takes
// its place. It gets a ring of its own, with the requests that were prepared but not submitted.
// Returns 0 or an errno.
int IoUringEngine::take_over() noexcept {
  mutex_.assume_held();
  if (in_kernel_ != prepared()) {
    BATON_UNREACHABLE("a pinned ring with operations in flight was entered by another thread");
  }
  auto fresh = Ring::open(system_, ring_options_);
  if (!fresh) return fresh.error();
  ring_->for_each_unsubmitted([&](const abi::Sqe& request) {
    if (request.user_data == wake_tag) return;
    *(*fresh)->claim() = request;  // as many entries as the old one has
    (*fresh)->publish();
  });
  ring_.swap(*fresh);
  leave_ring(std::move(*fresh));
  return 0;
}

// Number of prepared requests of operations that are not submitted yet.
std::uint32_t IoUringEngine::prepared() const noexcept {
  std::uint32_t count = 0;
  ring_->for_each_unsubmitted([&](const abi::Sqe& request) {
    if (request.user_data != wake_tag && !is_cancel_tag(request.user_data)) ++count;
  });
  return count;
}

void IoUringEngine::leave_ring(std::unique_ptr<Ring> old) noexcept {
  if (message_target_.load(std::memory_order_relaxed) >= 0) {
    retired_ = std::move(old);
    stop_messages();
  }
  wake_armed_ = false;
}

bool IoUringEngine::unpin(OperationQueue& completed) noexcept {
  if (!ring_options_.pinned) return true;
  if (is_lost()) {
    ring_options_.pinned = false;
    info_.leader_rule = LeaderRule::any;
    return true;
  }
  if (!may_unpin_) return false;
  mutex_.assume_held();
  leave_limited_writes_to_workers();
  ring_options_.pinned = false;
  const bool done = in_kernel_ == prepared() ? take_over() == 0 : move_to_new_ring(completed);
  ring_options_.pinned = !done;
  if (done) info_.leader_rule = LeaderRule::any;
  return done;
}

bool IoUringEngine::move_to_new_ring(OperationQueue& completed) noexcept {
  auto fresh = Ring::open(system_, ring_options_);
  if (!fresh) return false;
  ring_.swap(*fresh);
  if (empty_ring(**fresh, completed)) {
    leave_ring(std::move(*fresh));
  } else {
    ring_.swap(*fresh);  // the engine is lost, with the requests in the old ring: see wait_lost
  }
  return true;
}

// Every request in the kernel ends as cancelled. The program has not asked for that, so each is
// issued again, into the new ring, and continues there.
bool IoUringEngine::empty_ring(Ring& old, OperationQueue& completed) noexcept {
  std::uint32_t left = in_kernel_;
  const auto take = [&](abi::Cqe completion) {
    mutex_.assume_held();
    const std::uint64_t tag = completion.user_data;
    if (!is_cancel_tag(tag) && tag != wake_tag && tag != message_tag) --left;
    // A read may end with ECANCELED because a timer's clock was set. This one was cancelled by us.
    const Request* const named = request_of(tag);
    if (completion.result == -ECANCELED && named != nullptr &&
        named->operation->kind() == OperationKind::read_stream) {
      completion.result = -EINTR;
    }
    if (!settle_fast(completion, completed)) static_cast<void>(settle(completion, completed));
  };
  const auto take_some = [&](Deadline until) {
    const Entered entered = old.submit_and_wait(until);
    old.pop_each(limits::reports_max, take);
    return entered == Entered::done;
  };
  // One by one at first. To cancel all, the kernel looks for each among those that it has cancelled
  // and that have not ended: 20,000 idle connections took 7 s. So these end in small lots.
  // A transfer that the disk has begun does not, and the rest is left to the cancel below.
  constexpr std::uint32_t lot = 128;
  std::uint32_t asked = 0;
  bool all_end = true;
  for (std::uint32_t slot = 0; all_end && slot < requests_.used(); ++slot) {
    const Request& named = requests_[slot];
    if (named.operation == nullptr || progress(*named.operation).place != Place::kernel) continue;
    abi::Sqe* request = old.claim();
    if (request == nullptr && take_some(Deadline::immediately())) request = old.claim();
    if (request == nullptr) break;
    request->opcode = abi::op_async_cancel;
    request->fd = -1;
    request->address = tag_of(slot, named.generation);
    request->user_data = cancel_tag | no_index;
    old.publish();
    if (++asked % lot != 0) continue;
    const std::uint32_t goal = left - std::min(left, lot);
    for (const Deadline soon = next_try(); all_end && left > goal;) all_end = take_some(soon);
  }
  do {
    if (abi::Sqe* const request = old.claim(); request != nullptr) {
      request->opcode = abi::op_async_cancel;
      request->fd = -1;
      request->operation_flags = abi::cancel_all | abi::cancel_any;
      request->user_data = cancel_tag | no_index;
      old.publish();
    }
    // A transfer that the disk has begun is not cancelled; the cancel is repeated now and then.
    const Deadline soon = next_try();
    Entered entered = old.submit_and_wait(soon);
    while (entered == Entered::done && left > 0) {
      old.pop_each(limits::reports_max, take);
      if (left > 0) entered = old.wait_only(soon);
    }
    const int error = errno;
    old.pop_each(limits::reports_max, take);
    if (BATON_UNLIKELY(entered == Entered::refused)) {
      note_refusal(error);
      return false;
    }
  } while (left > 0);
  return true;
}

// Interrupters may still send messages to the old ring, so it stays open and keeps its number. From
// now on they write to event_. Either an interrupter comes later and sees that there is no target,
// or its flag is seen here and this thread writes for it. seq_cst on both words: each side stores
// one and then loads the other.
void IoUringEngine::stop_messages() noexcept {
  message_target_.store(-1, std::memory_order_seq_cst);
  if (wake_pending_.load(std::memory_order_seq_cst)) write_event();
}

void IoUringEngine::interrupt() noexcept {
  // acquire and release: the caller's earlier writes are visible to the leader that clears the
  // flag. A thread that finds the flag set relies on the write of the thread that set it. seq_cst:
  // see stop_messages().
  if (wake_pending_.exchange(true, std::memory_order_seq_cst)) return;
  const int saved = errno;  // the caller may be a signal handler
  // A pinned ring takes no message before a thread has entered it (EBADFD), nor after its owner has
  // ended (EOWNERDEAD). ENOMEM, EOVERFLOW: the kernel is out of memory.
  const int target = message_target_.load(std::memory_order_seq_cst);
  if (target < 0 || Ring::send_message(system_, target, message_tag) != 0) write_event();
  errno = saved;
}

void IoUringEngine::write_event() noexcept {
  const std::uint64_t one = 1;
  while (system_.write(event_, &one, sizeof(one)) < 0 && errno == EINTR) {
  }
}

void IoUringEngine::log(LogLevel level, std::string_view text) noexcept {
  if (log_ == nullptr) return;
  try {
    log_->write(level, iso_8601(system_.realtime_us()), text);
  } catch (const std::bad_alloc&) {
    // No memory for a line of the log: drop it.
  }
}

void IoUringEngine::warn_now_and_then(const char* text) noexcept {
  const std::int64_t now = system_.monotonic_ns();
  if (log_ == nullptr || now < log_again_ns_) return;
  log_again_ns_ = now + log_every_ns;
  log(LogLevel::warning, text);
}

}  // namespace baton::engines::uring
