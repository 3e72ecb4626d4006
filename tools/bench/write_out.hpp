// Writes the output of a benchmark program, which fails if a result cannot be written.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace baton::bench {

/// Ends the program with status 1, and a reason on standard error, if some of the output cannot be
/// written.
inline void write_out() {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return;
  std::perror("standard output cannot be written");
  std::_Exit(1);
}

}  // namespace baton::bench
