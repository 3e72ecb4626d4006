// Interrupt by a signal to the thread that waits (paper 000, 10.4). It needs no descriptor, but a
// wait that takes a signal mask. The thread blocks the signal except inside the wait, so that it
// stays pending (sticky) until the thread waits. Then the wait ends with EINTR.
//
// Pitfalls
//
//   - The leader changes, but the signal does not move: one that was sent to a leader after its
//     wait stays pending in that thread. So signal_mask(), called before each wait, stores the new
//     leader and then reads the flag. If an interrupt is pending in any thread, the leader signals
//     itself. interrupt() sets the flag and then reads the leader. Both are seq_cst: either the
//     leader sees the flag, or the interrupter sees the leader (Dekker). The price is that a later
//     wait may return early.
//   - The number is a plain signal (SIGSTKFLT, which Linux never sends, or SIGURG) if the program
//     leaves one free, and a real-time signal otherwise. Real-time signals are queued one by one.
//     When the user's queue is full (RLIMIT_SIGPENDING, which wait strategies by signal fill), a
//     directed one is lost with EAGAIN. A plain signal is pending or not, and needs no queue.
//   - The default action of such a signal is to end the process. So a handler that does nothing is
//     installed where the program has none. It is never removed, because the signal may still be
//     pending somewhere. A signal that the program handles or ignores is left alone.
//   - The program may change the mask of its thread between two waits, as code does that saves a
//     mask and restores it. A signal that comes while it is not blocked is consumed outside of a
//     wait. So it is blocked anew before each wait, and then the flag is read: the leader signals
//     itself.
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <string>

#include "base/assert.hpp"
#include "baton/interrupt_strategy.hpp"
#include "demux/claim_signal.hpp"
#include "os/system.hpp"

namespace baton::demux {
namespace {

extern "C" void baton_interrupt_handler(int) {}

// Two strategies may share a number. The other's signal can only cause an early return.
Claim claim(const os::System& system, int number) noexcept {
  return claim_signal(system, number, baton_interrupt_handler);
}

class SignalInterruptStrategy final : public InterruptStrategy {
 public:
  SignalInterruptStrategy(const os::System& system, int number) noexcept
      : system_(system), number_(number) {}

  [[nodiscard]] std::string_view name() const noexcept override { return "signal"; }
  [[nodiscard]] NativeHandle descriptor() const noexcept override { return invalid_handle; }

  const SignalMask* signal_mask() noexcept override {
    sigset_t ours;
    sigemptyset(&ours);
    sigaddset(&ours, number_);
    const int error = system_.thread_sigmask(SIG_BLOCK, &ours, &waiting_.set);
    BATON_ASSERT(error == 0);
    sigdelset(&waiting_.set, number_);
    const std::uint64_t self = system_.thread_self();
    leader_.store(self, std::memory_order_seq_cst);
    if (pending_.load(std::memory_order_seq_cst)) static_cast<void>(send(self));
    return &waiting_;
  }

  void interrupt() noexcept override {
    // An exchange, as in reset: the leader acquires what every interrupter before it released,
    // those that found the flag set included. seq_cst: see Dekker at the head.
    if (pending_.exchange(true, std::memory_order_seq_cst)) return;
    const std::uint64_t leader = leader_.load(std::memory_order_seq_cst);
    if (leader == 0 || send(leader)) return;
    // The signal is lost: let the next interrupt try again.
    pending_.store(false, std::memory_order_seq_cst);
  }

  // The handler has consumed the signal, so only the flag is left.
  void reset() noexcept override { pending_.exchange(false, std::memory_order_seq_cst); }

  // A child inherits the handler and no pending signals, and shares nothing with the parent.
  Result<void, Failure> recreate() override {
    leader_.store(0, std::memory_order_relaxed);
    pending_.store(false, std::memory_order_relaxed);
    return {};
  }

 private:
  // False when the signal is lost, EAGAIN: the queue of real-time signals is full. ESRCH: the
  // thread is gone; the next leader sees the flag. EINVAL, EPERM: only a bug.
  bool send(std::uint64_t thread) noexcept {
    const int saved = errno;  // a signal handler must not change it
    const bool sent = system_.kill_thread(thread, number_) == 0 || errno != EAGAIN;
    errno = saved;
    return sent;
  }

  const os::System& system_;
  const int number_;
  SignalMask waiting_{};                  // the leader's, in its wait
  std::atomic<std::uint64_t> leader_{0};  // the last thread that asked for a mask
  std::atomic<bool> pending_{false};
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free, "used by signal handlers");
};

// Real-time signals start at SIGRTMIN + 6, because programs number theirs upwards from SIGRTMIN.
int free_number(const os::System& system) noexcept {
#ifdef SIGSTKFLT
  if (claim(system, SIGSTKFLT) == Claim::ours) return SIGSTKFLT;
#endif
  if (claim(system, SIGURG) == Claim::ours) return SIGURG;
  for (int number = SIGRTMIN + 6; number <= SIGRTMAX; ++number) {
    if (claim(system, number) == Claim::ours) return number;
  }
  return 0;
}

bool synchronous(int number) noexcept {
  constexpr std::array fatal{SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT};
  for (const int signal : fatal) {
    if (signal == number) return true;
  }
  return false;
}

Failure refused(int number, const char* why, ReasonCode code) {
  return {errc::bad_configuration,
          "signal " + std::to_string(number) + " cannot be the interrupt: " + why +
              "; choose another number, or eventfd or pipe",
          code};
}

}  // namespace

Result<std::unique_ptr<InterruptStrategy>, Failure> open_signal(const InterruptOptions& options) {
  const os::System& system = os::or_real(options.system);
  int number = options.signal_number;
  if (number == 0) {
    number = free_number(system);
    if (number == 0) {
      return unexpected{
          Failure{errc::engine_unavailable,
                  "no signal is free for the interrupt: the program uses SIGURG and " +
                      std::to_string(SIGRTMIN + 6) + " to " + std::to_string(SIGRTMAX) +
                      " itself; name a number",
                  ReasonCode::signal_taken}};
    }
  } else if (number < 0 || number > 64 || synchronous(number)) {
    return unexpected{refused(number, "it is not one to wait with", ReasonCode::bad_value)};
  } else if (const Claim answer = claim(system, number); answer != Claim::ours) {
    return unexpected{
        answer == Claim::taken
            ? refused(number, "the program uses it itself", ReasonCode::signal_taken)
            : refused(number, "the system does not let it be caught", ReasonCode::denied)};
  }
  return std::unique_ptr<InterruptStrategy>(new SignalInterruptStrategy(system, number));
}

}  // namespace baton::demux
