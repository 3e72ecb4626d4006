// Shared by the command lines of several examples: numbers that are checked, an exit status that is
// 0 only if all output could be written, and the end by an exception.
#pragma once

#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>

namespace examples {

// Ends the program with status 2 if it was given more than `max` arguments.
inline void at_most_or_exit(int argc, char** argv, int max) {
  if (argc <= max + 1) return;
  std::fprintf(stderr, "'%s' is one argument too many\n", argv[max + 1]);
  std::exit(2);
}

// The number at place `at` of the command line, `otherwise` if there is no such argument. Ends the
// program with status 2 if the argument is not a number from `min` to `max`.
inline std::uint32_t number_or_exit(int argc, char** argv, int at, const char* name,
                                    std::uint32_t min, std::uint32_t max, std::uint32_t otherwise) {
  if (at >= argc) return otherwise;
  const char* const text = argv[at];
  const char* const end = text + std::strlen(text);
  std::uint32_t number = 0;
  const auto [stopped, error] = std::from_chars(text, end, number);
  if (error == std::errc{} && stopped == end && number >= min && number <= max) return number;
  std::fprintf(stderr, "%s '%s' is not a number from %u to %u\n", name, text, min, max);
  std::exit(2);
}

// PORT, the first of at most `max` arguments.
inline std::uint16_t port_or_exit(int argc, char** argv, int max = 1) {
  at_most_or_exit(argc, argv, max);
  return static_cast<std::uint16_t>(number_or_exit(argc, argv, 1, "PORT", 0, 65'535, 7007));
}

// Passes on what was printed. False, with a sentence on standard error, if it could not be written.
inline bool flush_output() {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return true;
  std::perror("standard output");
  return false;
}

// For main's handler: says why, and answers the exit status. Constructors throw when there is
// nothing to go on with, for instance when the variable BATON is malformed.
inline int failed(const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}

}  // namespace examples
