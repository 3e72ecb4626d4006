// Addresses from text and back.
#include "capi/addresses.hpp"

#include <sys/socket.h>

#include "capi/proactor.hpp"
#include "capi/structs.hpp"

using baton::Endpoint;
using baton::capi::Inside;

int baton::capi::family_of(const baton_endpoint& from) noexcept {
  sockaddr address{};
  std::memcpy(&address, from.address, sizeof(address));
  return address.sa_family;
}

int baton::capi::header_family(const baton_endpoint& from) noexcept {
  switch (family_of(from)) {
    case AF_INET:
      return BATON_IPV4;
    case AF_INET6:
      return BATON_IPV6;
    case AF_UNIX:
      return BATON_UNIX;
    default:
      return 0;
  }
}

int baton_endpoint_parse(const char* text, baton_endpoint* out) {
  const Inside inside;
  if (text == nullptr || out == nullptr) return EINVAL;
  try {
    const auto endpoint = Endpoint::parse(text);
    if (!endpoint) return EINVAL;
    baton::capi::copy(*endpoint, *out);
    return 0;
  } catch (...) {
    return baton::capi::code_of_exception();
  }
}

std::size_t baton_endpoint_print(const baton_endpoint* endpoint, char* text, std::size_t size) {
  const Inside inside;
  Endpoint address;
  if (baton::capi::is_address(endpoint)) baton::capi::copy(*endpoint, address);
  return baton::capi::copy_out_of([&address] { return address.to_string(); }, text, size);
}
