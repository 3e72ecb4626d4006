// Log: a sink that the program gives. Standard error gets only the report of a fatal misuse.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "baton/export.hpp"

namespace baton {

/// How much a line matters.
enum class LogLevel : std::uint8_t { debug, info, warning, error };
BATON_EXPORT const char* to_string(LogLevel level) noexcept;

class BATON_EXPORT Log {
 public:
  Log() = default;
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;
  virtual ~Log() = default;

  /// Any thread, possibly with locks of the library held: must not call back into Baton, should be
  /// quick. `time` is ISO 8601 in UTC with microseconds, "2026-01-31T12:00:00.000000Z" (B-02).
  virtual void write(LogLevel level, std::string_view time, std::string_view message) noexcept = 0;
};

/// The ISO 8601 form of a point of the system clock, given in microseconds since 1970.
BATON_EXPORT std::string iso_8601(std::int64_t unix_microseconds);

}  // namespace baton
