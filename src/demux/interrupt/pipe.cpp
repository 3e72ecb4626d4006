// Interrupt by a pipe (POSIX): a byte written to one end makes the other readable.
//
// An interrupt is sticky: the byte stays until reset. A flag coalesces interrupts, as in every
// descriptor interrupt: reset first drains, then clears the flag. An interrupt between the two
// finds the flag set and writes nothing. The wake-up that is being consumed covers it, since the
// leader looks for work after reset. So either the flag is clear, or the pipe is readable, or a
// thread between the two lines of interrupt is about to make it readable, or the leader is awake in
// reset.
//
// The flag keeps the pipe at one byte nearly always. Both ends are non-blocking all the same: a
// full pipe must not block a signal handler.
#include <fcntl.h>

#include <array>
#include <atomic>
#include <cerrno>

#include "baton/interrupt_strategy.hpp"
#include "os/system.hpp"

namespace baton::demux {
namespace {

class PipeInterruptStrategy final : public InterruptStrategy {
 public:
  explicit PipeInterruptStrategy(const os::System& system) noexcept : system_(system) {}
  ~PipeInterruptStrategy() override { close_all(); }

  [[nodiscard]] std::string_view name() const noexcept override { return "pipe"; }
  [[nodiscard]] NativeHandle descriptor() const noexcept override { return ends_[0]; }

  void interrupt() noexcept override {
    // acq_rel, here and in reset: both are read-modify-writes of one word, so that the leader's
    // reset acquires what every interrupter before it released, those that found the flag set
    // included.
    if (pending_.exchange(true, std::memory_order_acq_rel)) return;
    const int saved = errno;  // a signal handler must not change it
    const char byte = 0;
    // EAGAIN: the pipe is full, so it is readable. EINTR is impossible without blocking, and EPIPE
    // because the other end is open here. EBADF: only a bug.
    static_cast<void>(system_.write(ends_[1], &byte, 1));
    errno = saved;
  }

  void reset() noexcept override {
    // One read usually empties the pipe: each further byte needs another thread that is between the
    // two lines of interrupt during a reset. A byte that is left over only ends the next wait.
    std::array<char, 64> bytes;
    // EAGAIN: nothing was written yet. The others as in interrupt.
    static_cast<void>(system_.read(ends_[0], bytes.data(), bytes.size()));
    pending_.exchange(false, std::memory_order_acq_rel);
  }

  Result<void, Failure> recreate() override {
    close_all();
    pending_.store(false, std::memory_order_relaxed);  // one thread in the child
    if (system_.pipe2(ends_.data(), O_NONBLOCK | O_CLOEXEC) == 0) return {};
    // EMFILE, ENFILE: limits, also of the user's pipe pages. EFAULT, EINVAL: only a bug.
    const std::error_code error{errno, std::system_category()};
    ends_ = {invalid_handle, invalid_handle};
    return unexpected{Failure{error, "pipe2: " + error.message()}};
  }

 private:
  void close_all() noexcept {
    for (int& end : ends_) {
      if (end != invalid_handle) static_cast<void>(system_.close(end));
      end = invalid_handle;
    }
  }

  const os::System& system_;
  std::array<int, 2> ends_{invalid_handle, invalid_handle};  // read, write
  std::atomic<bool> pending_{false};
  static_assert(std::atomic<bool>::is_always_lock_free, "interrupt is called by signal handlers");
};

}  // namespace

Result<std::unique_ptr<InterruptStrategy>, Failure> open_pipe(const InterruptOptions& options) {
  auto strategy = std::make_unique<PipeInterruptStrategy>(os::or_real(options.system));
  if (auto made = strategy->recreate(); !made) return unexpected{made.error()};
  return std::unique_ptr<InterruptStrategy>(std::move(strategy));
}

}  // namespace baton::demux
