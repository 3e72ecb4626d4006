// Maps a test to the rule of the contract that it checks: the rows of the kit's table.
#pragma once

#include <span>
#include <string_view>

namespace baton::conformance {

struct Rule {
  std::string_view key;   ///< as ConformanceOptions::rules names it
  std::string_view text;  ///< its text in the table
};

/// In the order of the table.
std::span<const Rule> rules();

/// The index in rules() of the row for a test; -1 if it has no rule yet, which is a fault of the
/// suite. `suite` is without the prefix of its instantiation.
int rule_of(std::string_view suite, std::string_view test);

}  // namespace baton::conformance
