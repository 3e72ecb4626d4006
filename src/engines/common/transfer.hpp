// Rules for every engine that moves bytes: which buffers are left, and whether the operation is
// complete after a number of bytes. They keep read_exactly, write_all and read_until single
// operations on every engine, with short transfers or without.
#pragma once

#include <sys/uio.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/assert.hpp"
#include "baton/limits.hpp"
#include "baton/operation.hpp"

namespace baton::engines {

/// Pieces that one system call is given at most; a longer list takes several calls.
inline constexpr std::size_t pieces_max = 64;

/// Writes the part of the operation's buffers that is not moved yet (after op.bytes()) into
/// `pieces`, and returns their number. At most limits::transfer_max bytes. For single and vectored
/// operations.
std::size_t remaining(const Operation& operation, std::span<iovec> pieces) noexcept;

/// The list of a vectored operation that has moved nothing yet, in the kernel's layout.
std::span<iovec> list_of(const Operation& operation) noexcept;

/// The memory of a datagram, which is moved whole or not at all: the user's own list, whatever its
/// length, or the one buffer, described in `single`.
inline std::span<iovec> datagram_pieces(const Operation& operation, iovec& single) noexcept {
  if (BATON_UNLIKELY(operation.has(Operation::vectored))) return list_of(operation);
  single = {operation.buffer().data, std::min(operation.buffer().size, limits::transfer_max)};
  return {&single, 1};
}

/// Whether two datagrams that are sent have one peer; without an address it is the connected one.
[[nodiscard]] bool go_to_the_same(const Operation& a, const Operation& b) noexcept;

/// A datagram that waits for a UNIX peer is tried again after so long at most: the system does not
/// always report the peer's room.
inline constexpr std::uint32_t peer_look_ms = 500;

/// Bytes not yet moved.
std::size_t remaining_bytes(const Operation& operation) noexcept;

/// The rest begins behind the start of a buffer.
[[nodiscard]] bool goes_on_within_a_buffer(const Operation& operation) noexcept;

/// Records `moved` more bytes, of a read or a write, and decides. True: the operation is complete,
/// its outcome recorded with finish(). False: go on with the rest (exactly, until). `moved` == 0 of
/// a stream or file read into a non-empty buffer is the end: success for a plain read,
/// errc::end_of_stream for exactly and until; ECONNRESET if the connection is lost.
bool advance(Operation& operation, std::size_t moved) noexcept;

/// The same for file operations that are done piece by piece. A plain read_file or write_file, too,
/// goes on until all is moved or the file ends: a part that happened to be cached does not complete
/// it.
bool advance_file(Operation& operation, std::size_t moved) noexcept;

/// Ends a file operation with an error. After a part (ENOSPC, EDQUOT, EFBIG, EIO) that is a short
/// transfer, as POSIX has it, and the next one meets the error. An operation that wants all bytes
/// gets the error together with them.
void fail_file(Operation& operation, int error) noexcept;

/// Ends an operation with an error of the system. The system reports the loss of a connection once,
/// perhaps to a write, and an end of stream to every read after that. Such a read fails as well.
void fail(Operation& operation, int error) noexcept;

/// Operations of this kind run one after the other, in the order of submit (contract.md, rule 3).
bool is_ordered(const Operation& operation) noexcept;

/// Whether the rest of a positional operation has offsets that the system accepts: -1 would mean
/// the current position, and larger offsets would be negative.
bool offset_fits(const Operation& operation) noexcept;

/// True if the operation is complete before any system call: zero bytes to move, or a read_until
/// whose delimiter is already in the filled part. Records the outcome.
bool complete_without_transfer(Operation& operation) noexcept;

}  // namespace baton::engines
