// Whether the system's AIO works.
#pragma once

#include "baton/error.hpp"
#include "baton/result.hpp"
#include "engines/posix_aio/notify.hpp"

namespace baton::engines::posix_aio {

/// Starts one small read and waits for it, as the engine does.
Result<void, Failure> probe(const os::System& system, NotifyStrategy& notify);

/// A Failure if this process was forked after its parent had used AIO.
Result<void, Failure> check_not_forked();

/// For ThreadSanitizer, before the first request of the process; nothing in other builds.
void know_all_threads();

}  // namespace baton::engines::posix_aio
