// Assertions, for facts that only a bug can break, one fact each. They stay on in release builds:
// an I/O library that goes on with a broken state corrupts the user's data later.
#pragma once

#include <atomic>

namespace baton {

/// Prints the place and the fact, and ends the program. The place is a file's name without its
/// folder, because a library contains no path of the machine that built it.
[[noreturn]] void assertion_failed(const char* fact, const char* file, int line) noexcept;

/// Prints the report of debug mode about a broken rule of the library, and ends the program.
[[noreturn]] void misuse_found(const char* report) noexcept;

/// A hook for an object that is destroyed too early. It is called before the assertion ends the
/// program, and may end it itself with a better report. Null: none.
using DestroyedEarly = void (*)(const void* object) noexcept;
inline std::atomic<DestroyedEarly> destroyed_early{nullptr};

}  // namespace baton

#define BATON_LIKELY(condition) __builtin_expect(static_cast<bool>(condition), 1)
#define BATON_UNLIKELY(condition) __builtin_expect(static_cast<bool>(condition), 0)

#define BATON_ASSERT(fact) \
  (BATON_LIKELY(fact) ? void() : ::baton::assertion_failed(#fact, __FILE_NAME__, __LINE__))

// For checks that cost more than a comparison: debug and sanitizer builds only.
#ifdef NDEBUG
#define BATON_DASSERT(fact) static_cast<void>(0)
#else
#define BATON_DASSERT(fact) BATON_ASSERT(fact)
#endif

#define BATON_UNREACHABLE(why) ::baton::assertion_failed(why, __FILE_NAME__, __LINE__)
