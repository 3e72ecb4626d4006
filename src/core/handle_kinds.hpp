// Which operations each kind of handle accepts. It is checked at the start so that every engine
// refuses the same ones. The systems' own answers differ, and a readiness engine would wait for
// ever on a read from a listener.
#pragma once

#include <array>
#include <cstddef>

#include "baton/handle.hpp"
#include "baton/operation.hpp"

namespace baton {

[[nodiscard]] constexpr OperationKinds operations_of(HandleKind kind) noexcept {
  using enum OperationKind;
  switch (kind) {
    case HandleKind::stream_socket:
    case HandleKind::datagram_socket:
      // Stream operations as well: SOCK_SEQPACKET counts as either, and a datagram socket may be
      // connected.
      return {read_stream, write_stream, read_datagram, write_datagram,
              connect,     shutdown,     wait_ready,    close};
    case HandleKind::listener:
      return {accept, wait_ready, close};
    case HandleKind::file:
      // Stream operations as well: the handle may be the standard input.
      return {read_stream, write_stream, read_file, write_file, sync_file, wait_ready, close};
    case HandleKind::pipe:
      return {read_stream, write_stream, wait_ready, close};
  }
  return {};
}

[[nodiscard]] inline bool knows(const Handle& handle, OperationKind kind) noexcept {
  // Computed once, because operations_of() builds its list in a loop.
  static constexpr auto known = [] {
    std::array<OperationKinds, static_cast<std::size_t>(HandleKind::pipe) + 1> all;
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = operations_of(static_cast<HandleKind>(i));
    return all;
  }();
  return known[static_cast<std::size_t>(handle.kind())].has(kind);
}

}  // namespace baton
