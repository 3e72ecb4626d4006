// Wait strategies with properties that no built-in one has: edges, one-shot reports, a wait that
// must stay in one thread, and reports that a test writes itself. All are added to the registry and
// chosen by name.
#pragma once

#include <cstdint>
#include <vector>

#include "baton/wait_strategy.hpp"

namespace baton::test {

/// Adds them to the registry, once; call it before a name is used.
///
///   fake_edge      reports when something comes
///   fake_one_shot  reports once, until it is armed again
///   fake_pinned    declares that one thread must wait
///   fake_unmasked  declares to take no signal mask
///   scripted       level-triggered; reports what script() holds
void add_fake_strategies();

struct Script {
  Trigger trigger = Trigger::level;
  std::error_code add_answer{};
  std::error_code modify_answer{};
  std::error_code wait_answer{};
  std::vector<Report> reports{};  // of the next wait
  struct Call {
    char verb;  // a, m, r
    int fd;
    Interest interest;
    Token token;
  };
  std::vector<Call> calls{};  // of clients' descriptors only
};
/// The script and the record of calls of `scripted` strategies opened from now on. One thread.
Script& script();

}  // namespace baton::test
