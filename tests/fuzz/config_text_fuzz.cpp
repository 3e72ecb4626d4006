// The one-line form of a configuration, alone and combined with a program's own; and the
// environment: the lines of the input are BATON, BATON_REQUIRE, BATON_PREFER and BATON_FORBID.
#include <stdlib.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <string_view>

#include "sound.hpp"

namespace baton::fuzz {
namespace {

/// A variable of the environment in memory of its own: setenv keeps a copy of every value that it
/// was ever given.
class Variable {
 public:
  explicit Variable(const std::string& name) : begin_(name.size() + 1) {
    std::memcpy(room_.data(), (name + "=").c_str(), begin_ + 1);
    ::putenv(room_.data());
  }
  void set(std::string_view value) {
    value = value.substr(0, std::min(value.find('\0'), room_.size() - begin_ - 1));
    *std::copy(value.begin(), value.end(), room_.begin() + static_cast<std::ptrdiff_t>(begin_)) = 0;
  }

 private:
  std::array<char, 80 * 1'024> room_{};  // more than the parser takes
  std::size_t begin_;
};

void set_environment(std::string_view lines) {
  static std::array<Variable, 4>& variables =
      *new std::array<Variable, 4>{Variable{"BATON"}, Variable{"BATON_REQUIRE"},
                                   Variable{"BATON_PREFER"}, Variable{"BATON_FORBID"}};
  for (Variable& variable : variables) {
    const std::size_t end = std::min(lines.find('\n'), lines.size());
    variable.set(lines.substr(0, end));
    lines.remove_prefix(std::min(end + 1, lines.size()));
  }
}

void check_environment(const Config& base) {
  const Parsed parsed = Config::parse_environment(base);
  expect_sound(parsed);
  if (!parsed) return;
  expect(parsed->validate().has_value(), "what the environment gives is valid");
  const Parsed again = Config::parse_environment(*parsed);
  expect(again.has_value() && same(*again, *parsed), "said twice is as said once");
}

void check(std::string_view text) {
  const Parsed parsed = Config::parse(text, {});
  expect_sound(parsed);
  expect_sound(Config::parse(text, program_config()));
  if (parsed) {
    const Parsed again = Config::parse(text, *parsed);
    expect(again.has_value() && same(*again, *parsed), "said twice is as said once");
  }
  set_environment(text);
  check_environment({});
  check_environment(program_config());
}

}  // namespace
}  // namespace baton::fuzz

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  baton::fuzz::check({reinterpret_cast<const char*>(data), size});
  return 0;
}
