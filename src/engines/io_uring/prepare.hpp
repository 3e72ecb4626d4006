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

/// Whether the operation needs a Message. A datagram with an address or several pieces requires
/// one; several pieces of a stream or file can be moved one by one without it.
enum class MessageNeed : std::uint8_t { none, useful, required };
MessageNeed message_need(const Operation& operation) noexcept;

/// Fills `request` for the operation's present step; message_need() tells whether `message` may be
/// null.
void prepare(abi::Sqe& request, Operation& operation, Message* message,
             const KernelFacts& facts) noexcept;

/// The same for the first step of a datagram on a socket.
void prepare_datagram(abi::Sqe& request, Operation& operation, Message* message) noexcept;
/// The same for a pooled read of a stream socket that has its block.
void prepare_block(abi::Sqe& request, Operation& operation) noexcept;
/// The same for the whole list of a stream socket, which one call moves.
void prepare_list(abi::Sqe& request, Operation& operation, Message& message) noexcept;

/// Fills `request` with a poll for `events` of request.fd.
void prepare_poll(abi::Sqe& request, std::uint32_t events) noexcept;

/// Makes `request` one vectored send of queued writes of a lane, from `first` on, whose remaining
/// bytes it writes into `message`. Returns how many writes fit (at least one).
std::uint32_t prepare_merged(abi::Sqe& request, Operation& first, Message& message) noexcept;

/// Whether the operation may be merged with its neighbours of the lane into one send.
bool can_merge(const Operation& operation) noexcept;

/// The events after which the operation can continue.
std::uint32_t poll_events(const Operation& operation) noexcept;

}  // namespace baton::engines::uring
