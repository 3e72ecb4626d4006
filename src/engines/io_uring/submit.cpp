// From submit to the ring: see io_uring_engine.cpp.
#include "engines/io_uring/io_uring_engine.hpp"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <optional>

#include "base/assert.hpp"
#include "base/tsan.hpp"
#include "baton/limits.hpp"
#include "engines/common/file_calls.hpp"
#include "engines/common/records.hpp"
#include "engines/common/transfer.hpp"

namespace baton::engines::uring {
namespace {

// Transfers of files in one entry. A disk starts on the requests of one entry one by one if there
// are at most two; of more it sees none before all are prepared (the kernel plugs its queue). A
// large lot completes as one and returns as one, and the disk is idle while the next lot is
// prepared: with 64 random reads in flight, lots of 2 are some 10 % faster than lots of 16. Reads
// from the page cache wait for no disk. Sockets gain nothing from smaller lots.
constexpr std::uint32_t disk_lot = 2;
constexpr std::uint32_t cache_lot = 16;

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

}  // namespace

inline bool IoUringEngine::submit_fast(Operation& operation, Lane& lane,
                                       abi::Opcode what) noexcept {
  constexpr unsigned special = Operation::vectored | Operation::pooled | Operation::until;
  const unsigned found = operation.flags() & special;
  // The bytes already read may contain the delimiter.
  if (BATON_UNLIKELY(found != 0) && (found != Operation::until || operation.bytes() > 0)) {
    return found == Operation::pooled ? submit_fast_pooled(operation, lane)
                                      : submit_fast_list(operation, lane);
  }
  if (BATON_UNLIKELY(operation.buffer().size - 1 >= limits::transfer_max)) return false;
  abi::Sqe* const request = claim_fast(operation, lane);
  if (BATON_UNLIKELY(request == nullptr)) return false;
  request->opcode = what;
  request->address = reinterpret_cast<std::uintptr_t>(operation.buffer().data);
  request->length = static_cast<std::uint32_t>(operation.buffer().size);
  request->operation_flags = what == abi::op_send ? MSG_NOSIGNAL : 0;
  BATON_TSAN_RELEASE(&operation);
  ring_->publish();
  return true;
}

// A request for the only operation of a lane. Null: the slow path continues.
inline abi::Sqe* IoUringEngine::claim_fast(Operation& operation, Lane& lane) noexcept {
  if (BATON_UNLIKELY(!lane.queue.empty())) return nullptr;
  abi::Sqe* const request = ring_->claim();
  if (BATON_UNLIKELY(request == nullptr)) return nullptr;
  std::uint32_t slot = no_index;
  Request* const free = requests_.take_given(slot);
  if (BATON_UNLIKELY(free == nullptr)) return nullptr;  // the slab must grow first
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
  request->fd = operation.handle()->native();
  request->user_data = tag_of(slot, named.generation);
  return request;
}

// The block is taken when there is something to read: settle_fast(). A socket that is not readable
// has no readiness either.
bool IoUringEngine::submit_fast_pooled(Operation& operation, Lane& lane) noexcept {
  if (BATON_UNLIKELY(!operation.handle()->readable())) return false;
  abi::Sqe* const request = claim_fast(operation, lane);
  if (BATON_UNLIKELY(request == nullptr)) return false;
  progress(operation).pool = operation.pool();
  progress(operation).step = Step::poll;
  prepare_poll(*request, POLLIN);
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

Lane* IoUringEngine::lane_of(Operation& operation) noexcept {
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
    case OperationKind::write_datagram:
      return progress(operation).queues ? &record.writes : nullptr;
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
  if (BATON_UNLIKELY(state.step == Step::poll)) look_later(operation);
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

}  // namespace baton::engines::uring
