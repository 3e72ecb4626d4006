// From an operation to a request of the kernel.
#pragma once

#include <cstdint>

#include "engines/io_uring/abi.hpp"
#include "engines/io_uring/request.hpp"

namespace baton::engines::uring {

/// Differences between kernels.
struct KernelFacts {
  bool shutdown = true;    ///< IORING_OP_SHUTDOWN, since Linux 5.11
  bool no_signal = false;  ///< RWF_NOSIGNAL, since Linux 6.18
  bool message = false;    ///< IORING_REGISTER_SEND_MSG_RING, since Linux 6.13
};

/// Does it need a Message? A datagram with an address or several pieces cannot go without; several
/// pieces of a stream or file can, piece by piece.
enum class MessageNeed : std::uint8_t { none, useful, required };
MessageNeed message_need(const Operation& operation) noexcept;

/// Fills `request` for the operation's present step; `message` may be null as message_need() tells.
void prepare(abi::Sqe& request, Operation& operation, Message* message,
             const KernelFacts& facts) noexcept;

/// The same for the first step of a datagram on a socket.
void prepare_datagram(abi::Sqe& request, Operation& operation, Message* message) noexcept;
/// The same for the whole list of a stream socket's, which one call moves.
void prepare_list(abi::Sqe& request, Operation& operation, Message& message) noexcept;

/// A wait for `events` of request.fd.
void prepare_poll(abi::Sqe& request, std::uint32_t events) noexcept;

/// Fills `message` with what several queued writes of a lane have left, from `first` on; returns
/// how many of them fit (at least one), `request` being one vectored send of all.
std::uint32_t prepare_merged(abi::Sqe& request, Operation& first, Message& message) noexcept;

/// Might the operation behind `operation` in its lane go with it in one send?
bool can_merge(const Operation& operation) noexcept;

/// The events that let the operation go on.
std::uint32_t poll_events(const Operation& operation) noexcept;

}  // namespace baton::engines::uring
