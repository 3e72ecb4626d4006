// Interrupt by eventfd (Linux), a counter behind one descriptor. A write makes it readable, and one
// read drains it.
//
// An interrupt is sticky: the counter keeps its value until reset. A flag coalesces interrupts, so
// that many of them cost one system call. The order in reset is the tricky piece: first drain, then
// clear the flag. An interrupt between the two finds the flag set and writes nothing. The wake-up
// that is being consumed covers it, since the leader looks for work after reset. In the opposite
// order its write would be drained while its flag stays set, and no later interrupt would write. So
// either the flag is clear, or the descriptor is readable, or a thread between the two lines of
// interrupt is about to make it readable, or the leader is awake in reset.
#include <sys/eventfd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>

#include "baton/interrupt_strategy.hpp"
#include "os/system.hpp"

namespace baton::demux {
namespace {

class EventfdInterruptStrategy final : public InterruptStrategy {
 public:
  explicit EventfdInterruptStrategy(const os::System& system) noexcept : system_(system) {}
  ~EventfdInterruptStrategy() override { close_all(); }

  [[nodiscard]] std::string_view name() const noexcept override { return "eventfd"; }
  [[nodiscard]] NativeHandle descriptor() const noexcept override { return event_; }

  void interrupt() noexcept override {
    // acq_rel, here and in reset: both are read-modify-writes of one word, so that the leader's
    // reset acquires what every interrupter before it released, those that found the flag set
    // included.
    if (pending_.exchange(true, std::memory_order_acq_rel)) return;
    const int saved = errno;  // a signal handler must not change it
    const std::uint64_t one = 1;
    // EAGAIN: the counter is full, so the descriptor is readable. EINTR is impossible without
    // blocking. EBADF, EINVAL: only a bug.
    static_cast<void>(system_.write(event_, &one, sizeof one));
    errno = saved;
  }

  void reset() noexcept override {
    std::uint64_t count = 0;
    // EAGAIN: nothing was written yet. The others as in interrupt.
    static_cast<void>(system_.read(event_, &count, sizeof count));
    pending_.exchange(false, std::memory_order_acq_rel);
  }

  // With an edge trigger each write is reported, and the counter has room for 500 years of them. As
  // in reset, the wake-up that is being consumed covers an interrupt that finds the flag set.
  [[nodiscard]] bool tells_anew() const noexcept override { return true; }
  void acknowledge() noexcept override { pending_.exchange(false, std::memory_order_acq_rel); }

  Result<void, Failure> recreate() override {
    close_all();
    pending_.store(false, std::memory_order_relaxed);  // one thread in the child
    event_ = system_.eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (event_ >= 0) return {};
    // EMFILE, ENFILE, ENOMEM, ENODEV: limits. ENOSYS, EPERM: no eventfd, or a filter of system
    // calls.
    const std::error_code error{errno, std::system_category()};
    return unexpected{Failure{error, "eventfd: " + error.message()}};
  }

 private:
  void close_all() noexcept {
    if (event_ != invalid_handle) static_cast<void>(system_.close(event_));
    event_ = invalid_handle;
  }

  const os::System& system_;
  int event_ = invalid_handle;
  std::atomic<bool> pending_{false};
  static_assert(std::atomic<bool>::is_always_lock_free, "interrupt is called by signal handlers");
};

}  // namespace

Result<std::unique_ptr<InterruptStrategy>, Failure> open_eventfd(const InterruptOptions& options) {
  auto strategy = std::make_unique<EventfdInterruptStrategy>(os::or_real(options.system));
  if (auto made = strategy->recreate(); !made) return unexpected{made.error()};
  return std::unique_ptr<InterruptStrategy>(std::move(strategy));
}

}  // namespace baton::demux
