// How a request begins: it is checked, and goes to whoever serves it best - the calling thread or
// the engine (docs/decisions/0003-uaio-routes.md).
#pragma once

#include <aio.h>

#include <cstddef>

#include "request.hpp"

namespace uaio {

/// 0 or an errno; then the aiocb says so, too.
int begin(aiocb& block, Action action, const Notification& note, Group* group) noexcept;

/// The front of a list by one call, if its requests lie behind one another in a file and the page
/// cache serves them. How many are complete; the rest is to be begun one by one. `asked`: for how
/// many the kernel was asked, if it was.
std::size_t begin_run(aiocb* const list[], std::size_t count, bool tells_each,
                      std::size_t& asked) noexcept;

}  // namespace uaio
