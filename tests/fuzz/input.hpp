// Input: takes a fuzzer's bytes one after the other as numbers, choices and text. Past the end it
// returns zeros and empty text, so a harness needs no checks in between.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>

namespace baton::fuzz {

class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size)
      : left_(reinterpret_cast<const char*>(data), size) {}

  [[nodiscard]] bool empty() const { return left_.empty(); }

  std::uint8_t byte() {
    if (left_.empty()) return 0;
    const auto value = static_cast<std::uint8_t>(left_.front());
    left_.remove_prefix(1);
    return value;
  }
  bool flag() { return (byte() & 1) != 0; }
  /// Little endian on every machine, so that a corpus has the same meaning everywhere.
  std::uint64_t word(int bytes) {
    std::uint64_t value = 0;
    for (int i = 0; i < bytes; ++i) value |= std::uint64_t{byte()} << (8 * i);
    return value;
  }
  /// 0 to count - 1. REQUIRES: count is 1 to 256.
  std::size_t choice(std::size_t count) { return byte() % count; }

  /// A size: mostly small, sometimes one at which arithmetic breaks. Never above `most`.
  std::uint64_t size(std::uint64_t most = std::numeric_limits<std::uint64_t>::max()) {
    const std::uint8_t form = byte();
    std::uint64_t value = 0;
    if (form < 0xc0) {
      value = form % 0x40;
    } else if (form < 0xe0) {
      value = word(2);
    } else if (form < 0xf0) {
      value = word(8);
    } else {
      // Beside a power of two.
      value = (std::uint64_t{1} << choice(64)) + byte() - 0x80;
    }
    return std::min(value, most);
  }
  /// A length byte, and as many bytes as are left of it.
  std::string_view text() { return take(byte()); }
  std::string_view rest() { return take(left_.size()); }

 private:
  std::string_view take(std::size_t count) {
    const std::string_view taken = left_.substr(0, count);
    left_.remove_prefix(taken.size());
    return taken;
  }

  std::string_view left_;
};

}  // namespace baton::fuzz
