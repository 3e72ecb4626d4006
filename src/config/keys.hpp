// The settings of a configuration: one table for all its forms. A name, how its text is read into a
// Config, and how it is printed again. XML attributes, the BATON variable, to_xml and validate all
// walk these two tables, so that a setting cannot exist in one form and be missing in another.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "baton/config.hpp"

namespace baton::config {

/// Why a text is not a value of a key: "is not a number; valid: 0 to 256".
struct Problem {
  errc code = errc::bad_configuration;
  std::string what;
  ReasonCode reason_code = reason_code_of(code);
};

// The policy's keys, which have variables of their own: BATON_REQUIRE, BATON_PREFER, BATON_FORBID.
inline constexpr std::string_view policy_keys[] = {"require", "prefer", "forbid"};

/// Between the entries of a list: in the BATON variable commas separate the settings.
inline constexpr std::string_view list_separators = " \t\r\n,+";

template <class Target>
struct Key {
  std::string_view name;
  /// Reads `text` into the target, or leaves it as it is and says why not.
  std::optional<Problem> (*set)(Target& target, std::string_view text);
  /// The text that set() reads back; empty for the default.
  std::string (*get)(const Target& target);
};

/// Settings of one processor, and of the proactor as a whole.
std::span<const Key<ProcessorConfig>> processor_keys() noexcept;
std::span<const Key<Config>> proactor_keys() noexcept;

template <class Target>
const Key<Target>* find_key(std::span<const Key<Target>> keys, std::string_view name) noexcept {
  for (const Key<Target>& key : keys) {
    if (key.name == name) return &key;
  }
  return nullptr;
}

/// The names of a table's keys, as a list for a person.
template <class Target>
std::vector<std::string> names(std::span<const Key<Target>> keys) {
  std::vector<std::string> all;
  for (const Key<Target>& key : keys) all.emplace_back(key.name);
  return all;
}

// -- text -------------------------------------------------------------------------------

/// "a, b, c"
std::string joined(std::span<const std::string> words, std::string_view between = ", ");
/// In quotation marks, bounded, control bytes replaced: what was found, fit for a one-line message.
std::string quoted(std::string_view text);
std::string_view trimmed(std::string_view text) noexcept;
/// A byte order mark, with which some editors begin a file. It is no part of a setting.
[[nodiscard]] inline bool begins_with_mark(std::string_view text) noexcept {
  return text.starts_with("\xEF\xBB\xBF");
}
inline constexpr const char* mark_refused = "begins with a byte order mark; leave it out";
/// "place: name="value" why"
Failure failure(std::string_view place, std::string_view name, std::string_view value,
                const Problem& problem);

}  // namespace baton::config
