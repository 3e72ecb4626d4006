// AskedWord: the requests of other threads for a handle, in one word of its record. The upper half
// is the generation that the requests are for. The lower half has a bit for each request.
//
// A record in a lane's request list is not reused for another handle. So the list, its lane and the
// generation always belong together.
#pragma once

#include <cstdint>

namespace baton {

struct AskedWord {
  enum OfHandle : std::uint32_t {
    linked = 1U << 0,  ///< the record is in its lane's list
    let_go = 1U << 1,  ///< the handle is closed: the thread that unlinks the record releases it
    cancel = 1U << 2,  ///< cancel all operations started before
    cancel_marked = 1U << 3,    ///< cancel the marked operations
    close_detached = 1U << 4,   ///< see Proactor::close_detached
    handler_returned = 1U << 5  ///< as many times as Handle::returned_ says
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
