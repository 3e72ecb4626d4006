// Which operations a kind of handle knows. Asked at the start, so that every engine refuses the
// same: each system would answer in its own way, and a readiness engine would wait for ever for a
// listener to become a connection.
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
      // Streams too: SOCK_SEQPACKET is either. And a datagram socket may be connected.
      return {read_stream, write_stream, read_datagram, write_datagram,
              connect,     shutdown,     wait_ready,    close};
    case HandleKind::listener:
      return {accept, wait_ready, close};
    case HandleKind::file:
      // In a row, too: it may be the standard input.
      return {read_stream, write_stream, read_file, write_file, sync_file, wait_ready, close};
    case HandleKind::pipe:
      return {read_stream, write_stream, wait_ready, close};
  }
  return {};
}

[[nodiscard]] inline bool knows(const Handle& handle, OperationKind kind) noexcept {
  // Made once: the lists are loops.
  static constexpr auto known = [] {
    std::array<OperationKinds, static_cast<std::size_t>(HandleKind::pipe) + 1> all;
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = operations_of(static_cast<HandleKind>(i));
    return all;
  }();
  return known[static_cast<std::size_t>(handle.kind())].has(kind);
}

}  // namespace baton
