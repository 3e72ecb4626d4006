// Ends a program that has broken a rule of the interface which no error code can tell: it has taken
// the value of a result that is an error, or awaited a task twice. One sentence says what was
// asked, what is wrong and what to do; it goes to standard error, before std::abort.
#pragma once

#include <system_error>

#include "baton/export.hpp"

namespace baton::detail {

/// Prints "baton: SENTENCE" and ends the program.
[[noreturn]] BATON_EXPORT void misused(const char* sentence) noexcept;
/// The same, and names the error.
[[noreturn]] BATON_EXPORT void misused(const char* sentence, const std::error_code& error) noexcept;

}  // namespace baton::detail
