// Datagrams with addresses, in one message block or a chain of them.
#pragma once

#include "operations.hpp"

namespace baton::ace {

class ReadDatagram final : public Opening<ACE_POSIX_Asynch_Read_Dgram> {
 public:
  using Opening::Opening;
  /// Receives one datagram into the chain; the result has its sender. 0, or -1 and errno: ENOSPC
  /// without room, EOPNOTSUPP for message flags such as MSG_PEEK, which Baton's datagrams do not
  /// have.
  ssize_t recv(ACE_Message_Block* block, std::size_t& bytes, int flags, int protocol_family,
               const void* act, int priority, int signal_number) override;
};

class WriteDatagram final : public Opening<ACE_POSIX_Asynch_Write_Dgram> {
 public:
  using Opening::Opening;
  /// Sends the chain as one datagram to `address`, or to the connected peer if that is no address.
  /// 0, or -1 and errno: EINVAL without data, EOPNOTSUPP for message flags.
  ssize_t send(ACE_Message_Block* block, std::size_t& bytes, int flags, const ACE_Addr& address,
               const void* act, int priority, int signal_number) override;
};

}  // namespace baton::ace
