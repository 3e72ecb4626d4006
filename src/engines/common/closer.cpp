// EINTR of close(2): the number is gone all the same (Linux). All other errors are the outcome, and
// the descriptor is closed: EIO, ENOSPC, EDQUOT are late news of earlier writes.
#include "engines/common/closer.hpp"

#include <errno.h>

namespace baton::engines {

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
  const bool failed = system_.close(operation.handle()->native()) != 0;
  operation.finish(failed && errno != EINTR ? errno : 0);
}

}  // namespace baton::engines
