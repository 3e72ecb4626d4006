// LastWords: a program that dies by a signal in the middle of a run - a failed assertion,
// std::terminate, an overflow of a thread's stack - still tells its seed and its thread on standard
// error.
//
// The handlers of SIGABRT, SIGSEGV, SIGBUS, SIGFPE and SIGILL are the process's, so they are
// installed by the first run of the process and given back by the last. They run on a signal stack
// of their own, for a thread whose stack is full has no room for them. After the words the program
// dies as it would have died without them: the handlers that were there before get the signal.
#pragma once

#include <csignal>
#include <cstddef>
#include <memory>

namespace baton::sim {

class LastWords {
 public:
  /// For one run in the calling thread.
  LastWords();
  ~LastWords();
  LastWords(const LastWords&) = delete;
  LastWords& operator=(const LastWords&) = delete;

 private:
  std::unique_ptr<std::byte[]> stack_;
  stack_t before_{};
};

}  // namespace baton::sim
