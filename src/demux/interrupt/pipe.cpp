// Interrupt by a pipe (POSIX): a byte written to one end makes the other readable.
//
// Sticky because the byte stays until reset. Coalescing by a flag, as in every descriptor
// interrupt: reset first drains, then clears the flag. An interrupt between the two finds the flag
// still set and writes nothing; the wake-up that is being consumed covers it, since the leader
// looks for work after reset. So either the flag is clear, or the pipe is readable, or a thread
// between the two lines of interrupt is about to make it so, or the leader is awake, in reset.
//
// Because of the flag there are rarely two bytes in the pipe; both ends are non-blocking all the
// same, for a full pipe must not block a signal handler.
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
    // EAGAIN (full) is readable, too. EINTR is not possible without blocking. EPIPE is not, since
    // we hold the other end. EBADF: only a bug.
    static_cast<void>(system_.write(ends_[1], &byte, 1));
    errno = saved;
  }

  void reset() noexcept override {
    // A write that came between a reset's drain and its clearing adds a byte; more than a few need
    // as many threads standing there, so one read empties it. If not, the rest only ends the next
    // wait.
    std::array<char, 64> bytes;
    // EAGAIN: nothing was written yet. The rest as above.
    static_cast<void>(system_.read(ends_[0], bytes.data(), bytes.size()));
    pending_.exchange(false, std::memory_order_acq_rel);
  }

  Result<void, Failure> recreate() override {
    close_all();
    pending_.store(false, std::memory_order_relaxed);  // one thread in the child
    if (system_.pipe2(ends_.data(), O_NONBLOCK | O_CLOEXEC) == 0) return {};
    // EMFILE, ENFILE: limits, of the user's pipe pages also. EFAULT, EINVAL: only a bug.
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
