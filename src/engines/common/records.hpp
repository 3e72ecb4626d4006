// Streams that keep records: each write is one, and a read takes no more than one. Merged writes
// would become one record, and a list that goes in parts would become several. The system drops the
// end of a record that does not fit a read, so a part of a list would lose it.
#pragma once

#include <sys/types.h>

#include <cstddef>

#include "base/assert.hpp"
#include "baton/handle.hpp"
#include "baton/operation.hpp"
#include "engines/common/pipe_calls.hpp"
#include "os/system.hpp"

namespace baton::engines {

/// Asks the system; true as well where it cannot tell, and then asks again the next time.
bool find_out_records(const os::System& system, Handle& handle) noexcept;

/// For a stream. One system call for each handle, when it first matters.
inline bool keeps_records(const os::System& system, Handle& handle) noexcept {
  if (BATON_LIKELY(handle.records() == Handle::Records::none)) return false;
  return handle.records() == Handle::Records::kept || find_out_records(system, handle);
}

/// Whether what a read_stream or write_stream moves may be a record. The reading end of a pipe does
/// not know whether it gets packets.
inline bool moves_records(const os::System& system, const Operation& operation) noexcept {
  Handle& handle = *operation.handle();
  const bool reads_pipe = handle.kind() == HandleKind::pipe && !handle.is_file() &&
                          operation.kind() == OperationKind::read_stream;
  return reads_pipe || keeps_records(system, handle);
}

/// Whether the list of a read_stream or write_stream goes by one call, though it has more than
/// `room` buffers.
inline bool goes_whole(const os::System& system, const Operation& operation,
                       std::size_t room) noexcept {
  if (BATON_LIKELY(!operation.has(Operation::vectored)) || operation.buffers().size() <= room) {
    return false;
  }
  return moves_records(system, operation);
}

/// Moves what is left of a read_stream or write_stream, however many buffers that are, by one call
/// that does not block. As recvmsg or sendmsg answer: bytes, or -1 and errno. It takes 16 KiB of
/// the stack.
[[gnu::noinline]] ssize_t move_whole_list(const os::System& system, PipeCalls& pipes,
                                          const Operation& operation) noexcept;

}  // namespace baton::engines
