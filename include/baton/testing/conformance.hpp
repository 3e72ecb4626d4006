// The conformance kit: the suite by which Baton judges its own parts, for an engine, a wait
// strategy or an interrupt strategy of a program's own.
//
//   int main() {
//     baton::testing::ConformanceOptions options;
//     options.engines.push_back({.name = "my_engine", .factory = open_my_engine});
//     return baton::testing::run_conformance(options);
//   }
//
// It is a library of its own, beside the libraries of Baton: the component `conformance` of the
// CMake package, which needs GoogleTest and the static library.
//
//   find_package(Baton REQUIRED COMPONENTS conformance)
//   target_link_libraries(my_engine_conformance PRIVATE Baton::conformance)
//
// docs/guide/own-engine.md has the steps; docs/guide/contract.md has the rules.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "baton/engine.hpp"
#include "baton/interrupt_strategy.hpp"
#include "baton/wait_strategy.hpp"

namespace baton::testing {

/// A part to be judged, under the name that a configuration gives it.
template <class Factory>
struct PartUnderTest {
  std::string name;  ///< as a configuration says it
  /// Opens it; the kit adds it to the registry, so it must not be there yet. Empty: a part that the
  /// registry has already, for instance one of Baton's own.
  Factory factory = {};
  /// Engines only: it takes operations on files and nothing else. It is judged as a member of a
  /// team in which `emulated` takes the rest.
  bool files_only = false;
  /// Engines only: it takes everything but operations on files. It is judged as a member of a team
  /// in which `emulated` takes those. Not together with files_only.
  bool sockets_only = false;
};

/// The parts to judge, and the way to do it.
struct ConformanceOptions {
  /// The parts to judge. An engine is tried in every mode; a strategy inside the engine `emulated`,
  /// with every partner, in every mode, and by the suite of its own family. All three empty: every
  /// part of the registry.
  std::vector<PartUnderTest<EngineFactory>> engines;
  std::vector<PartUnderTest<WaitStrategyFactory>> wait_strategies;            ///< see engines
  std::vector<PartUnderTest<InterruptStrategyFactory>> interrupt_strategies;  ///< see engines

  /// Rows of the table that are wanted: "1" to "12" for the rules of the contract, "threads",
  /// "idle", "processes", "same", "wait_strategy", "interrupt_strategy". Empty: all of them.
  std::vector<std::string> rules;
  /// Only tests whose name contains this: for looking at one that failed.
  std::string only;
  /// Every pair of choices once, instead of every combination: for builds under a sanitizer.
  bool pairwise = false;
  /// Seconds that one test may take before it is ended and has failed, at least 1. Tests that wait
  /// for something in vain give up by themselves after 60.
  unsigned test_seconds_max = 120;
  /// The run is given up after so many tests that were ended or took their process along.
  unsigned deaths_max = 20;
  /// Shows what GoogleTest and the tests print themselves.
  bool verbose = false;
  /// Takes the table, and before it each test that has failed and, every tenth of the way, the
  /// number of finished tests; null: standard output. Not owned.
  std::ostream* out = nullptr;
};

/// The result of run_conformance.
enum ConformanceResult : int {
  conformance_passed = 0,   ///< something was judged and nothing failed
  conformance_failed = 1,   ///< at least one test failed, or the run was given up
  conformance_unusable = 2  ///< an option is wrong, or nothing was judged: all skipped, or no tests
};

/// Runs the suite and prints a table of rules and results, below it what failed and why something
/// was skipped. Tests run in child processes: a part that crashes or hangs costs one test.
/// REQUIRES: the process has one thread and makes this call once, before it uses GoogleTest itself.
/// Errors: told on `out`, see ConformanceResult. Environment variables of GoogleTest are honoured,
/// except for its filters.
int run_conformance(const ConformanceOptions& options);

}  // namespace baton::testing
