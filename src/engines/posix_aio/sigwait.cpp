// Notification by a real-time signal, which the leader collects with sigtimedwait.
//
// Four points are not obvious:
//
//   - The signal goes to the process. It stays pending until a thread waits for it, so interrupts
//     are sticky, and any thread may be the next leader. But every thread has to block it: the
//     kernel could deliver it to one that does not, and the default action would end the program.
//     Opening checks all threads and refuses, naming the one. Later threads inherit the mask of the
//     thread that makes them.
//   - Some threads unblock it all the same: those that unblock every signal, and glibc's own
//     threads of SIGEV_THREAD. An empty handler keeps them from ending the program. The leader does
//     not see a signal that it takes, nor one that finds the user's queue full (RLIMIT_SIGPENDING);
//     notify.hpp says why neither loses an operation.
//   - Two engines cannot share a number: one would take the other's signals. Each has its own. The
//     numbers are counted from SIGRTMAX downwards; programs count from SIGRTMIN upwards.
//   - An interrupt goes to the leader's thread, because a thread that does not block the signal
//     could take one sent to the process. If that fails, it goes to the process by kill(2), the
//     only way to send a signal that a full queue cannot refuse.
#include <aio.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>

#include <atomic>
#include <cstdint>
#include <new>
#include <string>
#include <utility>

#include "base/assert.hpp"
#include "engines/posix_aio/notify.hpp"
#include "engines/posix_aio/request.hpp"
#include "engines/posix_aio/thread_masks.hpp"

namespace baton::engines::posix_aio {
namespace {

constexpr NotifyInfo facts{.name = "sigwait", .interrupt_name = "signal", .may_be_lost = true};
constexpr timespec no_time{};

extern "C" void baton_aio_handler(int) {}

// Linux has fewer than 32 real-time signals.
std::uint32_t bit_of(int number) noexcept { return std::uint32_t{1} << (SIGRTMAX - number); }

/// The numbers that engines of this process use.
std::atomic<std::uint32_t> numbers_in_use{0};

sigset_t set_of(int number) noexcept {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, number);
  return set;
}

class SigwaitStrategy final : public NotifyStrategy {
 public:
  SigwaitStrategy(const os::System& system, int number, int event) noexcept
      : system_(system), number_(number), set_(set_of(number)), event_(event) {}

  ~SigwaitStrategy() override {
    if (event_ >= 0) system_.close(event_);
    collect();  // the next engine with this number need not see them
    numbers_in_use.fetch_and(~bit_of(number_), std::memory_order_relaxed);
  }

  [[nodiscard]] const NotifyInfo& info() const noexcept override { return facts; }

  void prepare(aiocb& block) noexcept override {
    block.aio_sigevent.sigev_notify = SIGEV_SIGNAL;
    block.aio_sigevent.sigev_signo = number_;
  }

  void wait(WaitList&, Deadline deadline) noexcept override {
    // Before each wait, for a program may give its thread back a mask that it saved earlier.
    const int error = system_.thread_sigmask(SIG_BLOCK, &set_, nullptr);
    BATON_ASSERT(error == 0);
    // seq_cst, both: either this thread sees the flag, or the interrupter sees this thread.
    leader_.store(system_.thread_self(), std::memory_order_seq_cst);
    if (pending_.load(std::memory_order_seq_cst)) deadline = Deadline::immediately();
    timespec span{};
    // EAGAIN: the time is up. EINTR: a handler of the program ran.
    if (system_.sigtimedwait(&set_, nullptr, span_until(system_, deadline, span)) > 0) collect();
    // After the pending signals are taken, before the requests are checked. acq_rel, as in
    // interrupt(): the leader acquires what every earlier interrupter released.
    pending_.exchange(false, std::memory_order_acq_rel);
  }

  void interrupt() noexcept override {
    if (pending_.exchange(true, std::memory_order_seq_cst)) return;
    const int saved = errno;  // a signal handler must not change it
    const std::uint64_t leader = leader_.load(std::memory_order_seq_cst);
    if (leader == 0 || system_.kill_thread(leader, number_) != 0) {
      system_.kill(system_.getpid(), number_);
    }
    errno = saved;
  }

  // A signalfd that is only polled: it is readable while the signal is pending.
  [[nodiscard]] NativeHandle descriptor() const noexcept override { return event_; }

  void after_fork_in_child() noexcept override { system_.close(std::exchange(event_, -1)); }

 private:
  // One check of the requests serves all queued signals.
  void collect() noexcept {
    for (std::uint32_t i = 0; i < operations_max; ++i) {
      if (system_.sigtimedwait(&set_, nullptr, &no_time) <= 0) return;
    }
  }

  const os::System& system_;
  const int number_;
  const sigset_t set_;
  int event_;
  std::atomic<std::uint64_t> leader_{0};  // the last thread that has waited
  std::atomic<bool> pending_{false};
};

// -- opening --------------------------------------------------------------------------------------

unexpected<Failure> refused(int number, ReasonCode code, const std::string& why) {
  return unavailable(code, "signal " + std::to_string(number) + " " + why);
}

bool claim(int number) noexcept {
  // relaxed: the bit itself is all that is shared.
  return (numbers_in_use.fetch_or(bit_of(number), std::memory_order_relaxed) & bit_of(number)) == 0;
}

/// A number is free if its action is the default one or our handler.
bool take_action(const os::System& system, int number) noexcept {
  struct sigaction now{};
  if (system.sigaction(number, nullptr, &now) != 0) return false;
  const bool without_info = (now.sa_flags & SA_SIGINFO) == 0;
  if (without_info && now.sa_handler == baton_aio_handler) return true;
  if (!without_info || now.sa_handler != SIG_DFL) return false;
  struct sigaction action{};
  action.sa_handler = baton_aio_handler;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  return system.sigaction(number, &action, nullptr) == 0;
}

/// A claimed number; released unless it is kept.
class Number {
 public:
  explicit Number(int number) noexcept : number_(number) {}
  ~Number() {
    if (number_ != 0) numbers_in_use.fetch_and(~bit_of(number_), std::memory_order_relaxed);
  }
  Number(const Number&) = delete;
  Number& operator=(const Number&) = delete;
  [[nodiscard]] int get() const noexcept { return number_; }
  void keep() noexcept { number_ = 0; }

 private:
  int number_;
};

int claim_free(const os::System& system) noexcept {
  for (int number = SIGRTMAX; number > SIGRTMIN; --number) {
    if (!claim(number)) continue;
    if (take_action(system, number)) return number;
    numbers_in_use.fetch_and(~bit_of(number), std::memory_order_relaxed);
  }
  return 0;
}

Opened open_with(const os::System& system, Number& number) {
  const sigset_t set = set_of(number.get());
  sigset_t before;
  // Threads that this one makes from now on inherit the mask.
  if (const int error = system.thread_sigmask(SIG_BLOCK, &set, &before); error != 0) {
    return refused(number.get(), code_of(error), "cannot be blocked");
  }
  const auto open = thread_with_signal_open(system, number.get());
  if (open) {
    system.thread_sigmask(SIG_SETMASK, &before, nullptr);
    return refused(number.get(), ReasonCode::signal_taken,
                   "is not blocked in thread " + std::to_string(open->tid) + " (" + open->name +
                       "), which it would hit; open the proactor before other threads are "
                       "started, or block the signal in all of them (pthread_sigmask), or say "
                       "notify=suspend");
  }
  const int event = system.signalfd(-1, &set, O_CLOEXEC | O_NONBLOCK);
  if (event < 0) {
    const int error = errno;
    system.thread_sigmask(SIG_SETMASK, &before, nullptr);
    return refused(
        number.get(), code_of(error),
        "has no descriptor left for it (`ulimit -n`): " + std::system_category().message(error));
  }
  std::unique_ptr<NotifyStrategy> made{new (std::nothrow)
                                           SigwaitStrategy{system, number.get(), event}};
  if (made == nullptr) {
    system.close(event);
    system.thread_sigmask(SIG_SETMASK, &before, nullptr);
    return refused(number.get(), ReasonCode::limit_memory, "has no memory left for it");
  }
  number.keep();
  return made;
}

}  // namespace

Opened open_sigwait(const os::System& system, int signal_number) {
  if (signal_number == 0) {
    Number number{claim_free(system)};
    if (number.get() != 0) return open_with(system, number);
    return unavailable(ReasonCode::signal_taken,
                       "no real-time signal is free; every engine of notify=sigwait needs its own");
  }
  if (signal_number < SIGRTMIN || signal_number > SIGRTMAX) {
    return refused(signal_number, ReasonCode::bad_value,
                   "is no real-time signal: only those are queued; valid: " +
                       std::to_string(SIGRTMIN) + " to " + std::to_string(SIGRTMAX));
  }
  if (!claim(signal_number)) {
    return refused(signal_number, ReasonCode::signal_taken,
                   "belongs to another engine of this process, and each needs its own; "
                   "wait_signal=0 takes a free one");
  }
  Number number{signal_number};
  if (!take_action(system, signal_number)) {
    return refused(signal_number, ReasonCode::signal_taken, "has a handler of the program");
  }
  return open_with(system, number);
}

}  // namespace baton::engines::posix_aio
