// How a request starts: it is checked, and carried out by the calling thread or by the engine,
// whichever is better (docs/decisions/0003-uaio-routes.md).
#pragma once

#include <aio.h>

#include <cstddef>

#include "calls.hpp"
#include "direct.hpp"
#include "request.hpp"

namespace uaio {

/// Direct requests of a list, to be submitted to the kernel by one call.
struct Batch {
  explicit Batch(Names of) noexcept : names(of) {}
  Request* requests[Direct::batch_max];
  std::size_t count = 0;
  const Names names;
  int error = 0;  // of the last that could not be started
  // A file open for direct writes, with no limit of file sizes: checked once for the following
  // requests.
  int writes_to = -1;
};

/// 0 or an errno; then the aiocb has it, too. `system`: errors of the descriptor, the offset or the
/// size are errors of the request, as with the system's library. With a batch, a direct request may
/// only be added to the batch.
int begin(aiocb& block, Action action, const Notification& note, Group* group, Names names,
          Batch* batch = nullptr) noexcept;
/// Starts the requests in the batch. 0, or the errno of the last one that could not be started.
int flush(Batch& batch) noexcept;

/// Carries out the front of a list by one call, if its requests are adjacent in a file and in the
/// page cache. Returns how many are complete; the caller starts the others one by one. `asked`: for
/// how many the kernel was asked, if it was.
std::size_t begin_run(aiocb* const list[], std::size_t count, bool tells_each,
                      std::size_t& asked) noexcept;

}  // namespace uaio
