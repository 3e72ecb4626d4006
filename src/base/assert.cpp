// Ends a program in which an assertion has found a bug.
#include "base/assert.hpp"

#include <cstdio>
#include <cstdlib>

namespace baton {

// Standard error gets a line only here: the process ends, and a core dump alone has no reason.
void assertion_failed(const char* fact, const char* file, int line) noexcept {
  std::fprintf(stderr, "baton: %s:%d: broken: %s\n", file, line, fact);
  std::abort();
}

void misuse_found(const char* report) noexcept {
  std::fprintf(stderr, "baton: debug: %s\n", report);
  std::abort();
}

}  // namespace baton
