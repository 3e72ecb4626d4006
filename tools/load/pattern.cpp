#include "pattern.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace baton::tools {
namespace {

// splitmix64: random enough, short, and the same in every run.
std::uint64_t next_random(std::uint64_t& state) {
  std::uint64_t z = (state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

}  // namespace

// The table is one piece longer than the period, so that no piece wraps.
Pattern::Pattern() : table_(period + piece_bytes_max) {
  std::uint64_t state = 7007;
  for (std::size_t i = 0; i < period; ++i) {
    table_[i] = static_cast<std::byte>(next_random(state) & 0xff);
  }
  for (std::size_t i = period; i < table_.size(); ++i) table_[i] = table_[i - period];
}

std::span<const std::byte> Pattern::piece(std::size_t phase, std::uint64_t offset,
                                          std::size_t size) const {
  const auto start = static_cast<std::size_t>((phase + offset) % period);
  return std::span(table_).subspan(start, size);
}

std::optional<std::size_t> Pattern::find(std::span<const std::byte> bytes) const {
  if (bytes.size() < 8) return std::nullopt;
  const auto searched = bytes.first(std::min<std::size_t>(bytes.size(), 16));
  const auto end = table_.begin() + static_cast<std::ptrdiff_t>(period + searched.size());
  const auto found = std::search(table_.begin(), end, searched.begin(), searched.end());
  if (found == end) return std::nullopt;
  return static_cast<std::size_t>(found - table_.begin()) % period;
}

std::string byte_row(std::span<const std::byte> bytes) {
  std::string row;
  for (const std::byte b : bytes.first(std::min<std::size_t>(bytes.size(), 8))) {
    row += fmt::format("{:02x} ", static_cast<unsigned>(b));
  }
  if (!row.empty()) row.pop_back();
  return row;
}

}  // namespace baton::tools
