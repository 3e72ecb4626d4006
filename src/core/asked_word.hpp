// AskedWord: what other threads ask of a handle, in one word of its record: the generation that is
// meant in the upper half, and below it a bit for each request.
//
// A record that is in a lane's list of requests is not used for another handle. So the list, its
// lane and the generation always belong together.
#pragma once

#include <cstdint>

namespace baton {

struct AskedWord {
  enum OfHandle : std::uint32_t {
    linked = 1U << 0,  ///< the record is in its lane's list
    let_go = 1U << 1,  ///< the handle is closed: the thread that unlinks the record releases it
    cancel = 1U << 2,  ///< all that was started before
    cancel_marked = 1U << 3,    ///< the operations that are marked
    close_detached = 1U << 4,   ///< as the call of that name
    handler_returned = 1U << 5  ///< as often as Handle::returned_ says
  };
  static constexpr std::uint64_t of(std::uint32_t generation) noexcept {
    return std::uint64_t{generation} << 32;
  }
  static constexpr std::uint32_t generation(std::uint64_t word) noexcept {
    return static_cast<std::uint32_t>(word >> 32);
  }
  static constexpr std::uint32_t what(std::uint64_t word) noexcept {
    return static_cast<std::uint32_t>(word);
  }
};

}  // namespace baton
