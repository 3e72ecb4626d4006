// The Range header (RFC 9110, section 14).
#pragma once

#include <cstdint>
#include <string_view>

namespace httpd {

/// The part of `size` bytes that a Range header asks for.
struct Range {
  enum class Kind : std::uint8_t {
    whole,         ///< none, malformed, of another unit, or several: the whole file is the answer
    part,          ///< bytes [offset, offset + length)
    unsatisfiable  ///< nothing of it is there
  };
  Kind kind = Kind::whole;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
};

/// Several ranges are answered by the whole file, as a server may (section 14.2): a client that
/// wants many small overlapping parts in one answer is more often an attacker than a reader.
Range parse_range(std::string_view header, std::uint64_t size);

}  // namespace httpd
