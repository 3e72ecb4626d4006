// A line on the terminal that is rewritten, to show progress. It is cut to the terminal's width,
// which is read each time, and disappears when the object is destroyed. Nothing is written into a
// pipe or a file.
//
// The cursor rests at the beginning of the line. When the window becomes narrower, most terminals
// wrap what is there and keep the cursor at its character. Clearing from there to the end of the
// screen then removes every part of the line.
#pragma once

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstddef>
#include <string>

#include "output.hpp"
#include "printable.hpp"

namespace baton::tools {

// The beginning of the text that fits into so many columns, in whole characters.
inline std::string first_columns(std::string_view text, std::size_t columns) {
  std::size_t end = 0;
  for (; columns > 0 && end < text.size(); --columns) {
    const std::size_t length = utf8_length(text.substr(end));
    end += length == 0 ? 1 : length;
  }
  return std::string{text.substr(0, end)};
}

class StatusLine {
 public:
  StatusLine() = default;
  ~StatusLine() { clear(); }
  StatusLine(const StatusLine&) = delete;
  StatusLine& operator=(const StatusLine&) = delete;

  bool on_terminal() const { return terminal_; }

  void show(const std::string& text) {
    if (!terminal_) return;
    // The last column stays free, because some terminals begin a new line after it.
    note("\r\033[J{}\r", first_columns(text, columns() - 1));
    shown_ = true;
  }

  void clear() {
    if (shown_) note("\r\033[J");
    shown_ = false;
  }

 private:
  static std::size_t columns() {
    constexpr std::size_t if_unknown = 80;
    winsize size{};
    const bool known = ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
    return known ? size.ws_col : if_unknown;
  }

  const bool terminal_ = ::isatty(STDERR_FILENO) == 1;
  bool shown_ = false;
};

}  // namespace baton::tools
