// Streams that keep records: each write is a record, and a read takes at most one. Merged writes
// would become one record, and a list written in parts would become several. The system drops the
// end of a record that does not fit a read, so reading into a part of a list would lose it.
#pragma once

#include <sys/types.h>

#include <cstddef>

#include "base/assert.hpp"
#include "baton/handle.hpp"
#include "baton/operation.hpp"
#include "engines/common/pipe_calls.hpp"
#include "os/system.hpp"

namespace baton::engines {

/// Asks the system. If that fails, the answer is true, and the next call asks again.
bool find_out_records(const os::System& system, Handle& handle) noexcept;

/// For a stream. One system call per handle, at the first call.
inline bool keeps_records(const os::System& system, Handle& handle) noexcept {
  if (BATON_LIKELY(handle.records() == Handle::Records::none)) return false;
  return handle.records() == Handle::Records::kept || find_out_records(system, handle);
}

/// Whether a read_stream or write_stream may move a record. The reading end of a pipe cannot tell
/// whether it gets packets.
inline bool moves_records(const os::System& system, const Operation& operation) noexcept {
  Handle& handle = *operation.handle();
  const bool reads_pipe = handle.kind() == HandleKind::pipe && !handle.is_file() &&
                          operation.kind() == OperationKind::read_stream;
  return reads_pipe || keeps_records(system, handle);
}

/// Whether the list of a read_stream or write_stream must be moved by one call although it has more
/// than `room` buffers.
inline bool goes_whole(const os::System& system, const Operation& operation,
                       std::size_t room) noexcept {
  if (BATON_LIKELY(!operation.has(Operation::vectored)) || operation.buffers().size() <= room) {
    return false;
  }
  return moves_records(system, operation);
}

/// Moves the rest of a read_stream or write_stream, whatever the number of its buffers, by one
/// non-blocking call. Returns as recvmsg and sendmsg do: bytes, or -1 and errno. Uses 16 KiB of
/// stack.
[[gnu::noinline]] ssize_t move_whole_list(const os::System& system, PipeCalls& pipes,
                                          const Operation& operation) noexcept;

}  // namespace baton::engines
