// Restores a signal's action after a test that has sent many signals. The last ones may still be
// pending; under the previous action, usually the default, they would end the process.
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
