// LastWords: prints the seed and the thread on standard error when a signal ends the program in the
// middle of a run. Causes are a failed assertion, std::terminate and an overflow of a thread's
// stack.
//
// The handlers of SIGABRT, SIGSEGV, SIGBUS, SIGFPE and SIGILL belong to the process, so the first
// run installs them and the last one restores the earlier handlers. They run on their own signal
// stack, since a full stack has no room for them. After the lines are printed, the earlier handlers
// get the signal, and the program ends as it would have ended without LastWords.
#pragma once

#include <csignal>
#include <cstddef>
#include <memory>

namespace baton::sim {

class LastWords {
 public:
  /// Covers one run in the calling thread.
  LastWords();
  ~LastWords();
  LastWords(const LastWords&) = delete;
  LastWords& operator=(const LastWords&) = delete;

 private:
  std::unique_ptr<std::byte[]> stack_;
  stack_t before_{};
};

}  // namespace baton::sim
