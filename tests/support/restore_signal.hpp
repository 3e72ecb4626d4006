// Putting a signal's action back after a test that has sent many. The last ones may be pending
// still, taken by no thread yet; under the action that was there before, usually the default, they
// would end the process.
#pragma once

#include <signal.h>

namespace baton::test {

/// Ignoring a signal drops its pending instances, for the process and for each thread.
inline void restore_signal(int number, const struct sigaction& before) {
  struct sigaction ignore{};
  ignore.sa_handler = SIG_IGN;
  ::sigaction(number, &ignore, nullptr);
  ::sigaction(number, &before, nullptr);
}

}  // namespace baton::test
