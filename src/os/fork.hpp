// Tells a child process that it is one: a number that fork raises in the child.
#pragma once

#include <cstdint>

namespace baton::os {

/// Any thread; costs a load. The first call registers the fork handler.
std::uint32_t fork_generation() noexcept;

}  // namespace baton::os
