// The little JSON that the commands print.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace baton::tools {

// `text` in quotes, escaped.
inline std::string json_string(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      quoted += fmt::format("\\u{:04x}", static_cast<unsigned>(static_cast<unsigned char>(c)));
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

}  // namespace baton::tools
