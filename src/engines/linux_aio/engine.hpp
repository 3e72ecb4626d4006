// The factory of the linux_aio engine.
#pragma once

#include <memory>

#include "baton/engine.hpp"
#include "baton/error.hpp"
#include "baton/result.hpp"

namespace baton::engines {

/// Opens a context of the kernel's native AIO. Its slots are as many as config->started_max and
/// operations_max ask for, and few by default. Needs Linux 4.18. A Failure tells what the system
/// lacks or denies, or that fs.aio-max-nr is used up.
Result<std::unique_ptr<Engine>, Failure> open_linux_aio(const EngineOptions& options);

}  // namespace baton::engines
