// The POSIX AIO engine: order, requests, and the leader's check of them.
#include "engines/posix_aio/posix_aio_engine.hpp"

#include <aio.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/assert.hpp"
#include "baton/buffer_pool.hpp"
#include "engines/common/file_calls.hpp"
#include "engines/common/look.hpp"
#include "engines/common/transfer.hpp"

namespace baton::engines::posix_aio {
namespace {

using namespace std::chrono_literals;

// The longest pause after the system had no room: its threads are usually busy with disks for some
// milliseconds. Pauses double up to it.
constexpr Duration rest_max = 160ms;
// How long a lost notification may remain unnoticed.
constexpr Duration doubt = 100ms;

constexpr EngineInfo facts() {
  EngineInfo info;
  info.name = "posix_aio";
  for (const auto kind :
       {OperationKind::read_file, OperationKind::write_file, OperationKind::sync_file}) {
    info.support[static_cast<std::size_t>(kind)] = Support::native;
  }
  info.support[static_cast<std::size_t>(OperationKind::close)] = Support::assisted;
  info.works_in_submit = true;
  info.operations_max = operations_max;
  return info;
}

bool is_write(const Operation& operation) noexcept {
  return operation.kind() == OperationKind::write_file;
}

// -- pooled reads ---------------------------------------------------------------------------------

// The block is taken when the read begins: a file always has its data.
bool take_block(Operation& operation) noexcept {
  Progress& state = progress(operation);
  if (!operation.has(Operation::pooled) || state.pool != nullptr) return true;
  BufferPool* const pool = operation.pool();
  void* const block = pool->take();
  operation.set_taken_buffer(block, block != nullptr ? pool->block_size() : 0);
  if (block == nullptr) {
    operation.finish(errc::pool_exhausted);
    return false;
  }
  state.pool = pool;
  return true;
}

void give_block_back(Operation& operation) noexcept {
  Progress& state = progress(operation);
  if (state.pool != nullptr) state.pool->give(operation.buffer().data);
  operation.set_taken_buffer(nullptr, 0);
}

// For an operation that ends: an empty block returns to the pool, and the pool is no buffer.
void settle_pooled(Operation& operation) noexcept {
  if (operation.has(Operation::pooled) && operation.bytes() == 0) give_block_back(operation);
}

// An operation that gets busy stays unchanged.
void restore_pooled(Operation& operation) noexcept {
  BufferPool* const pool = progress(operation).pool;
  if (pool == nullptr) return;
  give_block_back(operation);
  operation.set_pool(pool);
}

}  // namespace

// -- the engine -----------------------------------------------------------------------------------

PosixAioEngine::PosixAioEngine(const EngineOptions& options, std::unique_ptr<NotifyStrategy> notify)
    : system_(os::or_real(options.system)),
      concurrent_(options.concurrent),
      notify_(std::move(notify)),
      info_(facts()),
      records_(options.handles_max),
      closer_(system_, *this) {
  info_.start_from_any_thread = concurrent_;
  info_.wait_name = notify_->info().name;
  info_.interrupt_name = notify_->info().interrupt_name;
  in_flight_.reserve(operations_max);
  listed_.reserve(operations_max + 1);
}

PosixAioEngine::~PosixAioEngine() = default;

std::error_code PosixAioEngine::attach(Handle& handle) noexcept {
  os::LockGuard guard{mutex_, system_, concurrent_};
  if (handle.index() >= records_.bound()) return errc::no_free_handles;
  if (!records_.ensure(handle.index())) return std::make_error_code(std::errc::not_enough_memory);
  return {};
}

void PosixAioEngine::detach(Handle& handle) noexcept {
  os::LockGuard guard{mutex_, system_, concurrent_};
  const Record& record = records_[handle.index()];
  BATON_ASSERT(record.held.empty() && !record.active);
}

// -- starting -------------------------------------------------------------------------------------

Submission PosixAioEngine::submit(Operation& operation, void*) noexcept {
  if (operation.kind() == OperationKind::close) return closer_.submit(operation);
  os::LockGuard guard{mutex_, system_, concurrent_};
  Record& record = record_of(operation);
  Progress& state = progress(operation);
  state = Progress{};
  // Under the lock: either this thread sees the mark, or the cancel sees the operation.
  if (operation.cancel_asked()) {
    operation.finish(ECANCELED);
    settle_pooled(operation);
    return Submission::completed;
  }
  if (record.active) {
    state.owner = &record;
    record.held.push_back(operation);
    return Submission::pending;
  }
  if (!ready(operation)) {
    settle_pooled(operation);
    return Submission::completed;
  }
  switch (postponed_.empty() ? issue(operation) : Issued::no_room) {
    case Issued::taken:
      refused_ = false;
      state.owner = &record;
      record.active = true;
      return Submission::pending;
    case Issued::no_room:
      restore_pooled(operation);
      refused_ = true;
      return Submission::busy;
    case Issued::failed:
      settle_pooled(operation);
      return Submission::completed;
  }
  BATON_UNREACHABLE("a result of issue");
}

// False: complete without the system.
bool PosixAioEngine::ready(Operation& operation) noexcept {
  if (operation.kind() == OperationKind::sync_file) return true;
  if (complete_without_transfer(operation)) return false;
  if (!offset_fits(operation)) {
    operation.finish(EINVAL);
    return false;
  }
  if (const int error = check_descriptor(operation); error != 0) {
    operation.finish(error);
    return false;
  }
  return take_block(operation);
}

// Checked each time: the owner of a borrowed descriptor may have reused the number. A pipe, a
// socket or a terminal has no position, and a read that waits for its data (/proc/kmsg) could not
// be cancelled. The two calls reach no remote file system, except a FUSE server that has made its
// files pollable.
int PosixAioEngine::check_descriptor(const Operation& operation) const noexcept {
  const Handle& handle = *operation.handle();
  if (system_.lseek(handle.native(), 0, SEEK_CUR) < 0) return errno;
  return !is_write(operation) && waits_for_data(system_, handle, 0) ? EOPNOTSUPP : 0;
}

PosixAioEngine::Issued PosixAioEngine::issue(Operation& operation) noexcept {
  const bool syncs = operation.kind() == OperationKind::sync_file;
  int error = syncs || offset_fits(operation) ? 0 : EINVAL;
  if (error == 0) {
    Request* request = progress(operation).request;
    if (request == nullptr) request = requests_.take();
    if (request == nullptr && !in_flight_.empty()) return Issued::no_room;
    if (request == nullptr) {  // no memory, and no request in flight whose end would make room
      fail_file(operation, ENOMEM);
      return Issued::failed;
    }
    request->operation = &operation;
    error = begin(system_, *notify_, *request);
    if (error == 0) {
      progress(operation).request = request;
      progress(operation).place = Place::system;
      in_flight_.push_back(request);
      fresh_ = true;
      rest_ = rest_min;
      return Issued::taken;
    }
    progress(operation).request = nullptr;
    requests_.give_back(*request);
  }
  if (error == EAGAIN && !lacks_threads()) return Issued::no_room;
  fail_file(operation, error == EAGAIN ? ENOMEM : error);
  return Issued::failed;
}

// There was no room in any of the pauses, and no request is in flight whose end would make some: a
// limit lets the system start no thread (RLIMIT_NPROC).
bool PosixAioEngine::lacks_threads() const noexcept {
  return in_flight_.empty() && rest_ == rest_max;
}

// Begins the next operation of the record when none is under way. An operation that ends without
// the system leaves room for the one behind it.
void PosixAioEngine::dispatch(Record& record) noexcept {
  while (!record.active && !record.held.empty()) {
    record.active = true;
    go_on(record.held.pop_front(), record);
  }
}

void PosixAioEngine::issue_postponed() noexcept {
  OperationQueue again;
  again.splice_back(postponed_);
  // In order: an operation that finds no room is postponed again, and those behind it are not
  // tried.
  while (!again.empty() && postponed_.empty()) {
    Operation& operation = again.pop_front();
    Record& record = record_of(operation);
    go_on(operation, record);
    dispatch(record);
  }
  postponed_.splice_back(again);
}

// Issues the next request of an operation, the first one included. REQUIRES: as retire().
void PosixAioEngine::go_on(Operation& operation, Record& record) noexcept {
  Progress& state = progress(operation);
  const bool first = state.request == nullptr && operation.bytes() == 0;
  if (first && !ready(operation)) {
    retire(operation, record);
    return;
  }
  switch (issue(operation)) {
    case Issued::taken:
      return;
    case Issued::no_room:
      state.place = Place::postponed;
      postponed_.push_back(operation);
      return;
    case Issued::failed:
      retire(operation, record);
      return;
  }
}

bool PosixAioEngine::leader_misses_something() const noexcept {
  return fresh_ && (unguarded_ || (waiting_ && notify_->info().list_is_fixed));
}

// Interrupts a waiting leader if it misses something. Called only for starts of other threads, so a
// thread that waits next pays nothing.
void PosixAioEngine::flush() noexcept {
  {
    os::LockGuard guard{mutex_, system_, concurrent_};
    if (!leader_misses_something()) return;
    fresh_ = false;
    unguarded_ = false;
  }
  notify_->interrupt();
}

// -- cancel ---------------------------------------------------------------------------------------

// Two handles may have one descriptor. Then the cancel of one request could lose the other's (see
// the header), so the request runs to its end.
bool PosixAioEngine::is_alone(const Request& request) const noexcept {
  return std::none_of(in_flight_.begin(), in_flight_.end(), [&](const Request* other) {
    return other != &request && other->block->aio_fildes == request.block->aio_fildes;
  });
}

CancelAnswer PosixAioEngine::cancel(Operation& operation) noexcept {
  bool tell = false;
  {
    os::LockGuard guard{mutex_, system_, concurrent_};
    Record* const record = records_.find(operation.handle()->index());
    Progress& state = progress(operation);
    if (record == nullptr || state.owner != record) return CancelAnswer::too_late;
    if (state.place == Place::system) {
      // A request that the system has not begun ends now, and the leader is notified. A running
      // request ends by itself, and the operation does not continue.
      if (is_alone(*state.request)) ask_to_cancel(system_, *state.request);
      return CancelAnswer::requested;
    }
    if (state.place == Place::held) {
      record->held.erase(operation);
    } else {
      postponed_.erase(operation);
      record->active = false;
    }
    operation.finish(ECANCELED);
    settle_pooled(operation);
    state.owner = nullptr;
    dispatch(*record);
    tell = !finished_.empty() || !postponed_.empty() || leader_misses_something();
  }
  if (tell) notify_->interrupt();
  return CancelAnswer::completed;
}

// -- the leader -----------------------------------------------------------------------------------

void PosixAioEngine::wait(OperationQueue& completed, Deadline deadline) noexcept {
  closer_.take(completed);
  const Deadline until = prepare_wait(completed.empty() ? deadline : Deadline::immediately());
  notify_->wait(listed_, until);
  os::LockGuard guard{mutex_, system_, concurrent_};
  waiting_ = false;
  look();
  unguarded_ = in_flight_.empty();
  completed.splice_back(finished_);
  closer_.take(completed);
}

Deadline PosixAioEngine::prepare_wait(Deadline deadline) noexcept {
  os::LockGuard guard{mutex_, system_, concurrent_};
  issue_postponed();
  listed_.clear();
  for (const Request* request : in_flight_) listed_.push_back(request->block);
  waiting_ = true;
  fresh_ = false;
  unguarded_ = in_flight_.empty();
  if (!finished_.empty()) return Deadline::immediately();
  // An immediate deadline is no wait: a caller that sleeps afterwards, over several engines, must
  // still see the refusal.
  if (deadline == Deadline::immediately()) return deadline;
  if (has_no_room()) return std::min(deadline, end_of_rest());
  if (!notify_->info().may_be_lost || in_flight_.empty()) return deadline;
  const Deadline now = Deadline::at_ns(system_.monotonic_ns());
  return std::min(deadline, Deadline::after(doubt, now));
}

bool PosixAioEngine::has_no_room() noexcept {
  return !postponed_.empty() || std::exchange(refused_, false);
}

Deadline PosixAioEngine::end_of_rest() noexcept {
  const Deadline now = Deadline::at_ns(system_.monotonic_ns());
  const Deadline end = Deadline::after(rest_, now);
  rest_ = std::min(2 * rest_, Duration{rest_max});
  return end;
}

// While a request is in flight there is none, because a notification may be lost. A wait over
// several engines then checks this one itself.
NativeHandle PosixAioEngine::descriptor() const noexcept {
  os::LockGuard guard{mutex_, system_, concurrent_};
  if (!in_flight_.empty() || !finished_.empty()) return invalid_handle;
  return notify_->descriptor();
}

// Nothing makes the descriptor readable for operations without room.
Deadline PosixAioEngine::due() noexcept {
  os::LockGuard guard{mutex_, system_, concurrent_};
  return has_no_room() ? end_of_rest() : Deadline::never();
}

// Checks all requests in flight first; the ended ones may then begin new ones.
void PosixAioEngine::look() noexcept {
  Request* over = nullptr;
  Request** last = &over;
  std::erase_if(in_flight_, [&](Request* request) {
    if (!is_over(system_, *request)) return false;
    *last = request;
    last = &request->next;
    return true;
  });
  *last = nullptr;
  while (over != nullptr) {
    Request& request = *std::exchange(over, over->next);
    settle(*request.operation, request.error, request.moved);
  }
}

// ECANCELED that we did not ask for: the program has called aio_cancel for its descriptor. EINTR:
// on systems where a signal interrupts a request. An operation that was not cancelled continues.
// All others - EBADF, EISDIR, EIO, ENOSPC, EDQUOT, EFBIG, ... - are the outcome.
void PosixAioEngine::settle(Operation& operation, int error, std::size_t moved) noexcept {
  bool over = false;
  if (error == 0 && operation.kind() == OperationKind::sync_file) {
    operation.finish(0);
    over = true;
  } else if (error == 0) {
    over = advance_file(operation, moved);
  } else if (FileCalls::ended_between_blocks(system_, operation, error)) {
    over = advance_file(operation, 0);
  } else if (error != ECANCELED && error != EINTR) {
    fail_file(operation, error);
    over = true;
  }
  if (!over && operation.cancel_asked()) {
    operation.finish(ECANCELED);
    over = true;
  }
  Record& record = record_of(operation);
  if (over) {
    retire(operation, record);
  } else {
    go_on(operation, record);
  }
  dispatch(record);
}

// REQUIRES: dispatch(record) follows, because others may have their turn now.
void PosixAioEngine::retire(Operation& operation, Record& record) noexcept {
  Progress& state = progress(operation);
  if (state.request != nullptr) requests_.give_back(*std::exchange(state.request, nullptr));
  settle_pooled(operation);
  state.owner = nullptr;
  record.active = false;
  finished_.push_back(operation);
}

}  // namespace baton::engines::posix_aio
