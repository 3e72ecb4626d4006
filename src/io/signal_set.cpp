// Signals by signalfd.
#include "baton/signal_set.hpp"

#include <errno.h>
#include <sys/signalfd.h>

#include <cstring>

#include "io/native.hpp"
#include "os/system.hpp"

namespace baton {
namespace {

static_assert(sizeof(signalfd_siginfo) == 128 && alignof(signalfd_siginfo) <= 8);

Result<sigset_t> to_set(std::span<const int> signals) noexcept {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int number : signals) {
    // The kernel would silently leave these two out.
    if (number == SIGKILL || number == SIGSTOP || ::sigaddset(&set, number) != 0) {
      return unexpected{std::make_error_code(std::errc::invalid_argument)};
    }
  }
  return set;
}

signalfd_siginfo record(const SignalInfo& info) noexcept {
  signalfd_siginfo copy;
  std::memcpy(&copy, &info, sizeof(copy));
  return copy;
}

std::error_code block_set(const os::System& system, const sigset_t& set,
                          sigset_t* before) noexcept {
  // Returns an errno; EINVAL would be a wrong `how`.
  return {system.thread_sigmask(SIG_BLOCK, &set, before), std::system_category()};
}

}  // namespace

int SignalInfo::number() const noexcept { return static_cast<int>(record(*this).ssi_signo); }
int SignalInfo::sender_process() const noexcept { return static_cast<int>(record(*this).ssi_pid); }

std::error_code SignalSet::block(std::span<const int> signals) noexcept {
  const Result<sigset_t> set = to_set(signals);
  if (!set) return set.error();
  return block_set(os::real_system(), *set, nullptr);
}

Result<SignalSet> SignalSet::open(Proactor& proactor, std::span<const int> signals,
                                  Home home) noexcept {
  const os::System& system = proactor.system();
  const Result<sigset_t> set = to_set(signals);
  if (!set) return unexpected{set.error()};
  sigset_t before;
  if (auto error = block_set(system, *set, &before)) return unexpected{error};
  // Errnos: EMFILE, ENFILE, ENOMEM, ENODEV: returned to the caller.
  const int fd = system.signalfd(-1, &*set, SFD_NONBLOCK | SFD_CLOEXEC);
  const Result<Handle*> handle =
      fd < 0 ? Result<Handle*>{unexpected{io::last_error()}}
             : io::adopt_or_close(proactor, fd, HandleKind::pipe, O_RDWR | O_NONBLOCK, home);
  // Without a taker the signals would be lost for the program: SIGINT would not end it any more.
  if (!handle) system.thread_sigmask(SIG_SETMASK, &before, nullptr);
  return made<SignalSet>(proactor, handle);
}

}  // namespace baton
