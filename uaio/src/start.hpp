// How a request begins: it is checked, and served by the calling thread or by the engine, whichever
// is better (docs/decisions/0003-uaio-routes.md).
#pragma once

#include <aio.h>

#include <cstddef>

#include "calls.hpp"
#include "direct.hpp"
#include "request.hpp"

namespace uaio {

/// Direct requests of a list, to be taken to the kernel by one call.
struct Batch {
  explicit Batch(Names of) noexcept : names(of) {}
  Request* requests[Direct::batch_max];
  std::size_t count = 0;
  const Names names;
  int error = 0;  // of the last that could not be started
  // A file open for direct writes, where file sizes have no limit: asked once for what follows.
  int writes_to = -1;
};

/// 0 or an errno; then the aiocb says so, too. `system`: what is wrong with the descriptor, the
/// place or the size is an error of the request, as with the system's library. With a batch, a
/// direct request may only be put there.
int begin(aiocb& block, Action action, const Notification& note, Group* group, Names names,
          Batch* batch = nullptr) noexcept;
/// Starts what is in the batch. 0, or the errno of the last of all its requests that could not be
/// started.
int flush(Batch& batch) noexcept;

/// The front of a list by one call, if its requests lie behind one another in a file and the page
/// cache serves them. How many are complete; the rest is to be begun one by one. `asked`: for how
/// many the kernel was asked, if it was.
std::size_t begin_run(aiocb* const list[], std::size_t count, bool tells_each,
                      std::size_t& asked) noexcept;

}  // namespace uaio
