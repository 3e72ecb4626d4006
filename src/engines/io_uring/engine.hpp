// The factory of the io_uring engine.
#pragma once

#include <memory>

#include "baton/engine.hpp"
#include "baton/error.hpp"
#include "baton/result.hpp"

namespace baton::engines {

/// Opens a ring of the profile that the options ask for and allow (config->profile): `pinned` needs
/// options.pinned_ok and Linux 6.1, `any` Linux 5.7. A Failure tells what the system lacks or
/// denies.
Result<std::unique_ptr<Engine>, Failure> open_io_uring(const EngineOptions& options);

}  // namespace baton::engines
