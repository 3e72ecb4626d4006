// Closing descriptors.
#include "engines/common/closer.hpp"

#include <errno.h>

namespace baton::engines {

// EINTR: the descriptor is closed all the same (Linux); closing it again would hit another file.
// EIO, ENOSPC, EDQUOT: late errors of earlier writes, reported; the descriptor is closed. EBADF:
// not ours.
int close_by_call(const os::System& system, NativeHandle fd) noexcept {
  return system.close(fd) == 0 || errno == EINTR ? 0 : errno;
}

Submission Closer::submit(Operation& operation) noexcept {
  operation.engine_state<WorkerJob>() = WorkerJob{};
  if (operation.handle()->close_may_block() && workers_.submit(operation) == 0) {
    return Submission::pending;
  }
  // Without a thread, a close that may block is better than a descriptor that leaks.
  work(operation);
  return Submission::completed;
}

void Closer::work(Operation& operation) noexcept {
  operation.finish(close_by_call(system_, operation.handle()->native()));
}

}  // namespace baton::engines
