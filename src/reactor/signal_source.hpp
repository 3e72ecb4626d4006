// SignalSource: one signal of a reactor, with a signalfd of its own. It is a handler like others,
// which reads the signals that have arrived and calls the handler of the signal. So the rules of
// registrations hold for signals: a slow handler delays no other, and no call begins after the
// removal.
#pragma once

#include <csignal>
#include <memory>
#include <system_error>

#include "baton/event_handler.hpp"
#include "os/system.hpp"

namespace baton::reactor {

class SignalSource final : public EventHandler {
 public:
  /// Signals are numbered from 1 to this.
  static constexpr int number_max = 64;

  /// Whether there is such a signal, and a program can handle it.
  [[nodiscard]] static bool possible(int number) noexcept;

  /// REQUIRES: possible(number).
  SignalSource(const os::System& system, int number, EventHandler& handler) noexcept
      : system_(system), number_(number), handler_(handler) {}
  ~SignalSource() override;

  /// Opens the descriptor. The signal is blocked in the calling thread. The system's errors; after
  /// one the signal is as before. REQUIRES: there is none, or it was forgotten.
  std::error_code open() noexcept;
  /// In the same thread, when the reactor could not use it: the signal is as before open().
  void give_signal_back() const noexcept;
  /// In the child of a fork: closes the parent's descriptor, if the child has it.
  void forget() noexcept;
  /// The object that keeps the handler alive; destroyed with this.
  void keep(std::shared_ptr<EventHandler> kept) noexcept { kept_ = std::move(kept); }
  /// REQUIRES: open has succeeded.
  [[nodiscard]] NativeHandle descriptor() const noexcept { return fd_; }

  Next on_input(NativeHandle fd) override;
  void on_close(NativeHandle fd, std::error_code why) noexcept override;

 private:
  [[nodiscard]] sigset_t signals() const noexcept;

  const os::System& system_;
  const int number_;
  EventHandler& handler_;
  std::shared_ptr<EventHandler> kept_;
  NativeHandle fd_ = invalid_handle;
  bool was_blocked_ = false;
  bool answered_remove_ = false;
};

}  // namespace baton::reactor
