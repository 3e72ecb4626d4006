// From an operation to a request, by kind. Three points are not obvious:
//   - A write into a pipe without readers raises SIGPIPE in the thread that runs it. That is the
//     submitter at any return from the kernel, even for a write left to a kernel worker, because
//     the worker hands back a write that finds no room. RWF_NOSIGNAL prevents it (since Linux
//     6.18); on older kernels the ring does not write pipes (IoUringEngine::move_by_call). A file
//     gets the flag as well: its number may name a pipe by now, if the program has closed it.
//   - A datagram that finds no room is answered with EAGAIN (MSG_DONTWAIT). Otherwise the kernel
//     would retry with the list of buffers that the first try has consumed: a UNIX socket then
//     sends an empty datagram and reports success (seen up to Linux 6.18).
//   - A list of buffers has the layout of the kernel's iovec and is passed as it is; only the rest
//     of a partial transfer is written into a new list.
#include "engines/io_uring/prepare.hpp"

#include <fcntl.h>
#include <poll.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <span>

#include "base/assert.hpp"
#include "baton/buffer_pool.hpp"
#include "baton/handle.hpp"
#include "engines/common/transfer.hpp"

namespace baton::engines::uring {
namespace {

constexpr std::uint64_t current_position = std::numeric_limits<std::uint64_t>::max();

std::uint64_t address_of(const void* pointer) noexcept {
  return reinterpret_cast<std::uintptr_t>(pointer);
}

bool is_socket(const Operation& operation) noexcept {
  const HandleKind kind = operation.handle()->kind();
  return kind == HandleKind::stream_socket || kind == HandleKind::datagram_socket ||
         kind == HandleKind::listener;
}

bool is_datagram(const Operation& operation) noexcept {
  return operation.kind() == OperationKind::read_datagram ||
         operation.kind() == OperationKind::write_datagram;
}

bool is_read(const Operation& operation) noexcept {
  return operation.kind() == OperationKind::read_stream ||
         operation.kind() == OperationKind::read_file ||
         operation.kind() == OperationKind::read_datagram;
}

// The memory of the next transfer, as far as `pieces` has room. Datagrams never continue.
std::size_t pieces_of(Operation& operation, std::span<iovec> pieces) noexcept {
  const Progress& state = progress(operation);
  if (state.pool != nullptr) {
    pieces[0] = {state.block, state.pool->block_size()};
    return 1;
  }
  if (is_datagram(operation) && !operation.has(Operation::vectored)) {
    pieces[0] = {operation.buffer().data, operation.buffer().size};
    return 1;
  }
  return remaining(operation, pieces);
}

std::uint64_t offset_of(const Operation& operation) noexcept {
  // An append goes to the end whatever the offset is; the current position would be moved by it.
  if (operation.has(Operation::append)) return 0;
  const bool positional = (operation.kind() == OperationKind::read_file ||
                           operation.kind() == OperationKind::write_file) &&
                          operation.handle()->kind() == HandleKind::file;
  return positional ? operation.offset() + operation.bytes() : current_position;
}

void set_piece(abi::Sqe& request, const iovec& piece) noexcept {
  request.address = address_of(piece.iov_base);
  request.length = static_cast<std::uint32_t>(std::min(piece.iov_len, limits::transfer_max));
}

// The user's own list for a vectored operation that has moved nothing; otherwise the rest, as a new
// list.
std::span<iovec> list_of(Operation& operation, Message& message) noexcept {
  // The kernel refuses a list with more bytes than one call moves.
  if (operation.has(Operation::vectored) && operation.bytes() == 0 &&
      (is_datagram(operation) || remaining_bytes(operation) <= limits::transfer_max)) {
    return engines::list_of(operation);
  }
  return {message.pieces, pieces_of(operation, message.pieces)};
}

std::uint32_t message_flags(const Operation& operation) noexcept {
  switch (operation.kind()) {
    case OperationKind::write_datagram:
      return MSG_NOSIGNAL | MSG_DONTWAIT;
    case OperationKind::write_stream:
      return MSG_NOSIGNAL;
    default:
      return 0;
  }
}

void prepare_message(abi::Sqe& request, Operation& operation, Message& message,
                     std::span<iovec> list) noexcept {
  message.header = {};
  message.header.msg_iov = list.data();
  message.header.msg_iovlen = list.size();
  if (is_datagram(operation) && operation.endpoint() != nullptr) {
    Endpoint& endpoint = *operation.endpoint();
    message.header.msg_namelen =
        is_read(operation) ? static_cast<socklen_t>(Endpoint::capacity) : endpoint.size();
    // An unspecified endpoint means the peer that the socket is connected to.
    if (message.header.msg_namelen > 0) message.header.msg_name = endpoint.data();
  }
  request.opcode = is_read(operation) ? abi::op_recvmsg : abi::op_sendmsg;
  request.address = address_of(&message.header);
  request.length = 1;
  request.operation_flags = message_flags(operation);
}

void prepare_socket(abi::Sqe& request, Operation& operation, Message* message) noexcept {
  if (message != nullptr) {
    prepare_message(request, operation, *message, list_of(operation, *message));
    return;
  }
  iovec piece{};
  pieces_of(operation, {&piece, 1});
  request.opcode = is_read(operation) ? abi::op_recv : abi::op_send;
  set_piece(request, piece);
  request.operation_flags = message_flags(operation);
  // The poll came first; if another reader was faster, the block must not stay taken.
  if (progress(operation).pool != nullptr) request.operation_flags |= MSG_DONTWAIT;
}

void prepare_descriptor(abi::Sqe& request, Operation& operation, Message* message,
                        const KernelFacts& facts) noexcept {
  const bool read = is_read(operation);
  request.offset = offset_of(operation);
  if (message != nullptr) {
    const std::span<iovec> list = list_of(operation, *message);
    request.opcode = read ? abi::op_readv : abi::op_writev;
    request.address = address_of(list.data());
    request.length = static_cast<std::uint32_t>(list.size());
  } else {
    iovec piece{};
    pieces_of(operation, {&piece, 1});
    request.opcode = read ? abi::op_read : abi::op_write;
    set_piece(request, piece);
  }
  BATON_ASSERT(read || facts.no_signal || operation.handle()->kind() != HandleKind::pipe);
  if (!read && facts.no_signal) request.operation_flags |= abi::rw_no_signal;
  if (progress(operation).by_worker) request.flags |= abi::sqe_async;
}

void prepare_accept(abi::Sqe& request, Operation& operation) noexcept {
  request.opcode = abi::op_accept;
  request.operation_flags = SOCK_CLOEXEC | SOCK_NONBLOCK;
  if (Endpoint* const peer = operation.endpoint(); peer != nullptr) {
    peer->set_size(Endpoint::capacity);
    request.address = address_of(peer->data());
    request.offset = address_of(peer->size_pointer());
  }
}

}  // namespace

std::uint32_t poll_events(const Operation& operation) noexcept {
  switch (operation.kind()) {
    case OperationKind::wait_ready:
      return (operation.has(Operation::readable) ? POLLIN : 0U) |
             (operation.has(Operation::writable) ? POLLOUT : 0U);
    case OperationKind::write_stream:
    case OperationKind::write_file:
    case OperationKind::write_datagram:
    case OperationKind::connect:
      return POLLOUT;
    default:
      return POLLIN;
  }
}

void prepare_poll(abi::Sqe& request, std::uint32_t events) noexcept {
  // The lower half holds the kernel's old 16-bit field on every machine.
  if constexpr (std::endian::native == std::endian::big) events = std::rotl(events, 16);
  request.opcode = abi::op_poll_add;
  request.operation_flags = events;
}

MessageNeed message_need(const Operation& operation) noexcept {
  if (operation.has(Operation::pooled) && !is_datagram(operation)) return MessageNeed::none;
  const bool several = operation.has(Operation::vectored) && !operation.has(Operation::pooled);
  if (is_datagram(operation)) {
    const bool needed = several || operation.endpoint() != nullptr;
    return needed ? MessageNeed::required : MessageNeed::none;
  }
  switch (operation.kind()) {
    case OperationKind::read_stream:
    case OperationKind::write_stream:
    case OperationKind::read_file:
    case OperationKind::write_file:
      return several ? MessageNeed::useful : MessageNeed::none;
    default:
      return MessageNeed::none;
  }
}

void prepare(abi::Sqe& request, Operation& operation, Message* message,
             const KernelFacts& facts) noexcept {
  request.fd = operation.handle()->native();
  if (progress(operation).step == Step::poll) {
    prepare_poll(request, poll_events(operation));
    return;
  }
  switch (operation.kind()) {
    case OperationKind::read_stream:
    case OperationKind::write_stream:
    case OperationKind::read_file:
    case OperationKind::write_file:
    case OperationKind::read_datagram:
    case OperationKind::write_datagram:
      if (is_socket(operation)) {
        prepare_socket(request, operation, message);
      } else {
        prepare_descriptor(request, operation, message, facts);
      }
      return;
    case OperationKind::accept:
      prepare_accept(request, operation);
      return;
    case OperationKind::connect:
      request.opcode = abi::op_connect;
      request.address = address_of(operation.endpoint()->data());
      request.offset = operation.endpoint()->size();
      return;
    case OperationKind::sync_file:
      request.opcode = abi::op_fsync;
      if (operation.has(Operation::data_only)) request.operation_flags = abi::fsync_data_only;
      return;
    case OperationKind::wait_ready:
      prepare_poll(request, poll_events(operation));
      return;
    case OperationKind::shutdown:
      request.opcode = abi::op_shutdown;
      request.length = SHUT_WR;
      return;
    case OperationKind::close:
      request.opcode = abi::op_close;
      // A socket comes here only if its close lingers, and would hold the thread in the entry. A
      // file's locks and its write access must have ended when its close is complete, and a worker
      // of the kernel would end them a moment later.
      if (!operation.handle()->is_file()) request.flags |= abi::sqe_async;
      return;
    case OperationKind::timer:
    case OperationKind::user:
      break;
  }
  BATON_UNREACHABLE("a kind that never comes to an engine");
}

void prepare_datagram(abi::Sqe& request, Operation& operation, Message* message) noexcept {
  request.fd = operation.handle()->native();
  prepare_socket(request, operation, message);
}

void prepare_list(abi::Sqe& request, Operation& operation, Message& message) noexcept {
  request.fd = operation.handle()->native();
  prepare_message(request, operation, message, engines::list_of(operation));
}

void prepare_block(abi::Sqe& request, Operation& operation) noexcept {
  request.fd = operation.handle()->native();
  request.opcode = abi::op_recv;
  set_piece(request, {progress(operation).block, progress(operation).pool->block_size()});
  request.operation_flags = MSG_DONTWAIT;  // as in prepare_socket()
}

bool can_merge(const Operation& operation) noexcept {
  return operation.kind() == OperationKind::write_stream &&
         operation.handle()->kind() == HandleKind::stream_socket && remaining_bytes(operation) > 0;
}

std::uint32_t prepare_merged(abi::Sqe& request, Operation& first, Message& message) noexcept {
  const std::span<iovec> room{message.pieces};
  std::size_t pieces = 0;
  std::uint32_t covered = 0;
  for (Operation* next = &first; next != nullptr && pieces < room.size();
       next = OperationList::next(*next)) {
    if (covered > 0 && !can_merge(*next)) break;
    const std::size_t count = remaining(*next, room.subspan(pieces));
    std::size_t bytes = 0;
    for (const iovec& piece : room.subspan(pieces, count)) bytes += piece.iov_len;
    pieces += count;
    ++covered;
    // Only a part of it fits, so later writes must wait.
    if (bytes != remaining_bytes(*next)) break;
  }
  message.header = {};
  message.header.msg_iov = message.pieces;
  message.header.msg_iovlen = pieces;
  request.fd = first.handle()->native();
  request.opcode = abi::op_sendmsg;
  request.address = address_of(&message.header);
  request.length = 1;
  request.operation_flags = MSG_NOSIGNAL;
  return covered;
}

}  // namespace baton::engines::uring
