// Assertions: what only a bug can break. They stay on in release builds - an I/O library that goes
// on with a broken state corrupts somebody's data later. One fact each.
#pragma once

namespace baton {

/// Prints nothing but the place and the fact to the program's abort message and ends it.
[[noreturn]] void assertion_failed(const char* fact, const char* file, int line) noexcept;

}  // namespace baton

#define BATON_LIKELY(condition) __builtin_expect(static_cast<bool>(condition), 1)
#define BATON_UNLIKELY(condition) __builtin_expect(static_cast<bool>(condition), 0)

#define BATON_ASSERT(fact) \
  (BATON_LIKELY(fact) ? void() : ::baton::assertion_failed(#fact, __FILE__, __LINE__))

// For checks that cost more than a comparison: debug and sanitizer builds only.
#ifdef NDEBUG
#define BATON_DASSERT(fact) static_cast<void>(0)
#else
#define BATON_DASSERT(fact) BATON_ASSERT(fact)
#endif

#define BATON_UNREACHABLE(why) ::baton::assertion_failed(why, __FILE__, __LINE__)
