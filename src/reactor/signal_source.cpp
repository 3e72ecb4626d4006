// A signal by signalfd.
#include "reactor/signal_source.hpp"

#include <sys/signalfd.h>

#include <cerrno>
#include <utility>

#include "base/assert.hpp"

namespace baton::reactor {

bool SignalSource::possible(int number) noexcept {
  sigset_t set;
  sigemptyset(&set);
  // The kernel silently ignores these two.
  if (number == SIGKILL || number == SIGSTOP) return false;
  return number > 0 && number <= number_max && sigaddset(&set, number) == 0;
}

SignalSource::~SignalSource() {
  if (fd_ != invalid_handle) static_cast<void>(system_.close(fd_));
}

// EMFILE, ENFILE, ENOMEM, ENODEV are returned. EBADF and EINVAL would be a bug.
std::error_code SignalSource::open() noexcept {
  BATON_ASSERT(fd_ == invalid_handle);
  const sigset_t set = signals();
  sigset_t before;
  // Returns an errno. EINVAL would mean a wrong `how`.
  if (const int error = system_.thread_sigmask(SIG_BLOCK, &set, &before)) {
    return {error, std::system_category()};
  }
  was_blocked_ = sigismember(&before, number_) == 1;
  const int fd = system_.signalfd(invalid_handle, &set, SFD_NONBLOCK | SFD_CLOEXEC);
  if (fd < 0) {
    const std::error_code error{errno, std::system_category()};
    give_signal_back();
    return error;
  }
  fd_ = fd;
  return {};
}

// Without a taker the signal would be lost for the program: SIGINT would not end it any more.
void SignalSource::give_signal_back() const noexcept {
  const sigset_t set = signals();
  if (!was_blocked_) system_.thread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

// A fork copies the descriptors before the memory. A descriptor that another thread opened in
// between is missing here, and its number may name another file: EINVAL (no signalfd), EBADF.
void SignalSource::forget() noexcept {
  const NativeHandle fd = std::exchange(fd_, invalid_handle);
  if (fd == invalid_handle) return;
  const sigset_t set = signals();
  if (system_.signalfd(fd, &set, 0) == fd) static_cast<void>(system_.close(fd));
}

sigset_t SignalSource::signals() const noexcept {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, number_);
  return set;
}

// One signal at a time: the handler may end the reactor, and further signals stay pending then.
// EAGAIN: another reader was faster. EINTR is impossible without waiting.
Next SignalSource::on_input(NativeHandle fd) {
  signalfd_siginfo info;
  if (system_.read(fd, &info, sizeof info) != ssize_t{sizeof info}) return Next::keep;
  const Next next = handler_.on_signal(number_);
  answered_remove_ = next == Next::remove;
  return next == Next::again ? Next::keep : next;
}

// The handler's on_close is called if it has answered `remove`, or after an error, but not after
// remove_signal or `drop`.
void SignalSource::on_close(NativeHandle /*fd*/, std::error_code why) noexcept {
  if (answered_remove_ || why) handler_.on_close(invalid_handle, why);
}

}  // namespace baton::reactor
