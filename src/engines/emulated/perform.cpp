// The non-blocking system call of each kind, and what each errno means.
//
// Three groups of descriptors
//
//   sockets            MSG_DONTWAIT always, whatever their owner and mode.
//   pipes, terminals   Owned ones are non-blocking. A borrowed one may block, and keeps its mode:
//                      engines/common/pipe_calls.cpp.
//   listeners          accept has no MSG_DONTWAIT: a borrowed blocking one is polled first, too.
//
// EINTR is `partial` everywhere: the caller continues as after a short transfer.
#include "engines/emulated/perform.hpp"

#include <errno.h>
#include <limits.h>

#include <algorithm>
#include <array>
#include <span>

#include "base/assert.hpp"
#include "base/uninitialized.hpp"
#include "baton/endpoint.hpp"
#include "baton/limits.hpp"
#include "engines/common/look.hpp"
#include "engines/common/pipe_calls.hpp"
#include "engines/common/records.hpp"
#include "engines/common/transfer.hpp"
#include "engines/emulated/record.hpp"
#include "os/listens.hpp"

namespace baton::engines::emulated {
namespace {

constexpr int socket_flags = MSG_DONTWAIT | MSG_NOSIGNAL;

using Pieces = std::array<iovec, pieces_max>;

Outcome done(Operation& operation, int error) noexcept {
  operation.finish(error);
  return Outcome::done;
}

// The meaning of a failed transfer. EAGAIN (and EWOULDBLOCK, the same on Linux): not ready. EINTR:
// retried. Everything else is the operation's outcome, reported once: ECONNRESET, EPIPE, ENOTCONN,
// ETIMEDOUT, EHOSTUNREACH, ECONNREFUSED (of a datagram), EMSGSIZE, ENOBUFS and ENOMEM (the
// connection is kept), EBADF, EFAULT, EINVAL, EIO, ENOSPC.
Outcome failed(Operation& operation) noexcept {
  const int error = errno;
  if (error == EAGAIN || error == EWOULDBLOCK) return Outcome::again;
  if (error == EINTR) return Outcome::partial;
  fail(operation, error);
  return Outcome::done;
}

Outcome moved_datagram(Operation& operation, ssize_t moved) noexcept {
  operation.set_bytes(static_cast<std::size_t>(moved));
  return done(operation, 0);
}

msghdr message_of(std::span<iovec> pieces) noexcept {
  msghdr message{};
  message.msg_iov = pieces.data();
  message.msg_iovlen = pieces.size();
  return message;
}

/// A write to a pipe that other writers do not interrupt (pipe(7)): it is made by one call, and no
/// call with others moves a part of it.
bool is_atomic(const Operation& operation) noexcept {
  return !is_socket(*operation.handle()) && remaining_bytes(operation) <= PIPE_BUF;
}

}  // namespace

Performer::Performer(const os::System& system, bool concurrent, HandleRoom room) noexcept
    : system_(system), files_(system), pipes_(system), spare_(system, concurrent), room_(room) {}

Outcome Performer::perform(Operation& operation) noexcept {
  switch (operation.kind()) {
    case OperationKind::read_stream:
      return read_stream(operation);
    case OperationKind::write_stream:
      return write_stream(operation);
    case OperationKind::read_datagram:
      return read_datagram(operation);
    case OperationKind::write_datagram:
      return write_datagram(operation);
    case OperationKind::accept:
      return accept(operation);
    case OperationKind::connect:
      return connect(operation);
    case OperationKind::wait_ready:
      return wait_ready(operation);
    case OperationKind::shutdown:
      // ENOTCONN, ENOTSOCK, EBADF: the outcome.
      return done(operation,
                  system_.shutdown(operation.handle()->native(), SHUT_WR) == 0 ? 0 : errno);
    case OperationKind::read_file:
    case OperationKind::write_file:
    case OperationKind::sync_file:
    case OperationKind::close:
    case OperationKind::timer:
    case OperationKind::user:
      break;
  }
  BATON_UNREACHABLE("a kind that is not performed by readiness");
}

// -- streams --------------------------------------------------------------------------------------

bool Performer::needs_no_transfer(Operation& operation) noexcept {
  return engines::needs_no_transfer(operation, progress(operation).attempt);
}

bool Performer::take_block(Operation& operation) noexcept {
  return engines::take_block(operation, progress(operation).attempt);
}

void Performer::give_block_back(Operation& operation) noexcept {
  engines::give_block_back(operation, progress(operation).attempt);
}

void Performer::settle_pooled(Operation& operation) noexcept {
  engines::settle_pooled(operation, progress(operation).attempt);
}

ssize_t Performer::receive(const Operation& operation) noexcept {
  if (goes_whole(system_, operation, pieces_max)) {
    return move_whole_list(system_, pipes_, operation);
  }
  const Handle& handle = *operation.handle();
  BATON_UNINITIALIZED Pieces pieces;
  const std::size_t count = remaining(operation, pieces);
  if (!is_socket(handle)) return pipes_.read(handle, pieces.data(), count);
  if (count == 1) {
    return system_.recv(handle.native(), pieces[0].iov_base, pieces[0].iov_len, MSG_DONTWAIT);
  }
  msghdr message = message_of({pieces.data(), count});
  return system_.recvmsg(handle.native(), &message, MSG_DONTWAIT);
}

Outcome Performer::read_stream(Operation& operation) noexcept {
  if (needs_no_transfer(operation)) return Outcome::done;
  if (!take_block(operation)) return Outcome::done;
  const ssize_t moved = receive(operation);
  if (moved >= 0) {
    return advance(operation, static_cast<std::size_t>(moved)) ? Outcome::done : Outcome::partial;
  }
  const Outcome outcome = failed(operation);
  if (outcome != Outcome::done) give_block_back(operation);
  return outcome;
}

ssize_t Performer::send(const Handle& handle, iovec* pieces, std::size_t count) noexcept {
  if (!is_socket(handle)) return pipes_.write(handle, pieces, count);
  if (count == 1) {
    return system_.send(handle.native(), pieces[0].iov_base, pieces[0].iov_len, socket_flags);
  }
  const msghdr message = message_of({pieces, count});
  return system_.sendmsg(handle.native(), &message, socket_flags);
}

ssize_t Performer::send(const Operation& operation) noexcept {
  const bool is_long =
      operation.has(Operation::vectored) && operation.buffers().size() > pieces_max;
  if (is_long && (moves_records(system_, operation) || is_atomic(operation))) {
    return move_whole_list(system_, pipes_, operation);
  }
  BATON_UNINITIALIZED Pieces pieces;
  const std::size_t count = remaining(operation, pieces);
  return send(*operation.handle(), pieces.data(), count);
}

ssize_t Performer::send_list(const Operation& operation) noexcept {
  const msghdr message = message_of(list_of(operation));
  return system_.sendmsg(operation.handle()->native(), &message, socket_flags);
}

Outcome Performer::write_stream(Operation& operation) noexcept {
  if (needs_no_transfer(operation)) return Outcome::done;
  const ssize_t moved = send(operation);
  if (moved < 0) return failed(operation);
  return advance(operation, static_cast<std::size_t>(moved)) ? Outcome::done : Outcome::partial;
}

Outcome Performer::perform_merged(OperationList& queue, OperationQueue& completed) noexcept {
  BATON_UNINITIALIZED Pieces pieces;
  std::size_t count = 0;
  std::size_t tried = 0;
  Handle& handle = *queue.front()->handle();
  const bool alone = keeps_records(system_, handle);
  for (Operation* each = alone ? nullptr : queue.front(); each != nullptr && count < pieces.size();
       each = OperationList::next(*each)) {
    // An operation with nothing to move is left to perform(), when it is the first.
    if (each->kind() != OperationKind::write_stream || remaining_bytes(*each) == 0) break;
    const std::size_t more = remaining(*each, std::span{pieces}.subspan(count));
    std::size_t bytes = 0;
    for (std::size_t i = count; i < count + more; ++i) bytes += pieces[i].iov_len;
    // The system may cut a call of more than PIPE_BUF bytes anywhere, and so may the room here.
    const bool whole = bytes == remaining_bytes(*each) && tried + bytes <= PIPE_BUF;
    if (!is_socket(handle) && !whole) break;
    count += more;
    tried += bytes;
    // The system takes no more at once, and later bytes must not go before the rest of these.
    if (tried >= limits::transfer_max / 2) break;
  }
  if (count <= 1) {
    const Outcome outcome = perform(*queue.front());
    if (outcome == Outcome::done) completed.push_back(queue.pop_front());
    return outcome;
  }
  const ssize_t sent = send(handle, pieces.data(), count);
  if (sent < 0) {
    const Outcome outcome = failed(*queue.front());  // the others get it themselves
    if (outcome == Outcome::done) completed.push_back(queue.pop_front());
    return outcome;
  }
  return share_out(queue, static_cast<std::size_t>(sent), tried, completed);
}

// Gives each operation its part, in order. An operation that got nothing stays as it was.
Outcome Performer::share_out(OperationList& queue, std::size_t sent, std::size_t tried,
                             OperationQueue& completed) noexcept {
  BATON_ASSERT(sent <= tried);
  for (std::size_t left = sent; left > 0;) {
    Operation& front = *queue.front();
    const std::size_t part = std::min(left, remaining_bytes(front));
    left -= part;
    progress(front).attempt.begun = true;
    if (!advance(front, part)) return Outcome::partial;
    completed.push_back(queue.pop_front());
  }
  return sent == tried ? Outcome::done : Outcome::partial;
}

// -- datagrams ------------------------------------------------------------------------------------

// A datagram usually has one piece and goes without a message header, which the system would copy
// in and out: some 100 ns per call.
ssize_t Performer::receive_from(Operation& operation) noexcept {
  const NativeHandle socket = operation.handle()->native();
  Endpoint* const peer = operation.endpoint();
  void* const address = peer != nullptr ? peer->data() : nullptr;
  socklen_t size = peer != nullptr ? Endpoint::capacity : 0;
  iovec single;
  const std::span<iovec> pieces = datagram_pieces(operation, single);
  ssize_t moved = 0;
  if (pieces.size() == 1) {
    moved = system_.recvfrom(socket, pieces[0].iov_base, pieces[0].iov_len, MSG_DONTWAIT,
                             static_cast<sockaddr*>(address), &size);
  } else {
    msghdr message = message_of(pieces);
    message.msg_name = address;
    message.msg_namelen = size;
    moved = system_.recvmsg(socket, &message, MSG_DONTWAIT);
    size = message.msg_namelen;
  }
  if (moved >= 0 && peer != nullptr) {
    peer->set_size(std::min<std::uint32_t>(size, Endpoint::capacity));
  }
  return moved;
}

ssize_t Performer::send_to(Operation& operation) noexcept {
  const NativeHandle socket = operation.handle()->native();
  Endpoint* const peer = operation.endpoint();
  const bool named = peer != nullptr && peer->size() > 0;
  void* const address = named ? peer->data() : nullptr;
  const socklen_t size = named ? peer->size() : 0;
  iovec single;
  const std::span<iovec> pieces = datagram_pieces(operation, single);
  if (pieces.size() == 1) {
    return system_.sendto(socket, pieces[0].iov_base, pieces[0].iov_len, socket_flags,
                          static_cast<const sockaddr*>(address), size);
  }
  msghdr message = message_of(pieces);
  message.msg_name = address;
  message.msg_namelen = size;
  return system_.sendmsg(socket, &message, socket_flags);
}

Outcome Performer::read_datagram(Operation& operation) noexcept {
  if (!take_block(operation)) return Outcome::done;
  const ssize_t moved = receive_from(operation);
  if (moved < 0) {
    const Outcome outcome = failed(operation);
    if (outcome != Outcome::done) give_block_back(operation);
    return outcome;
  }
  return moved_datagram(operation, moved);
}

Outcome Performer::write_datagram(Operation& operation) noexcept {
  const ssize_t moved = send_to(operation);
  if (moved < 0) return failed(operation);
  return moved_datagram(operation, moved);
}

// -- connections ----------------------------------------------------------------------------------

// The outcome depends on the side at fault:
//   the listener   EBADF, EINVAL, ENOTSOCK, EOPNOTSUPP, EFAULT: broken, the accept ends
//   this process   EMFILE, ENFILE, ENOBUFS, ENOMEM, a full table of handles: it backs off
//   the peer       ECONNABORTED, EPROTO, EPERM (a firewall), and network errors that Linux passes
//                  on from the new socket (ENETDOWN, ENOPROTOOPT, EHOSTDOWN, ENONET, EHOSTUNREACH,
//                  ENETUNREACH): the next connection is tried, a few times at once
Outcome Performer::accept(Operation& operation) noexcept {
  constexpr int tries_max = 8;
  const Handle& handle = *operation.handle();
  if (room_.none()) {
    operation.finish(errc::no_free_handles);
    return Outcome::back_off;
  }
  // A socket that does not listen answers at once.
  if (!handle.nonblocking() && !ready_now(system_, handle.native(), POLLIN) &&
      os::listens(system_, handle.native())) {
    return Outcome::again;
  }
  for (int i = 0; i < tries_max; ++i) {
    if (take_connection(operation)) return done(operation, 0);
    operation.finish(errno);  // the reason of the back-off, until it is over
    switch (operation.error_value()) {
      case EAGAIN:
        return Outcome::again;
      case EINTR:
        return Outcome::partial;
      case EBADF:
      case EINVAL:
      case ENOTSOCK:
      case EOPNOTSUPP:
      case EFAULT:
        return Outcome::done;
      case EMFILE:
      case ENFILE:
        spare_.turn_one_away(handle);
        return Outcome::back_off;
      case ENOBUFS:
      case ENOMEM:
        return Outcome::back_off;
      default:
        // A blocking listener must be polled before it is called again.
        if (!handle.nonblocking()) return Outcome::partial;
    }
  }
  return Outcome::back_off;
}

// The start of an accept may be any thread's, and a blocking listener could hold it.
bool Performer::accept_at_once(Operation& operation) noexcept {
  if (!operation.handle()->nonblocking() || room_.none() || !take_connection(operation)) {
    return false;
  }
  operation.finish(0);
  return true;
}

bool Performer::take_connection(Operation& operation) noexcept {
  Endpoint* const peer = operation.endpoint();
  socklen_t size = Endpoint::capacity;
  const int accepted =
      system_.accept4(operation.handle()->native(),
                      peer != nullptr ? static_cast<sockaddr*>(peer->data()) : nullptr,
                      peer != nullptr ? &size : nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (accepted < 0) return false;
  if (peer != nullptr) peer->set_size(std::min<std::uint32_t>(size, Endpoint::capacity));
  operation.set_bytes(static_cast<std::size_t>(accepted));
  return true;
}

// The first call starts the connection; a report then tells that SO_ERROR holds the outcome. The
// report may be left over from something earlier, so success counts only if there is a peer.
//   EINPROGRESS, EINTR   in progress; for a UNIX socket EINTR is as EAGAIN
//   EAGAIN               UNIX: the listener's backlog is full. No readiness tells when it has room,
//                        so it is tried again after a pause, as a blocking connect would wait
//   ECONNABORTED         Linux: of an earlier connect of the socket, whose error was read. The call
//                        has only ended that one, so it is made once more
//   everything else      the outcome (ECONNREFUSED, ENETUNREACH, EADDRNOTAVAIL, EISCONN, EALREADY,
//                        ENOENT, EACCES, EPERM, EAFNOSUPPORT, EINVAL, EBADF, ENOTSOCK)
Outcome Performer::connect(Operation& operation) noexcept {
  const NativeHandle fd = operation.handle()->native();
  bool& begun = progress(operation).attempt.begun;
  if (!begun) {
    Endpoint* const peer = operation.endpoint();
    if (peer == nullptr) return done(operation, EDESTADDRREQ);
    const auto call = [&] {
      return system_.connect(fd, static_cast<const sockaddr*>(peer->data()), peer->size());
    };
    if (call() == 0 || (errno == ECONNABORTED && call() == 0)) return done(operation, 0);
    const bool is_unix = peer->family() == AddressFamily::unix_domain;
    if (errno == EAGAIN || (errno == EINTR && is_unix)) return Outcome::back_off;
    if (errno != EINPROGRESS && errno != EINTR) return done(operation, errno);
    begun = true;
    return Outcome::again;
  }
  // Without a peer the connection is still in progress, or it has failed and another call, such as
  // a read started meanwhile, has consumed the error. While it is in progress, the socket is not
  // ready. If it is ready, ask again: it may have been connected since the first question, and
  // reset since the second.
  for (int asked = 1;; ++asked) {
    int error = 0;
    socklen_t size = sizeof(error);
    if (system_.getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
    if (error != 0) return done(operation, error);
    sockaddr_storage peer{};
    size = sizeof(peer);
    if (system_.getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) == 0) {
      return done(operation, 0);
    }
    if (errno != ENOTCONN) return done(operation, errno);
    if (asked == 3) return done(operation, ECONNABORTED);  // as a blocking connect answers then
    if (!ready_now(system_, fd, POLLOUT)) return Outcome::again;
  }
}

// A report is a hint, perhaps about the descriptor's predecessor. Only a poll answers this one.
Outcome Performer::wait_ready(Operation& operation) noexcept {
  short events = 0;
  if (operation.has(Operation::readable)) events |= POLLIN;
  if (operation.has(Operation::writable)) events |= POLLOUT;
  const timespec at_once{};
  const int found = look(system_, operation.handle()->native(), events, &at_once);
  if (found < 0) return failed(operation);
  if (found == 0) return Outcome::again;
  return done(operation, (found & POLLNVAL) != 0 ? EBADF : 0);
}

}  // namespace baton::engines::emulated
