// No notification: the leader waits for the requests in flight in aio_suspend.
//
// Four points are not obvious:
//
//   - The list must not change while a thread waits on it, nor a control block that it names (see
//     request.hpp); a request that is started meanwhile is not waited for. Each start therefore
//     interrupts the wait, by one more request in the list: a read of an eventfd that only
//     interrupts write. If starts were deferred until the leader returns by itself, they would wait
//     for a slow disk, or the leader would have to poll.
//   - While that read is pending it holds one of the system's threads (glibc: of 20 for the whole
//     process, and no more are made when all of them wait). It is withdrawn when there is nothing
//     to wait for but interrupts: the leader then polls the eventfd itself, and so may a wait over
//     several engines. A seventeenth engine of this kind is refused, so that busy ones leave some
//     threads to work.
//   - If a limit (RLIMIT_NPROC) leaves the system a single thread, that read may keep it from the
//     requests queued behind. The read is therefore also withdrawn when nothing has completed for a
//     while; the thread then takes what is queued.
//   - A running read cannot be cancelled. It is withdrawn by writing to the eventfd. If a wait ends
//     otherwise, the read stays in flight for the next one, which another leader may begin.
#include <aio.h>
#include <errno.h>
#include <fcntl.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <new>
#include <string>
#include <utility>

#include "base/assert.hpp"
#include "engines/common/look.hpp"
#include "engines/posix_aio/notify.hpp"

namespace baton::engines::posix_aio {
namespace {

using namespace std::chrono_literals;

constexpr int engines_max = 16;
// Time between two checks while the system has no room even for the read of interrupts.
constexpr Duration slice = 1ms;
// Time without a completion after which the read of interrupts is withdrawn.
constexpr Duration stall = 100ms;

std::atomic<int> engines{0};

constexpr NotifyInfo facts{.name = "suspend", .interrupt_name = "eventfd", .list_is_fixed = true};

// The system points to this memory while the read is pending.
struct Interrupt {
  aiocb block{};
  std::uint64_t value = 0;
};

class SuspendStrategy final : public NotifyStrategy {
 public:
  SuspendStrategy(const os::System& system, int event, std::unique_ptr<Interrupt> made) noexcept
      : system_(system), event_(event), interrupt_(std::move(made)) {}

  ~SuspendStrategy() override {
    engines.fetch_sub(1, std::memory_order_relaxed);
    if (interrupt_ == nullptr) return;  // forked
    disarm();
    system_.close(event_);
  }

  [[nodiscard]] const NotifyInfo& info() const noexcept override { return facts; }
  void prepare(aiocb& block) noexcept override { block.aio_sigevent.sigev_notify = SIGEV_NONE; }

  void wait(WaitList& list, Deadline deadline) noexcept override {
    if (list.empty()) {
      disarm();
      return poll_event(deadline);
    }
    if (!arm()) {
      return poll_event(std::min(deadline, in(slice)));
    }
    BATON_ASSERT(list.size() < list.capacity());
    list.push_back(&interrupt_->block);
    timespec span{};
    // EAGAIN: the time is up. EINTR: a handler of the program ran. Either way the wait returns.
    const bool woken =
        system_.aio_suspend(list.data(), static_cast<int>(list.size()),
                            span_until(system_, std::min(deadline, stalled_), span)) == 0;
    if (woken) stalled_ = in(stall);
    if (system_.aio_error(&interrupt_->block) == EINPROGRESS) {
      if (stalled_ <= in(Duration{0})) disarm();
      return;
    }
    system_.aio_return(&interrupt_->block);
    armed_ = false;
    take_interrupt();
  }

  void interrupt() noexcept override {
    // acq_rel, here and in take_interrupt(): the leader acquires what every earlier interrupter
    // released, those that found the mark included.
    if (!pending_.exchange(true, std::memory_order_acq_rel)) write_event();
  }

  [[nodiscard]] NativeHandle descriptor() const noexcept override {
    return armed_ ? invalid_handle : event_;
  }

  // The thread that reads the event does not exist in the child, but the system's list still names
  // the block.
  void after_fork_in_child() noexcept override {
    system_.close(event_);
    static_cast<void>(interrupt_.release());
  }

 private:
  [[nodiscard]] Deadline in(Duration span) const noexcept {
    return Deadline::after(span, Deadline::at_ns(system_.monotonic_ns()));
  }

  bool arm() noexcept {
    if (armed_) return true;
    aiocb& block = interrupt_->block;
    block = aiocb{};
    block.aio_fildes = event_;
    block.aio_buf = &interrupt_->value;
    block.aio_nbytes = sizeof(interrupt_->value);
    block.aio_sigevent.sigev_notify = SIGEV_NONE;
    armed_ = system_.aio_read(&block) == 0;
    stalled_ = in(stall);
    return armed_;
  }

  // Consumes the event's value, and with it a pending interrupt. The mark of that interrupt stays
  // set, and poll_event checks it first.
  void disarm() noexcept {
    if (!armed_) return;
    write_event();
    // A read that lacks a thread and has not begun ends here, without a wait.
    system_.aio_cancel(event_, &interrupt_->block);
    const aiocb* const list[] = {&interrupt_->block};
    while (system_.aio_error(&interrupt_->block) == EINPROGRESS) {
      system_.aio_suspend(list, 1, nullptr);
    }
    system_.aio_return(&interrupt_->block);
    armed_ = false;
  }

  void poll_event(Deadline deadline) noexcept {
    timespec span{};
    // A marked interrupt has written, or will: if its value is consumed already, only the mark
    // tells.
    const bool marked = pending_.load(std::memory_order_acquire);
    const Deadline until = marked ? Deadline::immediately() : deadline;
    if (look(system_, event_, POLLIN, span_until(system_, until, span)) > 0) {
      system_.read(event_, &interrupt_->value, sizeof(interrupt_->value));
      take_interrupt();
    } else if (marked) {
      take_interrupt();
    }
  }

  void take_interrupt() noexcept { pending_.exchange(false, std::memory_order_acq_rel); }

  void write_event() noexcept {
    const int saved = errno;  // a signal handler must not change it
    const std::uint64_t one = 1;
    // Does not block: the counter stays far below its maximum, because interrupts coalesce.
    static_cast<void>(system_.write(event_, &one, sizeof(one)));
    errno = saved;
  }

  const os::System& system_;
  const int event_;  // in blocking mode, so that the read waits
  std::unique_ptr<Interrupt> interrupt_;
  bool armed_ = false;  // of the leader, as the next member
  Deadline stalled_ = Deadline::never();
  std::atomic<bool> pending_{false};
};

}  // namespace

Opened open_suspend(const os::System& system) {
  // relaxed: only a count; it publishes nothing else.
  if (engines.fetch_add(1, std::memory_order_relaxed) >= engines_max) {
    engines.fetch_sub(1, std::memory_order_relaxed);
    return unavailable(ReasonCode::unsuitable,
                       "this process has " + std::to_string(engines_max) +
                           " engines that wait in aio_suspend, each of which holds a thread of the "
                           "system's AIO; say notify=callback or notify=sigwait, which hold none");
  }
  std::unique_ptr<Interrupt> interrupt{new (std::nothrow) Interrupt};
  const bool has_memory = interrupt != nullptr;
  const int event = has_memory ? system.eventfd(0, O_CLOEXEC) : -1;
  std::unique_ptr<NotifyStrategy> made;
  if (event >= 0) {
    made.reset(new (std::nothrow) SuspendStrategy{system, event, std::move(interrupt)});
  }
  if (made != nullptr) return made;
  const int error = event < 0 && has_memory ? errno : ENOMEM;
  if (event >= 0) system.close(event);
  engines.fetch_sub(1, std::memory_order_relaxed);
  return unavailable(code_of(error), "no descriptor (`ulimit -n`) or memory left for interrupts: " +
                                         std::system_category().message(error));
}

}  // namespace baton::engines::posix_aio
