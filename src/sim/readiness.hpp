// The calls that wait for readiness: poll, select, epoll.
#pragma once

#include "os/system.hpp"

namespace baton::sim {

void add_readiness(os::System& table) noexcept;

}  // namespace baton::sim
