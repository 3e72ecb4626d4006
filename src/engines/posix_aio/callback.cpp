// Notification by callback: SIGEV_THREAD, a thread of the C library for each request. It writes to
// an eventfd, the bell, on which the leader waits. This strategy therefore has a descriptor, and
// notices requests that are started while it waits.
//
// Three points are not obvious:
//
//   - glibc makes a new thread for each notification, with every signal unblocked, and gives up
//     silently if it cannot make one (may_be_lost).
//   - Such a thread may run long after its request was found complete, even after the engine is
//     gone. It touches only the bell, which counts the threads that may still come. The destructor
//     waits for them a moment. If one does not come, the bell is never freed. A lost notification
//     costs a descriptor and a few bytes, instead of a write to the descriptor of another file.
//   - ThreadSanitizer does not know these threads: see BATON_TSAN_FOREIGN_THREAD.
#include <aio.h>
#include <errno.h>
#include <fcntl.h>

#include <cstdint>
#include <new>
#include <utility>

#include "base/tsan.hpp"
#include "engines/common/look.hpp"
#include "engines/posix_aio/notify.hpp"

namespace baton::engines::posix_aio {
namespace {

constexpr NotifyInfo facts{.name = "callback", .interrupt_name = "eventfd", .may_be_lost = true};
constexpr int leave_looks_max = 1'000;  // a millisecond each
constexpr timespec look_span{.tv_sec = 0, .tv_nsec = 1'000'000};

struct Bell {
  const os::System* system;
  int event;
  // Requests whose thread has not finished yet. Uses the compiler's built-ins: the members of
  // std::atomic may be functions, and the program's copies of them may be instrumented.
  std::uint32_t expected;
};

BATON_TSAN_FOREIGN_THREAD void ring_bell(const Bell& bell) noexcept {
  const std::uint64_t one = 1;
  // EAGAIN: the counter is at its maximum, so the bell has rung. No other error is possible.
  static_cast<void>(bell.system->write(bell.event, &one, sizeof(one)));
}

BATON_TSAN_FOREIGN_THREAD void on_done(sigval value) noexcept {
  Bell* const bell = static_cast<Bell*>(value.sival_ptr);
  ring_bell(*bell);
  // release: all uses of the bell happen before the destructor sees the count. Nothing may follow.
  __atomic_fetch_sub(&bell->expected, 1, __ATOMIC_RELEASE);
}

class CallbackStrategy final : public NotifyStrategy {
 public:
  explicit CallbackStrategy(std::unique_ptr<Bell> bell) noexcept : bell_(std::move(bell)) {}

  ~CallbackStrategy() override {
    if (bell_ == nullptr) return;  // forked
    const os::System& system = *bell_->system;
    for (int i = 0; expected() > 0 && i < leave_looks_max; ++i) {
      system.ppoll(nullptr, 0, &look_span, nullptr);
    }
    if (expected() > 0) {
      static_cast<void>(bell_.release());
    } else {
      system.close(bell_->event);
    }
  }

  [[nodiscard]] const NotifyInfo& info() const noexcept override { return facts; }

  void prepare(aiocb& block) noexcept override {
    block.aio_sigevent.sigev_notify = SIGEV_THREAD;
    block.aio_sigevent.sigev_notify_function = on_done;
    block.aio_sigevent.sigev_value.sival_ptr = bell_.get();
    __atomic_fetch_add(&bell_->expected, 1, __ATOMIC_RELAXED);
  }
  void not_taken() noexcept override { __atomic_fetch_sub(&bell_->expected, 1, __ATOMIC_RELAXED); }

  void wait(WaitList&, Deadline deadline) noexcept override {
    const os::System& system = *bell_->system;
    timespec span{};
    // EINTR, 0: the wait returns.
    if (look(system, bell_->event, POLLIN, span_until(system, deadline, span)) <= 0) return;
    std::uint64_t rings = 0;
    // Before the requests are checked: one that completes after the check rings again.
    static_cast<void>(system.read(bell_->event, &rings, sizeof(rings)));
  }

  void interrupt() noexcept override {
    const int saved = errno;  // a signal handler must not change it
    ring_bell(*bell_);
    errno = saved;
  }

  [[nodiscard]] NativeHandle descriptor() const noexcept override { return bell_->event; }

  void after_fork_in_child() noexcept override {
    bell_->system->close(bell_->event);
    bell_.reset();  // no thread of the parent's is here to ring it
  }

 private:
  [[nodiscard]] std::uint32_t expected() const noexcept {
    return __atomic_load_n(&bell_->expected, __ATOMIC_ACQUIRE);
  }

  std::unique_ptr<Bell> bell_;
};

}  // namespace

Opened open_callback(const os::System& system) {
#ifdef BATON_TSAN
  // The C library's thread allocates before it calls on_done, which ends the program there.
  return unavailable(ReasonCode::not_built,
                     "notify=callback does not go with ThreadSanitizer, which does not know the "
                     "threads that the C library makes for itself; use suspend or sigwait");
#endif
  const int event = system.eventfd(0, O_CLOEXEC | O_NONBLOCK);
  const int error = event < 0 ? errno : ENOMEM;
  std::unique_ptr<Bell> bell;
  if (event >= 0) bell.reset(new (std::nothrow) Bell{&system, event, 0});
  std::unique_ptr<NotifyStrategy> made;
  if (bell != nullptr) made.reset(new (std::nothrow) CallbackStrategy{std::move(bell)});
  if (made != nullptr) return made;
  if (event >= 0) system.close(event);
  return unavailable(code_of(error),
                     "no descriptor (`ulimit -n`) or memory left for notifications: " +
                         std::system_category().message(error));
}

}  // namespace baton::engines::posix_aio
