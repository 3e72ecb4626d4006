// The rest of an operation's buffers, and its completion.
#include "engines/common/transfer.hpp"

#include <errno.h>
#include <string.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string_view>

#include "base/assert.hpp"
#include "baton/buffer.hpp"
#include "baton/endpoint.hpp"
#include "baton/handle.hpp"
#include "baton/limits.hpp"

namespace baton::engines {
namespace {

// The operation's memory as a list; a lone buffer is put into `single`.
std::span<const MutableBuffer> whole(const Operation& operation, MutableBuffer& single) noexcept {
  if (operation.has(Operation::vectored)) return operation.buffers();
  single = operation.buffer();
  return {&single, 1};
}

bool writes(OperationKind kind) noexcept {
  return kind == OperationKind::write_stream || kind == OperationKind::write_file ||
         kind == OperationKind::write_datagram;
}

bool is_datagram(OperationKind kind) noexcept {
  return kind == OperationKind::read_datagram || kind == OperationKind::write_datagram;
}

bool complete(Operation& operation, int error) noexcept {
  operation.finish(error);
  return true;
}

// Whether the delimiter is in the first bytes() of the buffer. The first `known` bytes have been
// searched before; a delimiter may begin in them and end behind them.
bool delimiter_found(const Operation& operation, std::size_t known) noexcept {
  BATON_ASSERT(!operation.has(Operation::vectored));
  const std::string_view delimiter = *operation.delimiter();
  if (delimiter.empty()) return true;  // its address may be null, which memmem must not get
  const std::size_t overlap = delimiter.size() - 1;
  const char* const data = static_cast<const char*>(operation.buffer().data);
  const std::size_t from = known > overlap ? known - overlap : 0;
  return ::memmem(data + from, operation.bytes() - from, delimiter.data(), delimiter.size()) !=
         nullptr;
}

// The end of a stream or file. A write that moves nothing and reports no error (some devices and
// file systems) is an error, because write_all would repeat it for ever.
bool at_end(Operation& operation) noexcept {
  if (writes(operation.kind())) return complete(operation, EIO);
  if (operation.handle()->connection_lost()) return complete(operation, ECONNRESET);
  const bool whole_wanted = operation.has(Operation::exactly) || operation.has(Operation::until);
  if (!whole_wanted) return complete(operation, 0);
  operation.finish(errc::end_of_stream);
  return true;
}

// In place of a timeout, the system reports what a router or a firewall has answered last.
bool is_loss(int error) noexcept {
  switch (error) {
    case ECONNRESET:
    case ECONNABORTED:
    case ETIMEDOUT:
    case ECONNREFUSED:
    case EHOSTUNREACH:
    case ENETUNREACH:
    case EHOSTDOWN:
    case ENONET:
    case ENOPROTOOPT:
    case EACCES:
    case EPROTO:
      return true;
    default:  // EPIPE: the peer has ended the stream. ENOBUFS, ENOMEM: the connection is kept.
      return false;
  }
}

bool until_done(Operation& operation, std::size_t known) noexcept {
  if (delimiter_found(operation, known)) return complete(operation, 0);
  if (operation.bytes() < operation.buffer().size) return false;
  operation.finish(errc::delimiter_not_found);
  return true;
}

}  // namespace

std::size_t remaining(const Operation& operation, std::span<iovec> pieces) noexcept {
  MutableBuffer single;
  std::size_t skip = operation.bytes();
  std::size_t room = limits::transfer_max;
  std::size_t count = 0;
  for (const MutableBuffer& buffer : whole(operation, single)) {
    if (count == pieces.size() || room == 0) break;
    if (buffer.size <= skip) {  // done, or empty
      skip -= buffer.size;
      continue;
    }
    const std::size_t size = std::min(buffer.size - skip, room);
    pieces[count].iov_base = static_cast<std::byte*>(buffer.data) + skip;
    pieces[count].iov_len = size;
    ++count;
    skip = 0;
    room -= size;
  }
  return count;
}

std::span<iovec> list_of(const Operation& operation) noexcept {
  BATON_ASSERT(operation.has(Operation::vectored));
  const std::span<const MutableBuffer> list = operation.buffers();
  // MutableBuffer and iovec have the same layout (operation.cpp), and the kernel only reads the
  // list.
  return {reinterpret_cast<iovec*>(const_cast<MutableBuffer*>(list.data())), list.size()};
}

bool go_to_the_same(const Operation& a, const Operation& b) noexcept {
  if (a.endpoint() == nullptr || b.endpoint() == nullptr) return a.endpoint() == b.endpoint();
  return *a.endpoint() == *b.endpoint();
}

std::size_t remaining_bytes(const Operation& operation) noexcept {
  if (!operation.has(Operation::vectored)) {
    BATON_ASSERT(operation.bytes() <= operation.buffer().size);
    return operation.buffer().size - operation.bytes();
  }
  std::size_t total = 0;
  for (const MutableBuffer& buffer : operation.buffers()) {
    // Sizes whose sum overflows cannot be existing memory; saturating keeps the subtraction below
    // correct for any input.
    if (__builtin_add_overflow(total, buffer.size, &total)) total = static_cast<std::size_t>(-1);
  }
  BATON_ASSERT(operation.bytes() <= total);
  return total - operation.bytes();
}

bool goes_on_within_a_buffer(const Operation& operation) noexcept {
  MutableBuffer single;
  std::size_t left = operation.bytes();
  for (const MutableBuffer& buffer : whole(operation, single)) {
    if (left < buffer.size) return left > 0;
    left -= buffer.size;
  }
  return false;
}

bool advance(Operation& operation, std::size_t moved) noexcept {
  const std::size_t known = operation.bytes();
  operation.add_bytes(moved);
  if (is_datagram(operation.kind())) return complete(operation, 0);
  if (moved == 0) return at_end(operation);
  if (operation.has(Operation::until)) return until_done(operation, known);
  if (!operation.has(Operation::exactly)) return complete(operation, 0);
  if (remaining_bytes(operation) > 0) return false;
  return complete(operation, 0);
}

bool advance_file(Operation& operation, std::size_t moved) noexcept {
  const bool may_be_short = !operation.has(Operation::exactly) && !operation.has(Operation::until);
  const bool of_file =
      operation.kind() == OperationKind::read_file || operation.kind() == OperationKind::write_file;
  if (!may_be_short || !of_file || moved == 0) return advance(operation, moved);
  operation.add_bytes(moved);
  if (remaining_bytes(operation) > 0) return false;
  return complete(operation, 0);
}

void fail_file(Operation& operation, int error) noexcept {
  const bool part_is_enough = operation.bytes() > 0 && !operation.has(Operation::exactly) &&
                              !operation.has(Operation::until);
  operation.finish(part_is_enough ? 0 : error);
}

void fail(Operation& operation, int error) noexcept {
  operation.finish(error);
  const bool of_stream = operation.kind() == OperationKind::read_stream ||
                         operation.kind() == OperationKind::write_stream;
  // The owner of a borrowed descriptor may use the number again, for another connection.
  if (is_loss(error) && of_stream && operation.handle()->owned())
    operation.handle()->set_connection_lost();
}

bool is_ordered(const Operation& operation) noexcept {
  return operation.kind() == OperationKind::read_stream ||
         operation.kind() == OperationKind::write_stream || operation.has(Operation::append);
}

bool offset_fits(const Operation& operation) noexcept {
  constexpr std::uint64_t offset_max = std::numeric_limits<off_t>::max();
  return is_ordered(operation) ||
         (operation.offset() <= offset_max && operation.bytes() <= offset_max - operation.offset());
}

bool complete_without_transfer(Operation& operation) noexcept {
  // An empty datagram is still sent, and a pooled read has no buffer yet.
  if (is_datagram(operation.kind()) || operation.has(Operation::pooled)) return false;
  if (operation.has(Operation::until)) {
    BATON_ASSERT(operation.bytes() <= operation.buffer().size);
    return until_done(operation, 0);
  }
  if (remaining_bytes(operation) > 0) return false;
  return complete(operation, 0);
}

}  // namespace baton::engines
