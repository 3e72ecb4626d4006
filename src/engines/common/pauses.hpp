// Pauses: how long an operation backs off when readiness does not tell when to try again. All
// engines use the same rule, so that an operation that cannot proceed costs no CPU on any of them.
//
//   fruitless   The descriptor is reported ready, and the call still answers EAGAIN. Another
//               process may have been faster, so a few tries follow at once. Then the pauses grow,
//               because readiness may mean something else: a UNIX datagram socket is writable
//               although the queue of the peer is full.
//   shortage    The process lacks descriptors or memory, or the backlog of a UNIX listener is full.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "baton/handle.hpp"
#include "baton/operation.hpp"
#include "os/system.hpp"

namespace baton::engines {

/// Consecutive tries without a result; more are not counted.
inline constexpr unsigned failures_max = 31;

/// The pause in milliseconds after `failures` earlier fruitless tries; 0: wait for readiness.
constexpr std::uint32_t fruitless_pause_ms(unsigned failures) noexcept {
  constexpr unsigned at_once_max = 8;
  constexpr unsigned doublings_max = 7;
  if (failures < at_once_max) return 0;
  return 1U << std::min(failures - at_once_max, doublings_max);
}

/// The pause in milliseconds after `failures` earlier failures.
constexpr std::uint32_t shortage_pause_ms(unsigned failures) noexcept {
  constexpr std::uint32_t first_ms = 10;
  constexpr std::uint32_t longest_ms = 1'000;
  constexpr unsigned doublings_max = 7;
  return std::min(first_ms << std::min(failures, doublings_max), longest_ms);
}

/// The end of a pause that begins at `now_ms`, rounded up. Long pauses end on a grid: pauses that
/// begin at about the same time end together, and one wait serves them all.
constexpr std::uint64_t end_of_pause_ms(std::uint64_t now_ms, std::uint32_t pause_ms) noexcept {
  const std::uint64_t grid_ms = std::max(std::bit_floor(pause_ms / 8), 1U);
  return (now_ms + pause_ms + grid_ms) / grid_ms * grid_ms;
}

/// The operation writes to a terminal whose other side is gone: it is reported ready for ever, and
/// every write answers EAGAIN. Called only after a fruitless try.
bool writes_to_closed_terminal(const os::System& system, const Operation& operation) noexcept;
/// The operation reads a datagram socket whose reading side is shut (shutdown(2) by the program).
/// The socket is reported ready for ever, and a UDP socket answers EAGAIN where a blocking read
/// gets 0 bytes. Called only after a fruitless try.
bool reads_what_is_shut(const os::System& system, const Operation& operation) noexcept;

}  // namespace baton::engines
