// The outcomes of the tests of one run, and the function that runs them in child processes.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace baton::conformance {

enum class Verdict : unsigned char { not_run, passed, failed, skipped };

/// One test of GoogleTest, and its outcome.
struct Outcome {
  std::string name;  ///< "Suite.test/parameter", without the prefix of the instantiation
  std::string full;  ///< as in GoogleTest's filter
  int rule = 0;      ///< index in rules()
  Verdict verdict = Verdict::not_run;
  std::string message = {};  ///< of its first failure, or why it was skipped
};

struct RunLimits {
  unsigned test_seconds_max = 120;
  unsigned deaths_max = 20;
  bool verbose = false;
};

/// Runs them in order, in a child process that is replaced whenever a test crashes it or lasts too
/// long, and fills in the verdicts; `progress` is called with the index of each finished test.
/// False if the run was given up, because too many children died or none could be made: the rest is
/// not_run. REQUIRES: GoogleTest is initialised, the process has one thread.
bool run_in_children(std::vector<Outcome>& outcomes, const RunLimits& limits,
                     const std::function<void(std::size_t)>& progress);

}  // namespace baton::conformance
