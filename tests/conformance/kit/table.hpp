// The table that the kit prints: rules and results, then the reasons of failures and skips.
#pragma once

#include <iosfwd>
#include <vector>

#include "outcome.hpp"

namespace baton::conformance {

struct Totals {
  std::size_t passed = 0;
  std::size_t failed = 0;
  std::size_t skipped = 0;
  std::size_t not_run = 0;
};

Totals totals_of(const std::vector<Outcome>& outcomes);
void print_table(std::ostream& out, const std::vector<Outcome>& outcomes);

}  // namespace baton::conformance
