// The two outputs of a command. Results go to standard output, and main ends with status 1 unless
// all of them could be written. Notes go to standard error, which may have no reader: a note that
// cannot be written is lost, and the work continues. No function throws because an output fails.
#pragma once

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

namespace baton::tools {

// Opens /dev/null for those of the descriptors 0 to 2 that are closed, so that no file that is
// opened later is taken for standard output. It is opened for the other direction, so that a write
// to a closed standard output still fails. Called before anything else is opened. False: it cannot
// be opened.
inline bool open_standard_descriptors() {
  for (int fd = 0; fd <= 2; ++fd) {
    if (::fcntl(fd, F_GETFD) >= 0 || errno != EBADF) continue;
    if (::open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY) != fd) return false;
  }
  return true;
}

// The errno of the first write to standard output that failed; 0: none.
inline int output_error = 0;

inline void print_text(const std::string& text) {
  if (std::fputs(text.c_str(), stdout) < 0 && output_error == 0) output_error = errno;
}
template <class... Values>
void print(fmt::format_string<Values...> format, Values&&... values) {
  print_text(fmt::format(format, std::forward<Values>(values)...));
}

// Prints a note at once, unbuffered. Takes no memory.
inline void note_text(std::string_view text) noexcept {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}
template <class... Values>
void note(fmt::format_string<Values...> format, Values&&... values) {
  note_text(fmt::format(format, std::forward<Values>(values)...));
}

// Writes the buffered output. False, with a note once, if some of it could not be written.
inline bool flush_output() {
  static bool noted = false;
  if (std::fflush(stdout) != 0 && output_error == 0) output_error = errno;
  if (output_error == 0 && std::ferror(stdout) == 0) return true;
  if (!std::exchange(noted, true)) {
    note("baton: standard output cannot be written: {}\n", std::strerror(output_error));
  }
  return false;
}

}  // namespace baton::tools
