// One range of bytes: "bytes=0-99", "bytes=100-", "bytes=-100".
#include "range.hpp"

#include <algorithm>
#include <limits>
#include <optional>

namespace httpd {
namespace {

constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

// Numbers of any length are well formed; what does not fit is as good as infinite.
std::optional<std::uint64_t> number(std::string_view text) {
  if (text.empty()) return {};
  std::uint64_t value = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return {};
    const auto digit = static_cast<std::uint64_t>(c - '0');
    value = value > (most - digit) / 10 ? most : value * 10 + digit;
  }
  return value;
}

Range last_bytes(std::uint64_t count, std::uint64_t size) {
  if (count == 0 || size == 0) return {Range::Kind::unsatisfiable, 0, 0};
  const std::uint64_t length = std::min(count, size);
  return {Range::Kind::part, size - length, length};
}

bool names_bytes(std::string_view unit) {
  return std::ranges::equal(unit, std::string_view("bytes"), {}, [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  });
}

}  // namespace

Range parse_range(std::string_view header, std::uint64_t size) {
  const std::size_t equals = header.find('=');
  if (equals == std::string_view::npos || !names_bytes(header.substr(0, equals))) return {};
  const std::string_view set = trimmed(header.substr(equals + 1));
  const std::size_t dash = set.find('-');
  if (dash == std::string_view::npos || set.find(',') != std::string_view::npos) return {};

  const auto first = number(set.substr(0, dash));
  const auto last = number(set.substr(dash + 1));
  const bool open_end = dash + 1 == set.size();
  if (dash == 0) return last ? last_bytes(*last, size) : Range{};
  if (!first || (!last && !open_end) || (last && *last < *first)) return {};
  if (*first >= size) return {Range::Kind::unsatisfiable, 0, 0};
  const std::uint64_t end = open_end || *last >= size ? size : *last + 1;
  return {Range::Kind::part, *first, end - *first};
}

}  // namespace httpd
