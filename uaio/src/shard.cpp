#include "shard.hpp"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "futex.hpp"
#include "library.hpp"
#include "odd_files.hpp"
#include "thread.hpp"

namespace uaio {
namespace {

using baton::Operation;
using baton::OperationKind;

OperationKind kind_of(const Request& request) noexcept {
  const bool read = reads(request.action);
  if (syncs(request.action)) return OperationKind::sync_file;
  switch (request.descriptor->kind) {
    case baton::HandleKind::file:
      return read ? OperationKind::read_file : OperationKind::write_file;
    case baton::HandleKind::datagram_socket:
      return read ? OperationKind::read_datagram : OperationKind::write_datagram;
    default:
      return read ? OperationKind::read_stream : OperationKind::write_stream;
  }
}

int errno_of(const Operation& operation) noexcept {
  const int error = operation.error_value();
  if (error >= 0) return error;
  switch (static_cast<baton::errc>(-error)) {
    case baton::errc::stopped:
    case baton::errc::handle_closed:
    case baton::errc::after_fork:
      return ECANCELED;
    case baton::errc::timed_out:
      return EAGAIN;
    default:
      return EIO;
  }
}

/// The kernel's work so far can be repeated: a transfer at a place of the file.
bool is_repeatable(const Operation& operation) noexcept {
  switch (operation.kind()) {
    case OperationKind::read_file:
    case OperationKind::sync_file:
      return true;
    case OperationKind::write_file:
      return (operation.flags() & Operation::append) == 0;
    default:
      return false;
  }
}

/// A device has no end that grows: the kernel writes to it at the place, whatever its flags are.
bool appends(const Request& request) noexcept {
  return writes(request.action) && request.descriptor->regular &&
         (request.descriptor->flags & O_APPEND) != 0;
}

/// The timer's handler carries it out itself. It may have interrupted malloc, and an engine may
/// allocate when it starts a transfer of a file. No other append is at the engine (line_of).
bool fits_the_timer(const Request& request) noexcept {
  return request.descriptor->kind == baton::HandleKind::file && !is_unready(request);
}

}  // namespace

// -- starting -------------------------------------------------------------------------------------

/// `fildes` is an entry of the table that this shard uses; -1: there was no room for it. 0 or an
/// errno.
int Shard::start(Request& request, int fildes) noexcept {
  const bool late = library_.direct().take_back(request);
  const int error = start_in_turn(request, fildes, late);
  if (late) release_after_direct();
  return error;
}

/// `late`: a direct request; syncs that arrived here before it may wait for it.
int Shard::start_in_turn(Request& request, int fildes, bool late) noexcept {
  if (fildes < 0) return EAGAIN;
  struct stat status{};
  const int flags = ::fcntl(fildes, F_GETFL);
  if (flags < 0 || ::fstat(fildes, &status) != 0) return EBADF;
  if (single_ && may_need_thread(request, status) && !thread_fits()) return EAGAIN;
  Descriptor* const found = files_->find_or_add(fildes, flags, status);
  if (found == nullptr) return EAGAIN;
  Descriptor& file = *found;
  request.descriptor = &file;
  request.shard = this;
  files_->link(request, late);
  ssize_t moved = 0;
  if (syncs(request.action) && file.kind != baton::HandleKind::file) {
    finish(request, EINVAL, -1);
  } else if (moves_nothing(request, status, moved)) {
    finish(request, moved < 0 ? errno : 0, moved);
  } else if (reads_in_background(request, status)) {
    finish(request, EIO, -1);
  } else if (const int error = error_of_listener(request, status); error != 0) {
    finish(request, error, -1);
  } else if (!syncs(request.action) && is_nameless(status) && file.pending == 1 &&
             answers_at_once(request, moved)) {
    finish(request, moved < 0 ? errno : 0, moved);
  } else if (answers_unready(request)) {
    moved = move_now(request);
    finish(request, moved < 0 ? errno : 0, moved);
  } else if (tenths_of_wait(request) == 0 && reads_terminal_now(request, moved)) {
    finish(request, moved < 0 ? errno : 0, moved);
  } else if ((flags & O_NONBLOCK) != 0 && is_first_of_stream(request) && is_unready(request)) {
    finish(request, EAGAIN, -1);
  } else if (driven_by_callers() && !ensure_handle(file)) {
    finish(request, EAGAIN, -1);  // later the timer's handler might need it, and must not allocate
  } else if (request.after_direct != 0) {
    library_.wait_for_direct(1);
    after_direct_.push(request);
    release_after_direct();
  } else {
    launch(request);
  }
  return 0;
}

/// Of a stream, and no earlier request of the same direction is pending. If the stream is
/// non-blocking, its result is that of read or write now. A later one keeps its place, although the
/// program has set O_NONBLOCK since.
bool Shard::is_first_of_stream(const Request& request) const noexcept {
  const Descriptor& file = *request.descriptor;
  if (syncs(request.action) || file.kind == baton::HandleKind::file) return false;
  const Request* each = file.inode->first;
  while (each != &request &&
         (each->descriptor != &file || reads(each->action) != reads(request.action))) {
    each = each->file_next;
  }
  return each == &request;
}

bool Shard::ensure_handle(Descriptor& descriptor) noexcept {
  if (descriptor.handle != nullptr) return true;
  const auto handle =
      proactor_->adopt(descriptor.native, descriptor.kind, baton::Ownership::borrowed);
  if (!handle) return false;
  descriptor.handle = *handle;
  return true;
}

void Shard::launch(Request& request) noexcept {
  request.held = syncs(request.action) && request.descriptor->inode->first != &request;
  if (request.held) return;
  if (Line* const line = line_of(request)) {
    if (line->at_work != nullptr) return line->others.push(request);
    line->at_work = &request;
  }
  const bool has_room = is_bounded(request)
                            ? bounded_ < depth_ && queued_ == 0
                            : in_flight_ < in_flight_max && streams_.first == nullptr;
  if (has_room && !lost_) {
    submit(request);
  } else {
    queue(request);
    start_waiting();
  }
}

/// Null: the engine keeps the order, or the order does not matter. Appends have a line where the
/// timer's handler may carry out the next one.
Line* Shard::line_of(const Request& request) const noexcept {
  const Descriptor& descriptor = *request.descriptor;
  const bool is_datagram =
      descriptor.kind == baton::HandleKind::datagram_socket && !syncs(request.action);
  const bool is_append = single_ && descriptor.kind == baton::HandleKind::file && appends(request);
  if (!is_datagram && !is_append) return nullptr;
  return reads(request.action) ? &descriptor.inode->reads : &descriptor.inode->writes;
}

/// Its current request is complete.
void Shard::leave_line(Line& line) noexcept {
  line.at_work = line.others.first;
  if (line.at_work == nullptr) return;
  line.others.remove(*line.at_work);
  queue(*line.at_work);
  look_again_ = true;
}

/// A request of a stream may wait for its peer for ever, and takes no place from others. In
/// mode=single it never waits for the timer's handler: the engine may allocate when it starts the
/// first one of a stream.
bool Shard::is_bounded(const Request& request) const noexcept {
  return request.descriptor->kind == baton::HandleKind::file ||
         (library_.options().depth_is_given && !single_);
}

Row& Shard::row_of(const Request& request) noexcept {
  return is_bounded(request) ? run_[std::clamp(request.priority, 0, priorities - 1)] : streams_;
}

// After all requests of the same priority: aio_reqprio lowers it.
void Shard::queue(Request& request) noexcept {
  row_of(request).push(request);
  if (is_bounded(request)) ++queued_;
}

/// Removes it from the row that it waits in. REQUIRES: it was not submitted.
void Shard::unqueue(Request& request) noexcept {
  if (std::exchange(request.held, false)) return;
  Row& row = *request.row;
  row.remove(request);
  if (&row == &after_direct_) {
    library_.wait_for_direct(-1);
  } else if (&row == &row_of(request) && is_bounded(request)) {
    --queued_;
  }
}

void Shard::start_waiting() noexcept {
  while (streams_.first != nullptr && in_flight_ < in_flight_max && !lost_) {
    Request& request = *streams_.first;
    streams_.remove(request);
    submit(request);
  }
  for (Row& row : run_) {
    while (row.first != nullptr && bounded_ < depth_ && !lost_) {
      Request& request = *row.first;
      row.remove(request);
      --queued_;
      submit(request);
    }
  }
}

void Shard::submit(Request& request) noexcept {
  if (in_timer() && fits_the_timer(request)) return do_here(request);
  if (!ensure_handle(*request.descriptor)) return finish(request, EAGAIN, -1);
  request.started = true;
  count_in_engine(request, 1);
  fill(request);
  if (const std::error_code error = proactor_->start(request.operation)) {
    count_in_engine(request, -1);
    library_.complain("an engine does not take a request: ", error.value());
    finish(request, EIO, -1);
    look_again_ = true;
    return;
  }
  // Already completed by the engine: waits for delivery.
  if (request.operation.state() == baton::OperationState::result_ready) look_again_ = true;
}

void Shard::count_in_engine(const Request& request, int more) noexcept {
  in_flight_ += static_cast<std::uint32_t>(more);
  if (is_bounded(request)) bounded_ += static_cast<std::uint32_t>(more);
}

/// The caller waits for the device.
void Shard::do_here(Request& request) noexcept {
  const int native = request.descriptor->native;
  if (syncs(request.action)) {
    const int answer = request.action == Action::sync ? ::fsync(native) : ::fdatasync(native);
    return finish(request, answer < 0 ? errno : 0, answer);
  }
  const auto before = static_cast<ssize_t>(request.moved_before);
  request.data = static_cast<std::byte*>(request.data) + before;
  request.size -= request.moved_before;
  request.offset += request.moved_before;
  errno = EFBIG;
  const ssize_t moved = is_beyond_limit(request) ? -1 : move_now(request);
  if (moved >= 0 || before > 0) return finish(request, 0, before + std::max<ssize_t>(moved, 0));
  finish(request, errno, -1);
}

void Shard::fill(Request& request) noexcept {
  Operation& operation = request.operation;
  const OperationKind kind = kind_of(request);
  std::uint16_t flags = 0;
  const bool waits = (request.descriptor->flags & O_NONBLOCK) == 0;
  if (kind == OperationKind::write_stream && waits) flags |= Operation::exactly;
  if (kind == OperationKind::write_file && appends(request)) {
    flags |= Operation::append;
  }
  if (request.action == Action::data_sync) flags |= Operation::data_only;
  operation.prepare(kind, request.descriptor->handle, flags);
  operation.set_completion(completed, &request);
  if (syncs(request.action)) return;
  const baton::HandleKind file = request.descriptor->kind;
  const bool is_socket =
      file == baton::HandleKind::stream_socket || file == baton::HandleKind::datagram_socket;
  baton::Deadline end = is_socket ? end_of_wait(request) : baton::Deadline::never();
  if (const int tenths = tenths_of_wait(request); tenths > 0) {
    end = baton::Deadline::after(std::chrono::milliseconds{100} * tenths);
  }
  // Set in any case: the operation may still have the one of an earlier request.
  static_cast<void>(operation.set_deadline(end));
  if (is_vectored(request.action)) {
    static_assert(sizeof(iovec) == sizeof(baton::MutableBuffer));
    operation.set_buffers(baton::MutableBuffers{
        static_cast<const baton::MutableBuffer*>(request.data), request.size});
  } else {
    operation.set_buffer(
        baton::MutableBuffer{static_cast<std::byte*>(request.data) + request.moved_before,
                             request.size - request.moved_before});
  }
  if (kind == OperationKind::read_file || kind == OperationKind::write_file) {
    operation.set_offset(request.offset + request.moved_before);
  }
}

// -- completing -----------------------------------------------------------------------------------

void Shard::completed(Operation& operation) {
  auto& request = *static_cast<Request*>(operation.context());
  Shard& self = *request.shard;
  self.count_in_engine(request, -1);
  // A request that is being cancelled is not repeated.
  if (self.ended_by_loss(operation) && is_repeatable(operation) && request.tally == nullptr) {
    request.started = false;
    return self.queue(request);
  }
  const int error = errno_of(operation);
  const std::size_t moved = operation.bytes() + request.moved_before;
  // Some files of /proc are written without a place alone (ESPIPE).
  if (error == ESPIPE && request.action == Action::write && request.descriptor->regular) {
    const ssize_t written = ::write(request.descriptor->native, request.data, request.size);
    return self.finish(request, written < 0 ? errno : 0, written);
  }
  // As with read and write: the moved bytes are the result, and the next call meets the error.
  const bool is_silent_terminal =
      request.descriptor->kind == baton::HandleKind::pipe &&
      operation.error_value() == -static_cast<int>(baton::errc::timed_out);
  if (error == 0 || is_silent_terminal || (moved > 0 && !syncs(request.action))) {
    self.finish(request, 0, static_cast<ssize_t>(moved));
  } else {
    self.finish(request, error, -1);
  }
}

// The file is released first: a program that sees its request complete may close its descriptor,
// which is then the last one.
void Shard::finish(Request& request, int error, ssize_t result) noexcept {
  Descriptor& descriptor = *request.descriptor;
  Line* const line = line_of(request);
  files_->unlink(request);
  if (line != nullptr && line->at_work == &request) leave_line(*line);
  release_held(*descriptor.inode);
  let_go(descriptor);
  auto* const tally = static_cast<Cancelled*>(request.tally);
  if (tally != nullptr) {
    --tally->pending;
    if (request.awaited) --tally->streams;
    if (error == ECANCELED) ++tally->cancelled;
  }
  library_.publish(request, error, result);
  leave(request.fildes);
  give_request(request);
  if (tally != nullptr && tally->streams == 0) answer(*tally);
}

/// Releases the descriptor unless other requests are pending on it.
void Shard::let_go(Descriptor& descriptor) noexcept {
  if (descriptor.pending != 0 || !files_->may_close(descriptor)) return;
  if (descriptor.handle != nullptr) proactor_->close_detached(*descriptor.handle);
  files_->remove(descriptor);
}

/// A sync goes when it is the first of its file: all that were started before it are complete.
void Shard::release_held(const Inode& inode) noexcept {
  Request* const first = inode.first;
  if (first == nullptr || !std::exchange(first->held, false)) return;
  queue(*first);
  look_again_ = true;
}

void Shard::release_after_direct() noexcept {
  Request* next = nullptr;
  for (Request* sync = after_direct_.first; sync != nullptr; sync = next) {
    next = sync->row_next;
    if (!library_.direct().all_complete_below(sync->after_direct, *this)) continue;
    after_direct_.remove(*sync);
    library_.wait_for_direct(-1);
    launch(*sync);
  }
}

// -- cancelling -----------------------------------------------------------------------------------

/// Another call that is cancelling one of these requests, and has no answer yet.
Shard::Cancelled* Shard::cancel_under_way(const Cancelled& tally) noexcept {
  void* found = nullptr;
  files_->for_each(tally.fildes, tally.block, [&](const Request& request) {
    if (request.awaited && request.tally != nullptr) found = request.tally;
  });
  return static_cast<Cancelled*>(found);
}

// A request of a file is left alone, unless it waits for data: it ends soon, and the call cannot
// wait to learn how. Cancelled after the answer that it was not, it would contradict the answer.
// The system's library does not cancel what has begun, which Linux Test Project's suite tests with
// writes of datagrams (aio_cancel 5-1 and 7-1).
void Shard::ask_to_cancel(Cancelled& tally) noexcept {
  if (Cancelled* const earlier = cancel_under_way(tally); earlier != nullptr) {
    tally.next = std::exchange(earlier->after, &tally);
    return;
  }
  Request* chosen = nullptr;
  Request** end = &chosen;
  files_->for_each(tally.fildes, tally.block, [&](Request& request) {
    // Its result is published, or another cancel is working on it.
    if (request.stage.load(std::memory_order_relaxed) != Stage::pending) return;
    ++tally.found;
    if (request.tally != nullptr) {
      ++tally.pending;
      return;
    }
    request.next = nullptr;
    *end = &request;
    end = &request.next;
  });
  // Answering before the last of them was asked would be too early.
  ++tally.streams;
  Request* next = nullptr;
  for (Request* request = chosen; request != nullptr; request = next) {
    next = request->next;
    request->tally = &tally;
    ++tally.pending;
    if (!request->started) {
      unqueue(*request);
      finish(*request, ECANCELED, -1);
      continue;
    }
    const bool spared = tally.spares_datagrams && writes(request->action) &&
                        request->descriptor->kind == baton::HandleKind::datagram_socket;
    request->awaited = !spared && (!request->descriptor->regular || is_unready(*request));
    if (!request->awaited) continue;
    ++tally.streams;
    proactor_->cancel(request->operation);
  }
  if (--tally.streams == 0) answer(tally);
}

/// From here on the tally belongs to the caller.
void Shard::answer(Cancelled& tally) noexcept {
  files_->for_each(tally.fildes, tally.block, [&](Request& request) {
    if (request.tally == &tally) request.tally = nullptr;
  });
  if (!driven_by_callers()) outstanding_.fetch_sub(1, std::memory_order_acq_rel);
  Cancelled* later = tally.after;
  std::atomic<std::uint32_t>& answered = tally.answered;
  answered.store(1, std::memory_order_release);
  futex_wake(answered, 1);
  while (later != nullptr) ask_to_cancel(*std::exchange(later, later->next));
}

// -- fork -----------------------------------------------------------------------------------------

// The child has no copy of the keeper's table of descriptors. The numbers that the copied proactor
// knows are the program's here, so it is never touched again.
void Shard::after_fork_in_child() noexcept {
  // Or in the parent, which is such a child itself, and has not opened its own since.
  const bool by_callers = driven_by_callers() || forked_;
  if (!by_callers) mailbox_.close_sender();
  if (by_callers && files_ != nullptr) files_->clear();
  forked_ = by_callers && proactor_ != nullptr;
  if (!forked_) static_cast<void>(proactor_.release());
  static_cast<void>(files_.release());
  static_cast<void>(connections_.release());
  for (Row& row : run_) row = {};
  streams_ = {};
  queued_ = in_flight_ = bounded_ = 0;
  after_direct_ = {};
  collecting_ = false;
  outstanding_.store(0, std::memory_order_relaxed);
  for (auto& each : of_number_) each.store(0, std::memory_order_relaxed);
  keeper_answer_.store(0, std::memory_order_relaxed);
  drive_.store(Drive::undecided, std::memory_order_release);
}

}  // namespace uaio
