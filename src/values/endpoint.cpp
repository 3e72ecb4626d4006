// Endpoint: socket addresses, from text and to text. Numeric forms only: resolving names may have
// to wait, and nothing here does.
#include "baton/endpoint.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>

namespace baton {
namespace {

static_assert(sizeof(sockaddr_in) <= Endpoint::capacity);
static_assert(sizeof(sockaddr_in6) <= Endpoint::capacity);
static_assert(sizeof(sockaddr_un) == 110, "what the system takes: Endpoint::size");
// One more: Linux returns a length of sizeof + 1 when a path fills all of sun_path.
static_assert(sizeof(sockaddr_un) + 1 <= Endpoint::capacity);
static_assert(alignof(sockaddr_in) <= 8 && alignof(sockaddr_in6) <= 8 && alignof(sockaddr_un) <= 8);
static_assert(sizeof(socklen_t) == sizeof(std::uint32_t), "size_pointer() is a socklen_t*");

constexpr std::size_t path_at = offsetof(sockaddr_un, sun_path);
// A path may fill all of it, without a NUL; an abstract name always may.
constexpr std::size_t path_max = sizeof(sockaddr_un::sun_path);
constexpr const char* forms =
    "accepted forms: 127.0.0.1:80, [::1]:80, [fe80::1%2]:80, *:80, unix:/path, unix:@name";

/// The system's structure out of the opaque storage, and back. Copies: a pointer of another type to
/// it would break the aliasing rules.
template <class Address>
Address load(const Endpoint& endpoint) noexcept {
  Address address{};
  std::memcpy(&address, endpoint.data(), sizeof(address));
  return address;
}
template <class Address>
Endpoint store(const Address& address) noexcept {
  Endpoint endpoint;
  std::memcpy(endpoint.data(), &address, sizeof(address));
  endpoint.set_size(sizeof(address));
  return endpoint;
}

sockaddr_in ipv4(std::uint32_t address, std::uint16_t port) noexcept {
  sockaddr_in out{};
  out.sin_family = AF_INET;
  out.sin_port = htons(port);
  out.sin_addr.s_addr = htonl(address);
  return out;
}
sockaddr_in6 ipv6(const in6_addr& address, std::uint16_t port, std::uint32_t zone) noexcept {
  sockaddr_in6 out{};
  out.sin6_family = AF_INET6;
  out.sin6_port = htons(port);
  out.sin6_addr = address;
  out.sin6_scope_id = zone;
  return out;
}

/// A `path` with a leading NUL is an abstract name, whose size marks its end. Any other is the path
/// of a file, and its final NUL counts. Endpoint::size leaves out a NUL for which there is no room.
Endpoint unix_address(std::string_view path) noexcept {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  Endpoint endpoint = store(address);
  const bool terminated = path.front() != '\0';
  endpoint.set_size(static_cast<std::uint32_t>(path_at + path.size() + (terminated ? 1 : 0)));
  return endpoint;
}

/// The bytes of sun_path that make up the name: an abstract name with its leading NUL, a path
/// without its final NUL.
std::string_view unix_name(const Endpoint& endpoint) noexcept {
  const auto* path = static_cast<const char*>(endpoint.data()) + path_at;
  const std::size_t size = std::min<std::size_t>(endpoint.size(), Endpoint::capacity);
  const std::size_t room = std::min(size - std::min(size, path_at), path_max);
  return {path, room > 0 && path[0] == '\0' ? room : ::strnlen(path, room)};
}

/// Bytes that would spoil a line of a log, and the backslash, as \xNN. A peer may give its socket
/// any name, newlines included.
std::string escaped(std::string_view text) {
  constexpr const char* digits = "0123456789abcdef";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte != 0x7f && c != '\\') {
      out += c;
    } else {
      out += {'\\', 'x', digits[byte >> 4], digits[byte & 15]};
    }
  }
  return out;
}

/// The inverse; false when a backslash begins no \xNN.
bool unescape(std::string_view text, std::string& out) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\') {
      out += text[i];
      continue;
    }
    unsigned byte = 0;
    if (text.size() - i < 4 || text[i + 1] != 'x') return false;
    const char* end = text.data() + i + 4;
    const auto [stop, error] = std::from_chars(text.data() + i + 2, end, byte, 16);
    if (error != std::errc{} || stop != end) return false;
    out += static_cast<char>(byte);
    i += 3;
  }
  return true;
}

using Parsed = Result<Endpoint, Failure>;

unexpected<Failure> malformed(std::string_view text, const std::string& why) {
  constexpr std::size_t shown_max = 120;
  const bool long_text = text.size() > shown_max;
  return unexpected{Failure{std::make_error_code(std::errc::invalid_argument),
                            "\"" + escaped(text.substr(0, shown_max)) + (long_text ? "..." : "") +
                                "\" is not an endpoint: " + why + "; " + forms}};
}

template <class Number>
bool read_number(std::string_view text, Number& out) noexcept {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, out);
  return error == std::errc{} && stop == end;
}

/// inet_pton wants a terminated string; anything longer than `Size` is no numeric address.
template <std::size_t Size>
bool read_address(int family, std::string_view text, void* out) noexcept {
  std::array<char, Size> terminated{};
  if (text.size() >= Size || text.find('\0') != std::string_view::npos) return false;
  std::copy(text.begin(), text.end(), terminated.begin());
  return ::inet_pton(family, terminated.data(), out) == 1;
}

Parsed parse_unix(std::string_view text, std::string_view name) {
  // Checked before the escapes are resolved: "\x40" begins a file's name with '@'.
  const bool abstract = name.starts_with('@');
  std::string path;
  if (!unescape(name, path)) return malformed(text, "a backslash is written \\x5c");
  if (abstract) path.front() = '\0';
  if (path.empty()) return malformed(text, "the path is empty");
  if (path.size() > path_max) {
    return malformed(text, "a path has at most " + std::to_string(path_max) + " bytes");
  }
  if (!abstract && path.find('\0') != std::string::npos) {
    return malformed(text, "a path holds no NUL byte");
  }
  return unix_address(path);
}

Parsed parse_ipv6(std::string_view text, std::string_view host, std::uint16_t port) {
  std::uint32_t zone = 0;
  const std::size_t percent = host.find('%');
  if (percent != std::string_view::npos) {
    if (!read_number(host.substr(percent + 1), zone)) {
      return malformed(text, "the zone is the number of an interface");
    }
    host = host.substr(0, percent);
  }
  in6_addr address{};
  if (!read_address<INET6_ADDRSTRLEN>(AF_INET6, host, &address)) {
    return malformed(text, "the text in brackets is not an IPv6 address");
  }
  return store(ipv6(address, port, zone));
}

}  // namespace

Endpoint Endpoint::loopback(std::uint16_t port) noexcept {
  return store(ipv4(INADDR_LOOPBACK, port));
}
Endpoint Endpoint::loopback_v6(std::uint16_t port) noexcept {
  return store(ipv6(in6addr_loopback, port, 0));
}
Endpoint Endpoint::any(std::uint16_t port) noexcept { return store(ipv4(INADDR_ANY, port)); }
Endpoint Endpoint::any_v6(std::uint16_t port) noexcept { return store(ipv6(in6addr_any, port, 0)); }

Result<Endpoint, Failure> Endpoint::unix_path(std::string_view path) {
  const bool abstract = path.starts_with('@');
  const std::string shown = "unix:" + std::string(path);
  if (path.empty()) return malformed(shown, "the path is empty");
  if (path.size() > path_max) {
    return malformed(shown, "a path has at most " + std::to_string(path_max) + " bytes");
  }
  if (!abstract && path.find('\0') != std::string_view::npos) {
    return malformed(shown, "a path holds no NUL byte");
  }
  std::string name(path);
  if (abstract) name.front() = '\0';
  return unix_address(name);
}

Result<Endpoint, Failure> Endpoint::parse(std::string_view text) {
  constexpr std::string_view unix_prefix = "unix:";
  if (text.starts_with(unix_prefix)) return parse_unix(text, text.substr(unix_prefix.size()));

  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return malformed(text, "there is no port");
  std::string_view host = text.substr(0, colon);
  std::uint16_t port = 0;
  if (!read_number(text.substr(colon + 1), port)) {
    return malformed(text, "a port is a number from 0 to 65535");
  }
  if (host == "*") return any_v6(port);
  if (host.starts_with('[') && host.ends_with(']')) {
    return parse_ipv6(text, host.substr(1, host.size() - 2), port);
  }
  sockaddr_in address = ipv4(INADDR_ANY, port);
  if (!read_address<INET_ADDRSTRLEN>(AF_INET, host, &address.sin_addr)) {
    return malformed(text, host.find(':') != std::string_view::npos
                               ? "an IPv6 address stands in brackets"
                               : "the text before the port is not an IPv4 address");
  }
  return store(address);
}

AddressFamily Endpoint::family() const noexcept {
  if (size_ < sizeof(sa_family_t)) return AddressFamily::unspecified;
  switch (load<sockaddr>(*this).sa_family) {
    case AF_INET:
      return AddressFamily::ipv4;
    case AF_INET6:
      return AddressFamily::ipv6;
    case AF_UNIX:
      return AddressFamily::unix_domain;
    default:
      return AddressFamily::unspecified;
  }
}

std::uint16_t Endpoint::port() const noexcept {
  switch (family()) {
    case AddressFamily::ipv4:
      return ntohs(load<sockaddr_in>(*this).sin_port);
    case AddressFamily::ipv6:
      return ntohs(load<sockaddr_in6>(*this).sin6_port);
    default:
      return 0;
  }
}

void Endpoint::set_port(std::uint16_t port) noexcept {
  static_assert(offsetof(sockaddr_in, sin_port) == offsetof(sockaddr_in6, sin6_port));
  const AddressFamily now = family();
  if (now != AddressFamily::ipv4 && now != AddressFamily::ipv6) return;
  const in_port_t network_order = htons(port);
  std::memcpy(storage_ + offsetof(sockaddr_in, sin_port), &network_order, sizeof(network_order));
}

std::string Endpoint::to_string() const {
  std::array<char, INET6_ADDRSTRLEN> host{};
  switch (family()) {
    case AddressFamily::ipv4: {
      const auto address = load<sockaddr_in>(*this);
      ::inet_ntop(AF_INET, &address.sin_addr, host.data(), host.size());
      return std::string(host.data()) + ":" + std::to_string(port());
    }
    case AddressFamily::ipv6: {
      const auto address = load<sockaddr_in6>(*this);
      ::inet_ntop(AF_INET6, &address.sin6_addr, host.data(), host.size());
      const std::string zone =
          address.sin6_scope_id != 0 ? "%" + std::to_string(address.sin6_scope_id) : "";
      return "[" + std::string(host.data()) + zone + "]:" + std::to_string(port());
    }
    case AddressFamily::unix_domain: {
      const std::string_view name = unix_name(*this);
      if (name.starts_with('\0')) return "unix:@" + escaped(name.substr(1));
      if (name.starts_with('@')) return "unix:\\x40" + escaped(name.substr(1));
      return "unix:" + escaped(name);
    }
    case AddressFamily::unspecified:
      break;
  }
  return "unspecified";
}

bool operator==(const Endpoint& a, const Endpoint& b) noexcept {
  const AddressFamily family = a.family();
  if (family != b.family()) return false;
  switch (family) {
    case AddressFamily::ipv4:
      return a.port() == b.port() &&
             load<sockaddr_in>(a).sin_addr.s_addr == load<sockaddr_in>(b).sin_addr.s_addr;
    case AddressFamily::ipv6: {
      // Without the flow label, which is no part of the address.
      const auto one = load<sockaddr_in6>(a);
      const auto other = load<sockaddr_in6>(b);
      return one.sin6_port == other.sin6_port && one.sin6_scope_id == other.sin6_scope_id &&
             std::memcmp(&one.sin6_addr, &other.sin6_addr, sizeof(in6_addr)) == 0;
    }
    case AddressFamily::unix_domain:
      return unix_name(a) == unix_name(b);
    case AddressFamily::unspecified:
      break;
  }
  return true;
}

}  // namespace baton
