// Assertions: what only a bug can break. They stay on in release builds - an I/O library that goes
// on with a broken state corrupts the user's data later. One fact each.
#pragma once

#include <atomic>

namespace baton {

/// Prints nothing but the place and the fact to the program's abort message and ends it. The place
/// is a file's name without its folder: a library contains no path of the machine that built it.
[[noreturn]] void assertion_failed(const char* fact, const char* file, int line) noexcept;

/// The program has broken a rule of the library, and debug mode has found it: prints the report,
/// and ends it.
[[noreturn]] void misuse_found(const char* report) noexcept;

/// Told of an object that is destroyed while it must not be, before the assertion ends the program:
/// a hook that knows more about it reports that and ends the program. Null: none.
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
