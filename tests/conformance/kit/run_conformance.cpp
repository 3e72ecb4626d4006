// run_conformance: registers the parts, lets GoogleTest make its list, runs it and prints the
// table.
#include "baton/testing/conformance.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <string_view>

#include "../selection.hpp"
#include "baton/registry.hpp"
#include "outcome.hpp"
#include "rules.hpp"
#include "table.hpp"
#include "watched_parts.hpp"

namespace baton::testing {
namespace {

using conformance::Outcome;
using conformance::selection;
using conformance::Selection;

EngineFactory watched(const EngineFactory& factory) { return conformance::watched(factory); }
WaitStrategyFactory watched(const WaitStrategyFactory& factory) {
  return conformance::watched(factory);
}
// No thread waits inside one of them.
InterruptStrategyFactory watched(const InterruptStrategyFactory& factory) { return factory; }

template <class Factory>
bool select_parts(const std::vector<PartUnderTest<Factory>>& parts,
                  const std::vector<RegistryEntry<Factory>>& present,
                  std::vector<std::string>& names, std::ostream& out) {
  for (const PartUnderTest<Factory>& part : parts) {
    const bool known = std::any_of(present.begin(), present.end(),
                                   [&](const auto& entry) { return entry.name == part.name; });
    if (!part.factory && !known) {
      out << "conformance: nothing is registered as \"" << part.name << "\"\n";
      return false;
    }
    if (part.factory && registry().add(part.name, watched(part.factory), "under test")) {
      out << "conformance: \"" << part.name << "\" is taken, or is not made of a-z, 0-9 and '_'\n";
      return false;
    }
    names.push_back(part.name);
    if (part.factory) selection().foreign.push_back(part.name);
  }
  return true;
}

bool select_all(const ConformanceOptions& options, std::ostream& out) {
  Selection& chosen = selection();
  if (!select_parts(options.engines, registry().engines(), chosen.engines, out) ||
      !select_parts(options.wait_strategies, registry().wait_strategies(), chosen.wait_strategies,
                    out) ||
      !select_parts(options.interrupt_strategies, registry().interrupt_strategies(),
                    chosen.interrupt_strategies, out)) {
    return false;
  }
  for (const auto& engine : options.engines) {
    if (engine.files_only && engine.sockets_only) {
      out << "conformance: \"" << engine.name << "\" cannot take files only and sockets only\n";
      return false;
    }
    if (engine.files_only) chosen.files_only.push_back(engine.name);
    if (engine.sockets_only) chosen.sockets_only.push_back(engine.name);
  }
  chosen.pairwise = options.pairwise;
  for (const std::string& key : options.rules) {
    const auto all = conformance::rules();
    if (std::none_of(all.begin(), all.end(), [&](const auto& rule) { return rule.key == key; })) {
      out << "conformance: there is no rule \"" << key << "\"; there are:";
      for (const auto& rule : all) out << ' ' << rule.key;
      out << '\n';
      return false;
    }
  }
  return true;
}

std::string_view without_prefix(std::string_view suite) {
  const auto slash = suite.find('/');
  return slash == std::string_view::npos ? suite : suite.substr(slash + 1);
}

/// The tests of GoogleTest that are wanted. False if one of them has no rule.
bool list_tests(const ConformanceOptions& options, std::vector<Outcome>& outcomes,
                std::ostream& out) {
  const ::testing::UnitTest& all = *::testing::UnitTest::GetInstance();
  for (int i = 0; i < all.total_test_suite_count(); ++i) {
    const ::testing::TestSuite& suite = *all.GetTestSuite(i);
    const std::string_view name = without_prefix(suite.name());
    // GoogleTest's own complaint about a suite without parameters: of a family that is not judged.
    if (std::string_view{suite.name()} == "GoogleTestVerification") continue;
    const bool signal_wanted =
        selection().everything() || Selection::has(selection().interrupt_strategies, "signal");
    if (name == "signal_interrupt" && !signal_wanted) continue;
    for (int j = 0; j < suite.total_test_count(); ++j) {
      const std::string_view test = suite.GetTestInfo(j)->name();
      const int rule = conformance::rule_of(name, test.substr(0, test.find('/')));
      Outcome outcome{.name = std::string{name} + "." + std::string{test},
                      .full = std::string{suite.name()} + "." + std::string{test},
                      .rule = rule};
      if (rule < 0) {
        out << "conformance: no rule is written down for " << outcome.name << '\n';
        return false;
      }
      const auto key = std::string{conformance::rules()[static_cast<std::size_t>(rule)].key};
      if (!options.rules.empty() && !Selection::has(options.rules, key)) continue;
      if (outcome.name.find(options.only) == std::string::npos) continue;
      outcomes.push_back(std::move(outcome));
    }
  }
  return true;
}

}  // namespace

int run_conformance(const ConformanceOptions& options) {
  std::ostream& out = options.out != nullptr ? *options.out : std::cout;
  if (options.test_seconds_max == 0 || options.test_seconds_max > 86'400) {
    out << "conformance: test_seconds_max is a number from 1 to 86400\n";
    return conformance_unusable;
  }
  if (!select_all(options, out)) return conformance_unusable;
  ::testing::InitGoogleTest();
  std::vector<Outcome> outcomes;
  if (!list_tests(options, outcomes, out)) return conformance_unusable;

  const bool terminal = ::isatty(STDERR_FILENO) == 1 && !options.verbose;
  std::size_t done = 0;
  out << "conformance: " << outcomes.size() << " tests" << std::endl;  // at once, as all below
  const auto progress = [&](std::size_t index) {
    ++done;
    const Outcome& outcome = outcomes[index];
    if (outcome.verdict == conformance::Verdict::failed) {
      const auto& rule = conformance::rules()[static_cast<std::size_t>(outcome.rule)];
      out << "conformance: FAILED, rule " << rule.key << ": " << outcome.name << std::endl;
    }
    if (terminal) {
      std::fprintf(stderr, "\r%zu of %zu tests ", done, outcomes.size());
    } else if (done * 10 / outcomes.size() != (done - 1) * 10 / outcomes.size()) {
      out << "conformance: " << done << " of " << outcomes.size() << " tests" << std::endl;
    }
  };
  const bool complete = conformance::run_in_children(outcomes,
                                                     {.test_seconds_max = options.test_seconds_max,
                                                      .deaths_max = options.deaths_max,
                                                      .verbose = options.verbose},
                                                     progress);
  if (terminal) std::fprintf(stderr, "\r%40s\r", "");

  conformance::print_table(out, outcomes);
  const conformance::Totals totals = conformance::totals_of(outcomes);
  if (!complete) out << "\ngiven up: " << totals.not_run << " tests have not run\n";
  out.flush();
  if (totals.failed > 0 || !complete) return conformance_failed;
  if (totals.passed == 0) {
    out << "\nnothing was judged\n";
    return conformance_unusable;
  }
  return conformance_passed;
}

}  // namespace baton::testing
