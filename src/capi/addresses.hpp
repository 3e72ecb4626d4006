// Addresses: between the struct of the header and the library's.
#pragma once

#include <cstring>

#include "baton.h"
#include "baton/endpoint.hpp"

namespace baton::capi {

static_assert(sizeof(baton_endpoint::address) == Endpoint::capacity);

inline bool is_address(const baton_endpoint* endpoint) noexcept {
  return endpoint != nullptr && endpoint->length != 0 && endpoint->length <= Endpoint::capacity;
}
/// The system's number of its family. REQUIRES: is_address(&from).
int family_of(const baton_endpoint& from) noexcept;
/// BATON_IPV4 and so on; 0: none of them. REQUIRES: is_address(&from).
int header_family(const baton_endpoint& from) noexcept;
/// REQUIRES: is_address(&from).
inline void copy(const baton_endpoint& from, Endpoint& to) noexcept {
  std::memcpy(to.data(), from.address, Endpoint::capacity);
  to.set_size(from.length);
}
/// An address that is longer than the room for it, which the kernel may report, becomes no address.
inline void copy(const Endpoint& from, baton_endpoint& to) noexcept {
  to = {};
  if (from.size() > Endpoint::capacity) return;
  std::memcpy(to.address, from.data(), Endpoint::capacity);
  to.length = from.size();
}

}  // namespace baton::capi
