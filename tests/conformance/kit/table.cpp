// Rules without a test are left out: an engine has no row for wait strategies.
#include "table.hpp"

#include <iomanip>
#include <map>
#include <ostream>
#include <string>

#include "rules.hpp"

namespace baton::conformance {
namespace {

void count(Totals& totals, const Outcome& outcome) {
  switch (outcome.verdict) {
    case Verdict::passed:
      ++totals.passed;
      break;
    case Verdict::failed:
      ++totals.failed;
      break;
    case Verdict::skipped:
      ++totals.skipped;
      break;
    case Verdict::not_run:
      ++totals.not_run;
      break;
  }
}

const char* word(const Totals& totals) {
  if (totals.failed > 0) return "FAILED";
  if (totals.not_run > 0) return "not run to the end";
  return totals.passed > 0 ? "passed" : "skipped";
}

void print_row(std::ostream& out, std::string_view key, std::string_view text,
               const Totals& totals) {
  out << std::left << std::setw(20) << key << std::setw(32) << text << std::right << std::setw(7)
      << totals.passed << std::setw(8) << totals.failed << std::setw(9) << totals.skipped << "  "
      << word(totals) << '\n';
}

// The first lines of a message, indented.
void print_message(std::ostream& out, const std::string& message) {
  constexpr int lines_max = 12;
  int lines = 0;
  out << "    ";
  for (const char c : message) {
    if (c != '\n') {
      out << c;
    } else if (++lines == lines_max) {
      out << "\n    ...";
      break;
    } else {
      out << "\n    ";
    }
  }
  out << '\n';
}

}  // namespace

Totals totals_of(const std::vector<Outcome>& outcomes) {
  Totals totals;
  for (const Outcome& outcome : outcomes) count(totals, outcome);
  return totals;
}

void print_table(std::ostream& out, const std::vector<Outcome>& outcomes) {
  std::map<int, Totals> rows;
  for (const Outcome& outcome : outcomes) count(rows[outcome.rule], outcome);
  out << std::left << std::setw(52) << "rule" << std::right << std::setw(7) << "passed"
      << std::setw(8) << "failed" << std::setw(9) << "skipped" << "  result\n";
  for (const auto& [rule, totals] : rows) {
    const Rule& row = rules()[static_cast<std::size_t>(rule)];
    print_row(out, row.key, row.text, totals);
  }
  print_row(out, "all", "", totals_of(outcomes));

  for (const Outcome& outcome : outcomes) {
    if (outcome.verdict != Verdict::failed) continue;
    out << "\nFAILED, rule " << rules()[static_cast<std::size_t>(outcome.rule)].key << ": "
        << outcome.name << '\n';
    print_message(out, outcome.message);
  }
  std::map<std::string, std::size_t> reasons;
  for (const Outcome& outcome : outcomes) {
    if (outcome.verdict == Verdict::skipped) ++reasons[outcome.message];
  }
  if (!reasons.empty()) out << "\nskipped, with the reason:\n";
  for (const auto& [reason, times] : reasons) {
    out << std::setw(6) << times << "  " << reason.substr(0, reason.find('\n')) << '\n';
  }
}

}  // namespace baton::conformance
