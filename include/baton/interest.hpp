// Readiness vocabulary, shared by wait strategies, the demultiplexer, the emulated engine and the
// Reactor.
#pragma once

#include <cstdint>

namespace baton {

/// The readiness to wait for, or that was found; a bit set. Errors and hang-ups are reported as
/// both, so that the system call that follows finds the truth. Urgent data is for the Reactor's
/// handlers; the engines never ask for it.
enum class Interest : std::uint8_t { none = 0, in = 1, out = 2, both = 3, urgent = 4, all = 7 };

constexpr Interest operator|(Interest a, Interest b) noexcept {
  return static_cast<Interest>(static_cast<std::uint8_t>(a) | static_cast<std::uint8_t>(b));
}
constexpr Interest operator&(Interest a, Interest b) noexcept {
  return static_cast<Interest>(static_cast<std::uint8_t>(a) & static_cast<std::uint8_t>(b));
}
constexpr Interest operator-(Interest a, Interest b) noexcept {
  return static_cast<Interest>(static_cast<std::uint8_t>(a) & ~static_cast<std::uint8_t>(b));
}
/// Whether the set is not empty.
constexpr bool any(Interest interest) noexcept { return interest != Interest::none; }

/// When a strategy reports a descriptor that stays ready.
enum class Trigger : std::uint8_t {
  level,    ///< at every wait
  edge,     ///< only when it becomes ready (again)
  one_shot  ///< once; modify() arms it again
};

/// Chosen by the client, returned in reports: index and generation of a descriptor table.
struct Token {
  std::uint32_t index = 0;       ///< place in its table
  std::uint32_t generation = 0;  ///< raised each time the place is used again
  friend constexpr bool operator==(Token, Token) noexcept = default;
};

/// A hint that a descriptor may be ready.
struct Report {
  Token token;                      ///< as given to add()
  Interest ready = Interest::none;  ///< for reading, for writing or both
};

}  // namespace baton
