// The system calls for a reactor in a simulated machine, and further wait strategies: epoll in its
// edge and one-shot modes, and one in which only one thread may wait. So a program meets the
// behaviour of real-time signals and of foreign systems.
#pragma once

#include <cstdint>

#include "os/system.hpp"

namespace baton::tools::simulation {

/// The first call registers them; then they are chosen by name, as strategies of a program.
void add_epoll_forms();

/// The simulated machine's table, with the draws of a round:
/// `watch_fails`: of 65,536 descriptors added to an epoll set, ENOMEM.
const os::System& reactor_system(std::uint32_t watch_fails) noexcept;

}  // namespace baton::tools::simulation
