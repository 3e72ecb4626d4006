// epoll (Linux). The kernel keeps the set and reports only what is ready, so the cost of a wait
// grows with the number of events. Level-triggered: a descriptor that stays ready is reported again
// and moves to the end of the kernel's list, so a small report array starves no descriptor.
//
// Pitfalls
//
//   - EPOLLERR and EPOLLHUP are reported even when nothing is asked for. After a hang-up, a
//     descriptor without interest would end every wait at once. So it is not in the kernel's set.
//   - EPOLLRDHUP is not used. After a half close the descriptor is readable anyway (read gives 0),
//     and RDHUP would wake a writer although only reading has changed.
//   - The set holds open files and not numbers: a closed descriptor leaves it only when its last
//     duplicate is closed. Until then it reports for ever and cannot be removed, since its number
//     is gone. So detach comes before close, and reports carry a generation. The owner of a
//     borrowed descriptor may close it, so it is watched for one report at a time (EPOLLONESHOT).
//     After a report it is silent, hang-ups included, until it is armed again.
//   - The timeout counts milliseconds and is rounded up, so a wait may end a millisecond late but
//     never early. epoll_pwait2 would be exact, but needs Linux 5.11 and glibc 2.35.
//
// No lock is needed: the kernel has its own. add, modify and remove take effect in a running wait.
#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <new>

#include "base/assert.hpp"
#include "baton/limits.hpp"
#include "baton/wait_strategy.hpp"
#include "demux/wait/common.hpp"

namespace baton::demux {
namespace {

constexpr WaitStrategyInfo facts{.name = "epoll",
                                 .trigger = Trigger::level,
                                 .changes_during_wait = true,
                                 .takes_signal_mask = true,
                                 .forgets_closed = true,
                                 .watches_once = true};

epoll_event event_of(Interest interest, Token token) noexcept {
  epoll_event event{};
  if (any(interest & Interest::in)) event.events |= EPOLLIN;
  if (any(interest & Interest::out)) event.events |= EPOLLOUT;
  if (any(interest & Interest::urgent)) event.events |= EPOLLPRI;
  event.data.u64 = std::bit_cast<std::uint64_t>(token);
  return event;
}

void report_of(const epoll_event& event, Report& report) noexcept {
  static_assert(EPOLLIN == 1 && EPOLLPRI == 2 && EPOLLOUT == 4 && Interest::in == Interest{1} &&
                Interest::out == Interest{2} && Interest::urgent == Interest{4});
  const std::uint32_t events = event.events;
  report.token = std::bit_cast<Token>(std::uint64_t{event.data.u64});
  report.ready = Interest::in;
  if (BATON_LIKELY(events == EPOLLIN)) return;
  report.ready = static_cast<Interest>((events & 1U) | ((events >> 1) & 2U) | ((events << 1) & 4U));
  if ((events & (EPOLLERR | EPOLLHUP)) != 0) report.ready = report.ready | Interest::both;
}

// Milliseconds, rounded up. A time longer than an int holds (24 days) is cut, and the wait repeats.
// REQUIRES: the deadline is not never().
int milliseconds(const os::System& system, Deadline deadline) noexcept {
  constexpr std::int64_t ns_per_ms = 1'000'000;
  const std::int64_t ns = time_left(system, deadline).count();
  const std::int64_t ms = ns / ns_per_ms + (ns % ns_per_ms != 0 ? 1 : 0);
  return static_cast<int>(std::min<std::int64_t>(ms, std::numeric_limits<int>::max()));
}

class EpollWaitStrategy final : public WaitStrategy {
 public:
  EpollWaitStrategy(const os::System& system, int epoll) noexcept
      : system_(system), epoll_(epoll) {}
  ~EpollWaitStrategy() override { close_set(); }

  [[nodiscard]] const WaitStrategyInfo& info() const noexcept override { return facts; }

  std::error_code add(NativeHandle fd, Interest interest, Token token) noexcept override {
    if (!any(interest)) return {};
    return control(EPOLL_CTL_ADD, fd, interest, token);
  }

  std::error_code add_edge(NativeHandle fd, Token token) noexcept override {
    return control(EPOLL_CTL_ADD, fd, Interest::in, token, EPOLLET);
  }

  std::error_code watch_once(NativeHandle fd, Interest interest, Token token,
                             bool again) noexcept override {
    BATON_ASSERT(any(interest));
    return again ? change(fd, interest, token, EPOLLONESHOT)
                 : control(EPOLL_CTL_ADD, fd, interest, token, EPOLLONESHOT);
  }

  std::error_code modify(NativeHandle fd, Interest interest, Token token) noexcept override {
    return any(interest) ? change(fd, interest, token) : remove(fd);
  }

  std::error_code remove(NativeHandle fd) noexcept override {
    const std::error_code error = control(EPOLL_CTL_DEL, fd, Interest::none, {});
    return error == std::errc::no_such_file_or_directory ? std::error_code{} : error;
  }

  Result<std::size_t> wait(std::span<Report> reports, Deadline deadline,
                           const SignalMask* unblocked) noexcept override {
    BATON_ASSERT(!reports.empty());
    const int count_max = static_cast<int>(std::min(reports.size(), events_.size()));
    const sigset_t* mask = unblocked != nullptr ? &unblocked->set : nullptr;
    for (;;) {
      const int timeout = deadline.is_never() ? -1 : milliseconds(system_, deadline);
      const int count = system_.epoll_pwait(epoll_, events_.data(), count_max, timeout, mask);
      if (BATON_UNLIKELY(count < 0)) return failed();
      if (BATON_UNLIKELY(count == 0) && timeout == std::numeric_limits<int>::max()) continue;
      const epoll_event* const end = events_.data() + count;
      Report* report = reports.data();
      for (const epoll_event* event = events_.data(); event != end; ++event, ++report) {
        report_of(*event, *report);
      }
      return static_cast<std::size_t>(count);
    }
  }

  [[nodiscard]] NativeHandle descriptor() const noexcept override { return epoll_; }

  // The parent shares the set, so nothing is removed from it. Only this process's descriptor of it
  // is closed.
  void after_fork_in_child() noexcept override { close_set(); }

 private:
  // Adds a descriptor that is not in the set: it had no interest, or its owner has closed it and
  // the number belongs to another file.
  std::error_code change(NativeHandle fd, Interest interest, Token token,
                         std::uint32_t trigger = 0) noexcept {
    const std::error_code error = control(EPOLL_CTL_MOD, fd, interest, token, trigger);
    if (BATON_LIKELY(!error) || error != std::errc::no_such_file_or_directory) return error;
    return control(EPOLL_CTL_ADD, fd, interest, token, trigger);
  }

  // EPERM: a file without readiness. ENOMEM, ENOSPC (/proc/sys/fs/epoll/max_user_watches), EBADF,
  // EEXIST (registered twice under one number), ENOENT, ELOOP (an epoll in itself): the caller's
  // answer. EINVAL: only a bug, or an epoll that would watch itself.
  std::error_code control(int operation, NativeHandle fd, Interest interest, Token token,
                          std::uint32_t trigger = 0) noexcept {
    BATON_ASSERT(fd >= 0);
    BATON_ASSERT(epoll_ != invalid_handle);
    epoll_event event = event_of(interest, token);
    event.events |= trigger;
    if (system_.epoll_ctl(epoll_, operation, fd, &event) == 0) return {};
    return system_error();
  }

  // EINTR: zero reports. EBADF, EINVAL, EFAULT: the program has closed our descriptor, or a bug.
  static Result<std::size_t> failed() noexcept {
    if (errno == EINTR) return std::size_t{0};
    return unexpected{system_error()};
  }

  void close_set() noexcept {
    if (epoll_ != invalid_handle) static_cast<void>(system_.close(epoll_));
    epoll_ = invalid_handle;
  }

  const os::System& system_;
  int epoll_;
  std::array<epoll_event, limits::reports_max> events_;  // one thread waits at a time
};

}  // namespace

Result<std::unique_ptr<WaitStrategy>, Failure> open_epoll(const WaitOptions& options) {
  const os::System& system = os::or_real(options.system);
  const int epoll = system.epoll_create1(EPOLL_CLOEXEC);
  if (epoll < 0) {
    // EMFILE, ENFILE, ENOMEM: limits. ENOSYS, EPERM: no epoll, or a filter of system calls.
    const std::error_code error = system_error();
    return unexpected{Failure{error, "epoll_create1: " + error.message()}};
  }
  std::unique_ptr<WaitStrategy> made(new (std::nothrow) EpollWaitStrategy(system, epoll));
  if (made != nullptr) return made;
  static_cast<void>(system.close(epoll));
  return unexpected{Failure{std::make_error_code(std::errc::not_enough_memory), "no memory"}};
}

}  // namespace baton::demux
