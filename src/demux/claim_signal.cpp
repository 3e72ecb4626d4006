// Installs a handler for a signal for which the program has none.
#include "demux/claim_signal.hpp"

namespace baton::demux {

Claim claim_signal(const os::System& system, int number, void (*handler)(int)) noexcept {
  struct sigaction now{};
  // EINVAL: no such signal, or one that cannot be caught.
  if (system.sigaction(number, nullptr, &now) != 0) return Claim::invalid;
  const bool without_info = (now.sa_flags & SA_SIGINFO) == 0;
  if (without_info && now.sa_handler == handler) return Claim::ours;
  if (!without_info || now.sa_handler != SIG_DFL) return Claim::taken;
  struct sigaction action{};
  action.sa_handler = handler;
  action.sa_flags =
      SA_RESTART;  // if another thread takes the signal, its calls go on; a wait never restarts
  sigemptyset(&action.sa_mask);
  return system.sigaction(number, &action, nullptr) == 0 ? Claim::ours : Claim::invalid;
}

}  // namespace baton::demux
