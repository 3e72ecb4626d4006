// Results: what the bridge does with ACE's result objects beyond their public interface. Their
// constructors and some members are open to ACE's own classes only, so results are made by the
// inherited factories, and the members are reached through classes derived from them.
#pragma once

#include <ace/POSIX_Asynch_IO.h>

#include "baton/endpoint.hpp"

namespace baton::ace {

/// The POSIX part of a result that a factory has made; null for null.
template <class Implementation>
ACE_POSIX_Asynch_Result* posix_part(Implementation* result) noexcept {
  return dynamic_cast<ACE_POSIX_Asynch_Result*>(result);
}

/// The handler that a result is for is deleted.
bool handler_is_gone(ACE_POSIX_Asynch_Result& result) noexcept;

/// Stores where a datagram came from.
void set_sender(ACE_POSIX_Asynch_Read_Dgram_Result& result, const Endpoint& sender) noexcept;

/// False: the address is longer than any that Baton knows.
bool copy_address(const ACE_Addr& address, Endpoint& endpoint) noexcept;

}  // namespace baton::ace
