// Socket addresses: IPv4, IPv6 and UNIX, in one value type. Both IP versions are always built in
// (B-03).
//
// The storage has the layout of the system's sockaddr family, opaque here because public headers
// include no system header; engines hand data() to the kernel and let it write back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "baton/error.hpp"
#include "baton/export.hpp"
#include "baton/result.hpp"

namespace baton {

/// The kind of an address.
enum class AddressFamily : std::uint8_t { unspecified, ipv4, ipv6, unix_domain };

/// The address of a socket, a value.
class BATON_EXPORT Endpoint {
 public:
  /// Room for the largest address of the three families (sockaddr_un), rounded up.
  static constexpr std::size_t capacity = 112;

  Endpoint() noexcept = default;  ///< unspecified

  static Endpoint loopback(std::uint16_t port) noexcept;     ///< 127.0.0.1
  static Endpoint loopback_v6(std::uint16_t port) noexcept;  ///< ::1
  static Endpoint any(std::uint16_t port) noexcept;          ///< 0.0.0.0
  static Endpoint any_v6(std::uint16_t port) noexcept;       ///< ::, dual stack when listened on
  /// A path of at most 108 bytes; a leading '@' means Linux's abstract namespace.
  static Result<Endpoint, Failure> unix_path(std::string_view path);
  /// "127.0.0.1:80", "[::1]:80", "[fe80::1%2]:80", "*:80" (any_v6), "unix:/path", "unix:@name";
  /// \xNN in a path is that byte. Numeric only: names are resolved elsewhere. Anything else is a
  /// Failure that shows the accepted forms.
  static Result<Endpoint, Failure> parse(std::string_view text);

  /// Unspecified for a default-constructed one.
  [[nodiscard]] AddressFamily family() const noexcept;
  [[nodiscard]] std::uint16_t port() const noexcept;  ///< 0 for UNIX addresses
  void set_port(std::uint16_t port) noexcept;         ///< only of ipv4 and ipv6
  /// The form that parse() reads back. It refuses two: "unix:" for a socket without a name, and
  /// "unspecified" for no address.
  [[nodiscard]] std::string to_string() const;

  // For engines: the system's view.
  /// The system's sockaddr.
  [[nodiscard]] void* data() noexcept { return storage_; }
  [[nodiscard]] const void* data() const noexcept { return storage_; }
  /// Bytes that are used of data(), as the system takes them. It may have written one more, the NUL
  /// behind a path of 108 bytes, and refuses an address of that size.
  [[nodiscard]] std::uint32_t size() const noexcept {
    return size_ < taken_max ? size_ : taken_max;
  }
  /// A pointer the kernel may write the length through (socklen_t is 32 bits wide).
  [[nodiscard]] std::uint32_t* size_pointer() noexcept { return &size_; }
  /// REQUIRES: at most capacity.
  void set_size(std::uint32_t bytes) noexcept { size_ = bytes; }

  BATON_EXPORT friend bool operator==(const Endpoint& a, const Endpoint& b) noexcept;

 private:
  static constexpr std::uint32_t taken_max = 110;  // sizeof(sockaddr_un)

  alignas(8) std::byte storage_[capacity]{};
  std::uint32_t size_ = 0;
};

}  // namespace baton
