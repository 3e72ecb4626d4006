// Things that may end the process, or never end, are done in a child: a system-call filter may
// answer with death in place of an error, and a faulty kernel with silence.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

#include "baton/error.hpp"
#include "baton/result.hpp"

namespace baton::doctor {

struct ChildEnd {
  bool good = false;    // it returned, and this is all of its text
  bool killed = false;  // it died of a signal
  int signal_number = 0;
  std::string text;
  std::string trouble;  // why not good, a sentence
};

// Runs `work` in a child process, which ends with its parent, and waits for it, at most so long.
// The caller has one thread: what locks others hold would stay locked in the child.
ChildEnd run_in_child(const std::function<std::string()>& work, double seconds_max);

// The parts of it, for children that stay.
struct Spawned {
  pid_t child = -1;
  int out = -1;  // the child's output
};
// `life` gets the descriptor to say something on, and never returns to the caller's code: the child
// ends with it. Its exceptions are reported.
Result<Spawned, Failure> spawn(const std::function<void(int out)>& life);
void end_child(pid_t child) noexcept;

}  // namespace baton::doctor
