// The parts of JSON that the commands print.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "printable.hpp"

namespace baton::tools {

// `text` in quotes, escaped. A byte that is no UTF-8 (a file's name may contain any) becomes the
// replacement character, because JSON allows only UTF-8.
inline std::string json_string(std::string_view text) {
  std::string quoted = "\"";
  while (!text.empty()) {
    const char c = text.front();
    const std::size_t length = utf8_length(text);
    if (length == 0) {
      quoted += "\\ufffd";
    } else if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      quoted += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      quoted += text.substr(0, length);
    }
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return quoted + '"';
}

// An array of values that are JSON already, on one line.
inline std::string json_object(
    std::initializer_list<std::pair<std::string_view, std::string>> members) {
  std::string text = "{";
  for (const auto& [name, value] : members) {
    text += fmt::format("{}{}: {}", text.size() > 1 ? ", " : "", json_string(name), value);
  }
  return text + "}";
}
inline std::string json_array(const std::vector<std::string>& values) {
  std::string text = "[";
  for (const auto& value : values) text += (text.size() > 1 ? ", " : "") + value;
  return text + "]";
}
// The same with a line for each value.
inline std::string json_lines(const std::vector<std::string>& values) {
  std::string text = "[";
  for (const auto& value : values) text += (text.size() > 1 ? ",\n  " : "\n  ") + value;
  return text + (values.empty() ? "]" : "\n ]");
}
inline std::string json_strings(const std::vector<std::string>& texts) {
  std::vector<std::string> quoted;
  for (const auto& text : texts) quoted.push_back(json_string(text));
  return json_array(quoted);
}

}  // namespace baton::tools
