// The end of a program that has found a bug in itself.
#include "base/assert.hpp"

#include <cstdio>
#include <cstdlib>

namespace baton {

// The one place that writes to standard error: the process ends here, and a core without a
// reason is of no help.
void assertion_failed(const char* fact, const char* file, int line) noexcept {
  std::fprintf(stderr, "baton: %s:%d: broken: %s\n", file, line, fact);
  std::abort();
}

void misuse_found(const char* report) noexcept {
  std::fprintf(stderr, "baton: debug: %s\n", report);
  std::abort();
}

}  // namespace baton
