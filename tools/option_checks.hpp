// Checks of an option's value. The message of a check has the value and the valid ones; --help and
// the message about a missing value (command_line.cpp) use the same words. The checks read the text
// itself, because a conversion by the C library accepts "nan", "1e3" and "-1".
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace baton::tools {

namespace checks {

template <class Number>
std::optional<Number> number_in(std::string_view text) {
  Number number{};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc{} || stop != end) return std::nullopt;
  return number;
}

// "64k", "1 MiB", "2g": a unit is a power of 1024.
inline std::optional<std::uint64_t> size_in(std::string_view text) {
  constexpr std::string_view units = "kmgtpe";
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  const auto number = number_in<std::uint64_t>(text.substr(0, digits));
  if (!number) return std::nullopt;
  std::string unit;
  for (const char c : text.substr(digits)) {
    if (c != ' ' || !unit.empty())
      unit += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  if (unit.empty() || unit == "b") return number;
  const std::size_t power = units.find(unit.front());
  const std::string_view rest = std::string_view{unit}.substr(1);
  if (power == std::string_view::npos || !(rest.empty() || rest == "b" || rest == "ib")) {
    return std::nullopt;
  }
  const auto shift = static_cast<unsigned>(10 * (power + 1));
  if (*number > (UINT64_MAX >> shift)) return std::nullopt;
  return *number << shift;
}

}  // namespace checks

// A whole number.
inline CLI::Validator whole_number(std::uint64_t min, std::uint64_t max) {
  const std::string allowed = fmt::format("whole number from {} to {}", min, max);
  return {[=](std::string& text) {
            const auto number = checks::number_in<std::uint64_t>(text);
            if (number && *number >= min && *number <= max) return std::string{};
            return fmt::format("'{}' is not a {}", text, allowed);
          },
          allowed, "whole number"};
}

// A number of seconds, with a fraction if need be.
inline CLI::Validator seconds(double min, double max) {
  const std::string allowed = fmt::format("seconds from {} to {:.0f}", min, max);
  return {[=](std::string& text) {
            const auto number = checks::number_in<double>(text);
            if (number && *number >= min && *number <= max) return std::string{};  // nan: neither
            return fmt::format("'{}' is not a number of {}", text, allowed);
          },
          allowed, "seconds"};
}

// A number of bytes, with a unit if need be; the option gets the plain number.
inline CLI::Validator size(std::uint64_t min, std::uint64_t max) {
  const std::string allowed = fmt::format("bytes from {} to {} (64k, 1m, ...)", min, max);
  return {[=](std::string& text) {
            const auto number = checks::size_in(text);
            if (!number || *number < min || *number > max) {
              return fmt::format("'{}' is not a number of {}", text, allowed);
            }
            text = std::to_string(*number);
            return std::string{};
          },
          allowed, "size"};
}

// One of these words.
inline CLI::Validator one_of(const std::vector<std::string>& words) {
  const std::string allowed = fmt::format("one of {}", fmt::join(words, ", "));
  return {[=](std::string& text) {
            if (std::find(words.begin(), words.end(), text) != words.end()) return std::string{};
            return fmt::format("'{}' is not {}", text, allowed);
          },
          allowed, "word"};
}

// The valid words of an option, from the name of its type; empty if it is no one_of().
inline std::vector<std::string> words_of(std::string_view type) {
  constexpr std::string_view before = "one of ";
  constexpr std::string_view between = ", ";
  std::vector<std::string> words;
  const std::size_t found = type.find(before);
  if (found == std::string_view::npos) return words;
  std::string_view rest = type.substr(found + before.size());
  for (;;) {
    const std::size_t end = std::min(rest.find(between), rest.size());
    words.emplace_back(rest.substr(0, end));
    if (end == rest.size()) return words;
    rest.remove_prefix(end + between.size());
  }
}

// Any text that is not empty.
inline CLI::Validator not_empty(const std::string& what) {
  return {[=](std::string& text) {
            return text.empty() ? fmt::format("'' is not a {}", what) : std::string{};
          },
          what, "text"};
}

// A name that the configuration checks, with its own message.
inline CLI::Validator name_like(const std::vector<std::string>& names) {
  return not_empty(fmt::format("one of {}", fmt::join(names, ", ")));
}

}  // namespace baton::tools
