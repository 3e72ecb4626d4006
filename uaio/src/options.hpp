// Options: the contents of the variable UAIO, "engine=io_uring,threads=2,trace=1". It has no effect
// on programs that run with other rights than their caller's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace uaio {

enum class Mode : std::uint8_t {
  automatic,  ///< no thread where the callers can drive; else one helper
  helper,     ///< always the helper
  single      ///< the thesis's: no thread; a timer's signal drives it in the program's threads
};

struct Options {
  std::string engine = "auto";  ///< auto, io_uring or emulated
  std::string wait;             ///< emulated: select, poll, epoll, ...
  Mode mode = Mode::automatic;
  std::uint32_t threads = 1;  ///< keepers, among which files are distributed
  /// Requests of files in an engine at once; others wait by priority. If it is set, it also bounds
  /// requests of streams, and direct transfers go to the engine, too, so that the kernel does not
  /// order them.
  std::uint32_t depth = 1'024;
  bool depth_is_given = false;
  std::size_t inline_read = 1U << 20;   ///< the largest cached read that the caller carries out
  std::size_t inline_write = 1U << 20;  ///< and buffered writes
  std::uint32_t interval_us = 10'000;   ///< single: the timer's period
  int signal = 0;                       ///< single: the timer's signal; 0: SIGRTMAX - 2
  bool trace = false;
  bool direct = true;  ///< transfers past the page cache by the kernel's native AIO
  bool statistics = false;
  bool explain = false;
  std::string mistake;  ///< the first part that was not understood, cut for a message
};

[[nodiscard]] Options parse_options(std::string_view text);
[[nodiscard]] Options options_of_environment();

}  // namespace uaio
