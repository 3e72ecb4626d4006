// Addresses: as text, as a path, and as any bytes that a kernel may write into the storage. A valid
// address prints on one line and reads back the same. The C interface agrees.
#include "baton/endpoint.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>

#include "baton.h"
#include "expect.hpp"
#include "input.hpp"

namespace baton::fuzz {
namespace {

/// As C sees it; empty when it does not fit.
std::string printed_by_c(const Endpoint& endpoint) {
  baton_endpoint plain{};
  static_assert(sizeof(plain.address) == Endpoint::capacity);
  std::memcpy(plain.address, endpoint.data(), Endpoint::capacity);
  plain.length = endpoint.size();
  std::string text(baton_endpoint_print(&plain, nullptr, 0), '\0');
  expect(baton_endpoint_print(&plain, text.data(), text.size() + 1) == text.size(),
         "the length asked for is the length written");
  return text;
}

/// Two endpoints have no form that can be read: a UNIX socket without a name, and none at all.
bool has_form(std::string_view text) { return text != "unix:" && text != "unspecified"; }

void expect_read_back(const Endpoint& endpoint) {
  const std::string text = endpoint.to_string();
  expect_one_line(text, "an address is one line");
  const auto again = Endpoint::parse(text);
  expect(again.has_value() == has_form(text), "what is printed can be read", text);
  if (!again) return;
  expect(*again == endpoint && endpoint == *again, "what is read back is the same", text);
  expect(again->to_string() == text, "there is one form of an address", text);
  expect(again->family() == endpoint.family() && again->port() == endpoint.port(),
         "family and port are kept", text);
}

void expect_port_kept(Endpoint endpoint) {
  const bool has_port =
      endpoint.family() == AddressFamily::ipv4 || endpoint.family() == AddressFamily::ipv6;
  endpoint.set_port(4'711);
  expect(endpoint.port() == (has_port ? 4'711 : 0), "a port is set where there is one");
}

void check(const Result<Endpoint, Failure>& parsed) {
  if (!parsed) return expect_reason(parsed.error());
  expect(parsed->size() > 0 && parsed->size() <= Endpoint::capacity, "an address fits");
  expect(parsed->family() != AddressFamily::unspecified, "what was read is an address");
  expect(*parsed == *parsed, "an address equals itself");
  expect_read_back(*parsed);
  expect_port_kept(*parsed);
  expect(printed_by_c(*parsed) == parsed->to_string(), "C prints the same");
}

void check_text(std::string_view text) {
  const auto parsed = Endpoint::parse(text);
  check(parsed);
  if (text.find('\0') != std::string_view::npos) return;  // C's text would end there
  baton_endpoint plain{};
  const int error = baton_endpoint_parse(std::string(text).c_str(), &plain);
  expect((error == 0) == parsed.has_value(), "C reads the same", text);
  expect(error != 0 || plain.length == parsed->size(), "and as long", text);
}

/// The bytes that a system call has written, and its size: one that is larger than the storage
/// means that the address was cut.
void check_bytes(std::string_view bytes) {
  Input input(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  Endpoint endpoint;
  const auto size = static_cast<std::uint32_t>(input.word(1));
  const std::string_view address = input.rest().substr(0, Endpoint::capacity);
  std::memcpy(endpoint.data(), address.data(), address.size());
  endpoint.set_size(size);
  // The longest that Linux writes: a sun_path that is full, and a NUL behind it (unix(7)).
  constexpr std::uint32_t written_max = 111;
  const std::string text = endpoint.to_string();
  expect_one_line(text, "an address is one line");
  expect(endpoint == endpoint, "an address equals itself");
  expect_port_kept(endpoint);
  if (size <= written_max) expect_read_back(endpoint);
  static_cast<void>(printed_by_c(endpoint));
}

}  // namespace
}  // namespace baton::fuzz

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text{reinterpret_cast<const char*>(data), size};
  baton::fuzz::check_text(text);
  baton::fuzz::check(baton::Endpoint::unix_path(text));
  baton::fuzz::check_bytes(text);
  return 0;
}
