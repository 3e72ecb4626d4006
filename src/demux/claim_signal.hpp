// claim_signal: reserves a signal number for a strategy. A signal that the program handles or
// ignores is left alone.
#pragma once

#include <cstdint>

#include "os/system.hpp"

namespace baton::demux {

enum class Claim : std::uint8_t { ours, taken, invalid };

/// `ours`: the action was the default one and is `handler` from now on, or it was `handler`
/// already, because strategies of one kind share a number. The handler is never removed: the signal
/// may still be pending somewhere, and its default action would end the process.
Claim claim_signal(const os::System& system, int number, void (*handler)(int)) noexcept;

}  // namespace baton::demux
