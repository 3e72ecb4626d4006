// Makes text of unknown origin printable, such as words of a command line and names of files.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <string_view>

namespace baton::tools {

// Bytes of the character of UTF-8 at the beginning of `text`; 0 if there is none: a byte that
// begins no character, one that is cut off, a longer form of a shorter one, half a pair of UTF-16.
inline std::size_t utf8_length(std::string_view text) {
  if (text.empty()) return 0;
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t length = first < 0xc2   ? 0
                             : first < 0xe0 ? 2
                             : first < 0xf0 ? 3
                             : first < 0xf5 ? 4
                                            : 0;
  if (length == 0 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0U) != 0x80U) return 0;
  }
  const unsigned second = byte(1);
  const bool wrong = (first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f) ||
                     (first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f);
  return wrong ? 0 : length;
}

// The text on one line: control characters and bytes that are no UTF-8 as \xNN. A long text is cut
// in the middle.
inline std::string printable(std::string_view text) {
  constexpr std::size_t whole_max = 2'000;
  constexpr std::size_t part = 300;
  std::string out;
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    const auto first = static_cast<unsigned char>(text.front());
    if (length == 0 || first < 0x20 || first == 0x7f) {
      out += fmt::format("\\x{:02x}", first);
      text.remove_prefix(1);
    } else {
      out += text.substr(0, length);
      text.remove_prefix(length);
    }
  }
  if (out.size() <= whole_max) return out;
  const auto character_at = [&](std::size_t i) {
    while (i < out.size() && (static_cast<unsigned char>(out[i]) & 0xc0U) == 0x80U) ++i;
    return i;
  };
  return out.substr(0, character_at(part)) + " ... " + out.substr(character_at(out.size() - part));
}

}  // namespace baton::tools
