// Conditional requests (RFC 9110, section 13): whether a client's copy is still the right one.
#pragma once

#include <cstdint>
#include <string_view>

#include "date.hpp"

namespace httpd {

/// The validators of a file.
struct Validators {
  std::string_view etag;  ///< strong, with its quotes
  Seconds modified = 0;
};

/// The headers of a request that make it conditional; empty: not there.
struct Conditions {
  std::string_view if_match{};
  std::string_view if_none_match{};
  std::string_view if_modified_since{};
  std::string_view if_unmodified_since{};
  std::string_view if_range{};

  /// The common case, by one look.
  [[nodiscard]] bool none() const {
    return if_match.empty() && if_none_match.empty() && if_modified_since.empty() &&
           if_unmodified_since.empty();
  }
};

enum class Verdict : std::uint8_t { go_on, not_modified, precondition_failed };

/// The order of precedence is section 13.2.2's.
Verdict evaluate(const Conditions& conditions, const Validators& file);

/// If-Range: whether a part may be sent, or the whole must be. A date counts only if the file has
/// been at rest since, for it may change twice in a second.
bool range_applies(std::string_view if_range, const Validators& file, Seconds now);

}  // namespace httpd
