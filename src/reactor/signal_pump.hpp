// SignalPump: signals for a reactor, by signalfd: a handler among handlers, which reads what has
// arrived and calls the handler of each signal. Its table has a lock of its own: signals are added
// and removed while it runs.
#pragma once

#include <csignal>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <system_error>

#include "baton/event_handler.hpp"
#include "os/system.hpp"

namespace baton::reactor {

class SignalPump final : public EventHandler {
 public:
  explicit SignalPump(const os::System& system) noexcept;
  ~SignalPump() override;

  /// EINVAL, EEXIST, ENOMEM; the system's errors. The signal is blocked in the calling thread.
  /// `kept` is taken only on success: its destructor is the user's and must not run under a lock.
  std::error_code add(int number, EventHandler* handler,
                      std::shared_ptr<EventHandler>& kept) noexcept;
  /// ENOENT. What it kept goes to `kept`.
  std::error_code remove(int number, std::shared_ptr<EventHandler>& kept) noexcept;
  /// In the child of a fork: a descriptor of its own.
  std::error_code recreate() noexcept;

  /// invalid_handle as long as there is no signal.
  [[nodiscard]] NativeHandle descriptor() const noexcept { return fd_; }

  Next on_input(NativeHandle fd) override;

 private:
  struct Entry {
    EventHandler* handler;
    std::shared_ptr<EventHandler> kept;
    std::uint64_t serial = 0;  // of its add, so that it is told from its successor
  };
  using Entries = std::map<int, Entry>;

  void remove_answered(int number, std::uint64_t serial) noexcept;
  std::error_code erase(Entries::iterator entry, std::shared_ptr<EventHandler>& kept) noexcept;
  std::error_code watch(const sigset_t& set) noexcept;

  const os::System& system_;
  NativeHandle fd_ = invalid_handle;
  std::mutex mutex_;
  sigset_t set_;
  Entries entries_;
  std::uint64_t added_ = 0;
};

}  // namespace baton::reactor
