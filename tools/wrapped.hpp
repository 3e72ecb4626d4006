// Wraps text into lines of at most `columns`; a longer word has a line of its own.
#pragma once

#include <algorithm>
#include <string>

namespace baton::tools {

// Lines begin with `first` and `others`.
inline std::string wrapped(const std::string& text, std::size_t columns, const std::string& first,
                           const std::string& others) {
  std::string out;
  std::string line = first;
  bool empty = true;
  std::size_t at = 0;
  while (at < text.size()) {
    const auto end = std::min(text.find(' ', at), text.size());
    const std::string word = text.substr(at, end - at);
    at = end + 1;
    if (!empty && line.size() + 1 + word.size() > columns) {
      out += line + "\n";
      line = others;
      empty = true;
    }
    if (!empty) line += ' ';
    line += word;
    empty = false;
  }
  return out + line + "\n";
}

}  // namespace baton::tools
