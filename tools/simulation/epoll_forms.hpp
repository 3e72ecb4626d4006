// The system calls for a reactor in a simulated machine, and wait strategies that no simulated
// system call offers by itself: epoll in its other modes, edge and one-shot, and one that a single
// thread has to wait for. So the client sees the behaviour of real-time signals and of foreign
// systems.
#pragma once

#include <cstdint>

#include "os/system.hpp"

namespace baton::tools::simulation {

/// Registered by the first call; then they are chosen by name, as a program's own.
void add_epoll_forms();

/// The simulated machine's table, with the draws of a round:
/// `watch_fails`: of 65,536 descriptors added to an epoll set, ENOMEM.
const os::System& reactor_system(std::uint32_t watch_fails) noexcept;

}  // namespace baton::tools::simulation
