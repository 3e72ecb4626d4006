// Signals by signalfd.
#include "reactor/signal_pump.hpp"

#include <sys/signalfd.h>

#include <cerrno>
#include <new>
#include <utility>

namespace baton::reactor {

SignalPump::SignalPump(const os::System& system) noexcept : system_(system) { sigemptyset(&set_); }

SignalPump::~SignalPump() {
  if (fd_ != invalid_handle) static_cast<void>(system_.close(fd_));
}

std::error_code SignalPump::add(int number, EventHandler* handler,
                                std::shared_ptr<EventHandler>& kept) noexcept try {
  const std::scoped_lock lock(mutex_);
  if (entries_.contains(number)) return std::make_error_code(std::errc::file_exists);
  sigset_t set = set_;
  sigset_t one;
  sigemptyset(&one);
  // The kernel would leave these two out without a word.
  if (number == SIGKILL || number == SIGSTOP || sigaddset(&set, number) != 0) {
    return std::make_error_code(std::errc::invalid_argument);
  }
  sigaddset(&one, number);
  const auto [entry, added] = entries_.emplace(number, Entry{handler, nullptr, ++added_});
  // Answers an errno; EINVAL would be a wrong `how`.
  const int blocked = system_.thread_sigmask(SIG_BLOCK, &one, nullptr);
  const std::error_code error =
      blocked != 0 ? std::error_code{blocked, std::system_category()} : watch(set);
  if (error) {
    entries_.erase(entry);
    return error;
  }
  entry->second.kept = std::move(kept);
  set_ = set;
  return {};
} catch (const std::bad_alloc&) {
  return std::make_error_code(std::errc::not_enough_memory);
}

std::error_code SignalPump::remove(int number, std::shared_ptr<EventHandler>& kept) noexcept {
  const std::scoped_lock lock(mutex_);
  const auto entry = entries_.find(number);
  if (entry == entries_.end()) return std::make_error_code(std::errc::no_such_file_or_directory);
  return erase(entry, kept);
}

std::error_code SignalPump::erase(Entries::iterator entry,
                                  std::shared_ptr<EventHandler>& kept) noexcept {
  kept = std::move(entry->second.kept);
  sigdelset(&set_, entry->first);
  entries_.erase(entry);
  return watch(set_);
}

std::error_code SignalPump::recreate() noexcept {
  if (fd_ == invalid_handle) return {};
  static_cast<void>(system_.close(std::exchange(fd_, invalid_handle)));
  return watch(set_);
}

// EMFILE, ENFILE, ENOMEM, ENODEV: the caller's answer. EBADF, EINVAL: only a bug.
std::error_code SignalPump::watch(const sigset_t& set) noexcept {
  const int fd = system_.signalfd(fd_, &set, SFD_NONBLOCK | SFD_CLOEXEC);
  if (fd < 0) return {errno, std::system_category()};
  fd_ = fd;
  return {};
}

// One at a time: the handler of a signal may end the reactor, and what it has not seen stays
// pending. EAGAIN: no more. EINTR is not possible without waiting.
Next SignalPump::on_input(NativeHandle fd) {
  signalfd_siginfo info;
  if (system_.read(fd, &info, sizeof info) != ssize_t{sizeof info}) return Next::keep;
  Entry entry{};
  const int number = static_cast<int>(info.ssi_signo);
  {
    const std::scoped_lock lock(mutex_);
    const auto found = entries_.find(number);
    if (found == entries_.end()) return Next::keep;
    entry = found->second;
  }
  const Next next = entry.handler->on_signal(number);
  if (next == Next::remove || next == Next::drop) remove_answered(number, entry.serial);
  return Next::keep;
}

// The handler may have removed itself, and another one may have its place by now.
void SignalPump::remove_answered(int number, std::uint64_t serial) noexcept {
  std::shared_ptr<EventHandler> kept;  // destroyed after the lock
  const std::scoped_lock lock(mutex_);
  const auto entry = entries_.find(number);
  if (entry == entries_.end() || entry->second.serial != serial) return;
  // Should the change be refused, a signal that arrives is read and finds no entry.
  static_cast<void>(erase(entry, kept));
}

}  // namespace baton::reactor
