// Kernels and limits that are known to make trouble. They are data (known_bad.txt explains the
// form). The functions here read them and compare them with the facts of this machine.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "baton/error.hpp"
#include "baton/result.hpp"
#include "facts.hpp"

namespace baton::doctor {

struct KnownBad {
  // How an engine or a strategy that has this trouble is treated.
  enum class Level : std::uint8_t {
    avoid,  // neither calibrated nor recommended
    last,   // the same, unless there is nothing else
    note    // reported
  };
  std::string when;   // "kernel >= 5.16 & kernel < 6.1"
  std::string about;  // "engine NAME", "wait NAME", "interrupt NAME" or "system"
  Level level = Level::note;
  std::string what;
  std::string consequence;
  std::string advice;
  std::string source;  // where it is documented
};

const char* to_string(KnownBad::Level level);

// The Failure names the line. `name` is the file's, for that.
Result<std::vector<KnownBad>, Failure> parse_known_bad(std::string_view text,
                                                       std::string_view name);
// The list that was compiled into this program.
std::string_view known_bad_built_in();

// Whether a condition holds; a term about an unknown fact does not. REQUIRES: well formed, as
// checked by parse_known_bad.
bool holds(std::string_view condition, const Facts& facts);
// The entries that hold on this machine.
std::vector<KnownBad> known_bad_of(const std::vector<KnownBad>& list, const Facts& facts);

// "5.10.186" against "5.9": less than 0, 0 or greater, number by number.
int compare_versions(std::string_view a, std::string_view b);

}  // namespace baton::doctor
