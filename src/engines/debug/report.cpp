// The messages of debug mode.
#include "engines/debug/report.hpp"

#include <cstdint>
#include <cstdlib>

#include "base/assert.hpp"

#if __has_include(<execinfo.h>)
#include <execinfo.h>
#define BATON_HAS_BACKTRACE 1
#endif

namespace baton::engines::debug {

int callers([[maybe_unused]] void** frames, [[maybe_unused]] int frames_max) noexcept {
#ifdef BATON_HAS_BACKTRACE
  return ::backtrace(frames, frames_max);
#else
  return 0;
#endif
}

std::string frames_text([[maybe_unused]] void* const* frames, [[maybe_unused]] int count) {
  std::string text;
#ifdef BATON_HAS_BACKTRACE
  char** names = ::backtrace_symbols(frames, count);
  for (int i = 0; names != nullptr && i < count; ++i) {
    text += "    ";
    text += names[i];
    text += '\n';
  }
  std::free(static_cast<void*>(names));
#endif
  return text.empty() ? "    (no frames: this C library cannot tell)\n" : text;
}

std::string address(const void* where) {
  constexpr char digits[] = "0123456789abcdef";
  std::string text;
  auto left = reinterpret_cast<std::uintptr_t>(where);
  do {
    text.insert(text.begin(), digits[left % 16]);
    left /= 16;
  } while (left != 0);
  return "0x" + text;
}

void users_mistake(const std::string& what, const std::string& which) {
  const std::string text =
      what + "\n" + which +
      "  An operation and its buffers belong to the library from the start until its handler is\n"
      "  entered, whatever cancel or close have answered before. Keep both until then: cancel the\n"
      "  operation and wait for its completion (cancel_wait), then free them.";
  misuse_found(text.c_str());
}

void engines_mistake(const std::string& what, const std::string& which) {
  const std::string text =
      what + "\n" + which + "  This is a bug of the engine, not of the program that uses it.";
  misuse_found(text.c_str());
}

}  // namespace baton::engines::debug
