// claim_signal: whether a signal number is free for a strategy. One that the program handles or
// ignores is the program's and left alone.
#pragma once

#include <cstdint>

#include "os/system.hpp"

namespace baton::demux {

enum class Claim : std::uint8_t { ours, taken, invalid };

/// `ours` when the action was the default one, and is `handler` from now on, or when `handler`
/// stood there already: strategies of one kind share a number. It is never taken away, for the
/// signal may still be pending somewhere, and the default action would end the process.
Claim claim_signal(const os::System& system, int number, void (*handler)(int)) noexcept;

}  // namespace baton::demux
