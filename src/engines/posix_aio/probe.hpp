// Whether the system's AIO does anything.
#pragma once

#include "baton/error.hpp"
#include "baton/result.hpp"
#include "engines/posix_aio/notify.hpp"

namespace baton::engines::posix_aio {

/// One small read, started and waited for as the engine will do it.
Result<void, Failure> probe(const os::System& system, NotifyStrategy& notify);

/// Whether this process is a forked child of one that has used AIO: then a Failure.
Result<void, Failure> check_not_forked();

/// For ThreadSanitizer, before the first request of the process; nothing in other builds.
void know_all_threads();

}  // namespace baton::engines::posix_aio
