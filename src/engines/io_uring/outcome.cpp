// The meaning of a completion, errno by errno. Three errors are no failure of the operation:
//   ECANCELED   not asked for by us: the thread that submitted the request has ended, and the
//               kernel cancels its requests; or no kernel worker can be started (RLIMIT_NPROC)
//   EINTR       the same thread's end, or a signal, interrupted a kernel worker
//   EAGAIN      the descriptor is in non-blocking mode, and this kernel honours that
// A write to a terminal whose other side is gone may end with EINTR each time (seen on Linux 6.18).
// An operation that the program has not cancelled continues, with the bytes already moved.
#include "engines/io_uring/outcome.hpp"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <limits>

#include "base/assert.hpp"
#include "baton/buffer_pool.hpp"
#include "baton/handle.hpp"
#include "engines/common/closer.hpp"
#include "engines/common/epoll_takes.hpp"
#include "engines/common/file_calls.hpp"
#include "engines/common/look.hpp"
#include "engines/common/pauses.hpp"
#include "engines/common/transfer.hpp"

namespace baton::engines::uring {
namespace {

constexpr std::uint64_t offset_max = std::numeric_limits<std::int64_t>::max();

void give_block_back(Progress& state) noexcept {
  if (state.pool == nullptr || state.block == nullptr) return;
  state.pool->give(state.block);
  state.block = nullptr;
}

Verdict finish(Operation& operation, int error) noexcept {
  Progress& state = progress(operation);
  give_block_back(state);
  if (state.pool != nullptr) operation.set_taken_buffer(nullptr, 0);
  fail(operation, error);
  return Verdict::finished;
}

// A short pooled read is complete: it is never "exactly".
Verdict finish_pooled(Operation& operation, std::size_t bytes) noexcept {
  Progress& state = progress(operation);
  operation.set_bytes(bytes);
  if (bytes == 0) {  // an empty datagram, too, needs no memory
    static_cast<void>(advance(operation, 0));
    return finish(operation, operation.error_value());
  }
  operation.set_taken_buffer(state.block, state.pool->block_size());
  state.block = nullptr;
  operation.finish(0);
  return Verdict::finished;
}

// A datagram is one transfer, whole or truncated to the buffer.
Verdict finish_datagram(Operation& operation, const Message* message, std::size_t bytes) noexcept {
  if (operation.kind() == OperationKind::read_datagram && operation.endpoint() != nullptr) {
    BATON_ASSERT(message != nullptr);
    operation.endpoint()->set_size(
        std::min<std::uint32_t>(message->header.msg_namelen, Endpoint::capacity));
  }
  if (progress(operation).pool != nullptr) return finish_pooled(operation, bytes);
  operation.set_bytes(bytes);
  operation.finish(0);
  return Verdict::finished;
}

// A FIFO reads as ended before its first writer has come, too. A poll of it waits for that writer,
// and finds a true end at once.
[[gnu::noinline]] bool may_not_have_begun(Operation& operation, const os::System& system) noexcept {
  const Handle& handle = *operation.handle();
  if (operation.kind() != OperationKind::read_stream || handle.kind() != HandleKind::pipe) {
    return false;
  }
  struct stat status{};
  return !progress(operation).begun && system.fstat(handle.native(), &status) == 0 &&
         S_ISFIFO(status.st_mode);
}

Verdict moved(Operation& operation, const Message* message, std::size_t bytes,
              const os::System& system) noexcept {
  if (operation.kind() == OperationKind::read_datagram ||
      operation.kind() == OperationKind::write_datagram) {
    return finish_datagram(operation, message, bytes);
  }
  if (progress(operation).pool != nullptr) return finish_pooled(operation, bytes);
  if (bytes == 0 && may_not_have_begun(operation, system)) return Verdict::poll;
  // A direct file may end between two of its blocks; a read cannot continue there.
  const bool done =
      operation.handle()->direct() ? advance(operation, bytes) : advance_file(operation, bytes);
  if (done) return Verdict::finished;
  progress(operation).failures = 0;
  return Verdict::again;
}

bool is_file(const Operation& operation) noexcept {
  return operation.handle()->kind() == HandleKind::file;
}

// A descriptor that can be polled needs no worker, unless the operation was left to one.
bool may_need_worker(const Operation& operation, bool by_worker,
                     const os::System& system) noexcept {
  switch (operation.kind()) {
    case OperationKind::connect:
    case OperationKind::sync_file:
    case OperationKind::shutdown:
    case OperationKind::close:
      return true;
    default:
      return by_worker || !epoll_takes(system, operation.handle()->native());
  }
}

// Cancelled 16 times in a row, over a quarter of a second, and not by the program. Submitting
// threads do not end that often, so the kernel has no worker. Tries on a descriptor that can be
// polled may fail as often when other processes read the same socket.
bool lacks_worker(const Operation& operation, const Progress& state,
                  const os::System& system) noexcept {
  constexpr unsigned tries_max = 16;
  return state.failures >= tries_max && may_need_worker(operation, state.by_worker, system);
}

// The short calls are made by this thread.
Verdict do_without_worker(Operation& operation, const os::System& system) noexcept {
  const NativeHandle fd = operation.handle()->native();
  switch (operation.kind()) {
    case OperationKind::close:
      return finish(operation, close_by_call(system, fd));
    case OperationKind::shutdown:
      return finish(operation, system.shutdown(fd, SHUT_WR) < 0 ? errno : 0);
    default:
      return finish(operation, ENOMEM);
  }
}

Verdict accept_failed(Operation& operation, int error) noexcept {
  switch (error) {
    case EMFILE:
    case ENFILE:
      return Verdict::turn_away;
    case ENOBUFS:
    case ENOMEM:
      return Verdict::back_off;
    // Errors of the connection that was being accepted, or of a firewall, not of the listener
    // (accept(2), "Error handling").
    case EPERM:
    case ETIMEDOUT:
    case ECONNABORTED:
    case EPROTO:
    case ENETDOWN:
    case ENOPROTOOPT:
    case EHOSTDOWN:
    case ENONET:
    case EHOSTUNREACH:
    case ENETUNREACH:
      return Verdict::again;
    default:
      return finish(operation, error);
  }
}

Verdict connect_failed(Operation& operation, int error) noexcept {
  // Begun by a thread that has ended: the connection is made, or in progress, without it.
  const bool begun = progress(operation).begun;
  switch (error) {
    case EINPROGRESS:
      return Verdict::poll;
    case EALREADY:
      return begun ? Verdict::poll : finish(operation, error);
    case EISCONN:
      return finish(operation, begun ? 0 : error);
    default:
      return finish(operation, error);
  }
}

// A try did nothing although nothing prevented it.
Verdict tried_in_vain(Operation& operation, Verdict next, const os::System& system) noexcept {
  Progress& state = progress(operation);
  if (writes_to_closed_terminal(system, operation)) return finish(operation, EIO);
  if (reads_what_is_shut(system, operation)) return finish(operation, 0);
  if (fruitless_pause_ms(state.failures) > 0) return Verdict::back_off;
  ++state.failures;
  return next;
}

// The poll of a connected one tells of its peer's room, too.
bool goes_to_unix_peer(const Operation& operation) noexcept {
  return operation.kind() == OperationKind::write_datagram && operation.endpoint() != nullptr &&
         operation.endpoint()->family() == AddressFamily::unix_domain;
}

Verdict would_block(Operation& operation, const os::System& system) noexcept {
  // The backlog of a UNIX listener is full, or the queue of a UNIX peer: readiness does not tell
  // when there is room.
  if (operation.kind() == OperationKind::connect || goes_to_unix_peer(operation)) {
    return Verdict::back_off;
  }
  if (is_file(operation) && !progress(operation).by_worker) return Verdict::by_worker;
  if (is_file(operation)) return tried_in_vain(operation, Verdict::again, system);
  // Later tries follow a report of readiness.
  if (!progress(operation).begun) return Verdict::poll;
  return tried_in_vain(operation, Verdict::poll, system);
}

// Whether a timer reports that its clock was set. A second read would not report it again. After
// that report the timer is not ready; a ready timer was not read, because the thread that submitted
// the read has ended.
bool is_answer_of_a_timer(const Operation& operation, const os::System& system) noexcept {
  return operation.kind() == OperationKind::read_stream &&
         operation.handle()->kind() == HandleKind::pipe &&
         tells_of_a_set_clock(system, operation.handle()->native()) &&
         !ready_now(system, operation.handle()->native(), POLLIN);
}

Verdict failed(Operation& operation, int error, const os::System& system) noexcept {
  Progress& state = progress(operation);
  switch (error) {
    case ECANCELED:
    case EINTR:
      // The descriptor is closed once close(2) has begun, interrupted or not.
      if (operation.kind() == OperationKind::close && error == EINTR) return finish(operation, 0);
      if (error == ECANCELED && is_answer_of_a_timer(operation, system)) break;
      if (error == ECANCELED && lacks_worker(operation, state, system)) {
        return do_without_worker(operation, system);
      }
      return tried_in_vain(operation, Verdict::again, system);
    case EAGAIN:
      give_block_back(state);
      return would_block(operation, system);
    default:
      break;
  }
  if (operation.kind() == OperationKind::accept) return accept_failed(operation, error);
  if (operation.kind() == OperationKind::connect) return connect_failed(operation, error);
  const bool of_file =
      operation.kind() == OperationKind::read_file || operation.kind() == OperationKind::write_file;
  if (FileCalls::ended_between_blocks(system, operation, error)) {
    static_cast<void>(advance_file(operation, 0));
    return Verdict::finished;
  }
  if (!of_file || state.pool != nullptr) return finish(operation, error);
  fail_file(operation, error);
  return Verdict::finished;
}

// The kernel adds the end of the peer's stream to what every poll asks for. That is no room, and
// each further poll ends at once by it.
bool is_only_an_end(const Operation& operation, int events) noexcept {
  return events == POLLRDHUP && !operation.has(Operation::readable);
}

Verdict succeeded(Operation& operation, const Message* message, int result,
                  const os::System& system) noexcept {
  switch (operation.kind()) {
    case OperationKind::accept:
      operation.set_bytes(static_cast<std::size_t>(result));
      return finish(operation, 0);
    case OperationKind::connect:
    case OperationKind::sync_file:
    case OperationKind::shutdown:
    case OperationKind::close:
      return finish(operation, 0);
    case OperationKind::wait_ready:
      if (is_only_an_end(operation, result)) {
        return tried_in_vain(operation, Verdict::again, system);
      }
      return finish(operation, 0);
    default:
      return moved(operation, message, static_cast<std::size_t>(result), system);
  }
}

bool take_block(Operation& operation) noexcept {
  Progress& state = progress(operation);
  state.block = state.pool->take();
  if (state.block == nullptr) finish(operation, -static_cast<int>(errc::pool_exhausted));
  return state.block != nullptr;
}

// The outcome of a connection attempt after a poll.
Verdict connect_polled(Operation& operation, const os::System& system) noexcept {
  int error = 0;
  socklen_t size = sizeof(error);
  if (system.getsockopt(operation.handle()->native(), SOL_SOCKET, SO_ERROR, &error, &size) < 0) {
    error = errno;
  }
  return finish(operation, error);
}

// The descriptor is ready, or has an error that the next try reports.
Verdict polled(Operation& operation, int result, const os::System& system) noexcept {
  Progress& state = progress(operation);
  const bool ended = result == -ECANCELED || result == -EINTR;
  if (ended && operation.kind() != OperationKind::write_datagram) return Verdict::poll;
  if (ended) {
    state.failures = 0;  // as if it was never tried: see IoUringEngine::look_later()
    state.step = Step::perform;
    return Verdict::again;
  }
  if (result < 0) return finish(operation, -result);
  if (operation.kind() == OperationKind::connect) return connect_polled(operation, system);
  if (state.pool != nullptr && !take_block(operation)) return Verdict::finished;
  state.step = Step::perform;
  return Verdict::again;
}

}  // namespace

Verdict judge(Operation& operation, const Message* message, int result,
              const os::System& system) noexcept {
  Progress& state = progress(operation);
  Verdict verdict = Verdict::finished;
  if (state.step == Step::poll) {
    verdict = polled(operation, result, system);
  } else if (state.step == Step::withdrawn) {
    finish_cancelled(operation);
  } else if (result < 0) {
    verdict = failed(operation, -result, system);
  } else {
    verdict = succeeded(operation, message, result, system);
  }
  if (verdict != Verdict::finished && state.cancelled) {
    finish_cancelled(operation);
    return Verdict::finished;
  }
  if (verdict == Verdict::poll) state.step = Step::poll;
  if (verdict == Verdict::by_worker) state.by_worker = true;
  state.begun = true;
  return verdict;
}

bool is_valid(Operation& operation) noexcept {
  switch (operation.kind()) {
    case OperationKind::connect:
      if (operation.endpoint() != nullptr) return true;
      finish(operation, EDESTADDRREQ);
      return false;
    case OperationKind::read_file:
    case OperationKind::write_file:
      // The kernel takes the greatest number for the current position.
      if (operation.has(Operation::append) || operation.offset() <= offset_max) return true;
      // With nothing to move, any offset is accepted.
      if (!operation.has(Operation::pooled) && remaining_bytes(operation) == 0) return true;
      finish(operation, EINVAL);
      return false;
    default:
      return true;
  }
}

bool start_pooled(Operation& operation) noexcept {
  // A descriptor that is not open for reading fails at once, and has no readiness.
  if (is_file(operation) || !operation.handle()->readable()) return take_block(operation);
  progress(operation).step = Step::poll;
  return true;
}

void finish_cancelled(Operation& operation) noexcept { finish(operation, ECANCELED); }

void finish_lost(Operation& operation) noexcept {
  finish(operation, -static_cast<int>(errc::engine_lost));
}

bool needs_position(Operation& operation) noexcept {
  const Handle& handle = *operation.handle();
  if (!handle.direct() || !handle.is_file()) return false;
  const bool reads = operation.kind() == OperationKind::read_stream;
  const bool writes = operation.kind() == OperationKind::write_stream && !handle.appends();
  return (reads || writes) && progress(operation).step == Step::perform;
}

}  // namespace baton::engines::uring
