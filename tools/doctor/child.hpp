// Work that may kill the process, or never end, is done in a child process: a system-call filter
// may kill it, and a faulty kernel may not return.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

#include "baton/error.hpp"
#include "baton/result.hpp"

namespace baton::doctor {

struct ChildEnd {
  bool good = false;    // it returned, and `text` is complete
  bool killed = false;  // it died of a signal
  int signal_number = 0;
  std::string text;
  std::string trouble;  // why it is not good, a sentence
};

// Runs `work` in a child process, which ends with its parent, and waits for it at most so long.
// REQUIRES: the caller has one thread, because a lock of another would stay locked in the child.
ChildEnd run_in_child(const std::function<std::string()>& work, double seconds_max);

// The parts of that, for children that keep running.
struct Spawned {
  pid_t child = -1;
  int out = -1;  // the child's output
};
// `life` gets the descriptor of the child's output. The child ends when it returns. Its exceptions
// are reported.
Result<Spawned, Failure> spawn(const std::function<void(int out)>& life);
void end_child(pid_t child) noexcept;

}  // namespace baton::doctor
