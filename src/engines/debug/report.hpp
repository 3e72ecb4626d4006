// The report that debug mode prints before it ends the program.
#pragma once

#include <string>

namespace baton::engines::debug {

/// Writes the addresses of the callers, the nearest first, and returns their number. 0 if the C
/// library has no backtrace.
int callers(void** frames, int frames_max) noexcept;
/// One line per frame, with names if the program has them.
std::string frames_text(void* const* frames, int count);
std::string address(const void* where);

/// Prints what happened, to which operation, and what to do instead; ends the program.
[[noreturn]] void users_mistake(const std::string& what, const std::string& which);
/// The same for a bug of an engine.
[[noreturn]] void engines_mistake(const std::string& what, const std::string& which);

}  // namespace baton::engines::debug
