// A wait strategy on io_uring's poll requests (IORING_OP_POLL_ADD, one-shot). It was written from
// docs/porting/wait_strategy.md alone, to show that the page suffices, and is the only one-shot
// strategy. It registers itself, as a user's strategy would, and the suites next to this file run
// on it. It is not built in, because epoll is simpler and as fast. Its ring layer is that of the
// io_uring engine.
//
// Each watched descriptor has one poll request. Its completion is the report and comes once. modify
// makes a new request, which completes at once if the descriptor is ready.
//
// Four points are not obvious:
//
//   - A request belongs to the thread that submitted it, and the kernel cancels it when that thread
//     ends. The waiting thread then submits it again.
//   - A completion may come after modify or remove has replaced its request. The user_data of a
//     request holds the descriptor and a sequence number, and only the newest request counts.
//   - A removal also completes, without a report. A wait that finds nothing else continues.
//   - A request holds its file open. A descriptor that was closed without remove is not reported
//     any more, and its file stays open until remove.
#include <poll.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "../selection.hpp"
#include "base/assert.hpp"
#include "baton/limits.hpp"
#include "baton/registry.hpp"
#include "baton/wait_strategy.hpp"
#include "engines/io_uring/ring.hpp"
#include "os/mutex.hpp"

namespace baton::test {
namespace {

namespace uring = engines::uring;

constexpr std::string_view strategy_name = "uring_poll";
constexpr WaitStrategyInfo facts{.name = strategy_name,
                                 .trigger = Trigger::one_shot,
                                 .changes_during_wait = true,
                                 .forgets_closed = true};

constexpr std::uint32_t requests_max = 256;  // handed in at once, mostly one by one
constexpr std::uint32_t completions_max = 32'768;

std::error_code system_error(int number = errno) noexcept {
  return {number, std::system_category()};
}

std::uint32_t events_of(Interest interest) noexcept {
  std::uint32_t events = 0;
  if (any(interest & Interest::in)) events |= POLLIN;
  if (any(interest & Interest::out)) events |= POLLOUT;
  if (any(interest & Interest::urgent)) events |= POLLPRI;
  return events;
}

// A request that failed says nothing about readiness: the caller finds the reason by trying the
// operation.
Interest readiness_of(int result) noexcept {
  if (result < 0) return Interest::both;
  Interest ready = Interest::none;
  if ((result & POLLIN) != 0) ready = ready | Interest::in;
  if ((result & POLLOUT) != 0) ready = ready | Interest::out;
  if ((result & POLLPRI) != 0) ready = ready | Interest::urgent;
  if ((result & (POLLERR | POLLHUP | POLLNVAL)) != 0) ready = ready | Interest::both;
  return ready;
}

class UringPollWaitStrategy final : public WaitStrategy {
 public:
  UringPollWaitStrategy(const os::System& system, std::unique_ptr<uring::Ring> ring) noexcept
      : system_(system), ring_(std::move(ring)) {}

  [[nodiscard]] const WaitStrategyInfo& info() const noexcept override { return facts; }

  std::error_code add(NativeHandle fd, Interest interest, Token token) noexcept override {
    BATON_ASSERT(fd >= 0);
    const os::LockGuard lock(mutex_, system_);
    if (!make_room(fd)) return std::make_error_code(std::errc::not_enough_memory);
    Watched& watched = watched_[static_cast<std::size_t>(fd)];
    if (watched.known) return std::make_error_code(std::errc::file_exists);
    watched.known = true;
    watched.token = token;
    watched.interest = interest;
    const std::error_code error = arm(fd, watched);
    if (error) watched.known = false;
    return error;
  }

  std::error_code modify(NativeHandle fd, Interest interest, Token token) noexcept override {
    const os::LockGuard lock(mutex_, system_);
    Watched* const watched = find(fd);
    if (watched == nullptr) return std::make_error_code(std::errc::no_such_file_or_directory);
    disarm(fd, *watched);
    watched->token = token;
    watched->interest = interest;
    return arm(fd, *watched);
  }

  std::error_code remove(NativeHandle fd) noexcept override {
    const os::LockGuard lock(mutex_, system_);
    Watched* const watched = find(fd);
    if (watched == nullptr) return {};
    disarm(fd, *watched);
    watched->known = false;
    return hand_in();
  }

  Result<std::size_t> wait(std::span<Report> reports, Deadline deadline,
                           const SignalMask*) noexcept override {
    BATON_ASSERT(!reports.empty());
    for (;;) {
      const bool at_hand =
          ring_->has_completions() && !ring_->needs_kernel() && ring_->unsubmitted() == 0;
      const uring::Entered entered =
          at_hand ? uring::Entered::done : ring_->submit_and_wait(deadline);
      // EBADF, EINVAL, EPERM: the ring was closed by foreign code, a bug, or a filter.
      if (entered == uring::Entered::refused) return unexpected{system_error()};
      const std::size_t count = collect(reports);
      const bool goes_on = entered == uring::Entered::done && !deadline_has_passed(deadline);
      if (count > 0 || !goes_on) return count;
    }
  }

  void after_fork_in_child() noexcept override { ring_->abandon(); }

 private:
  struct Watched {
    Token token;
    Interest interest = Interest::none;
    bool known = false;
    bool armed = false;         // its newest request has not completed
    std::uint32_t request = 0;  // the number of the newest; 0: there was none
  };

  [[nodiscard]] bool deadline_has_passed(Deadline deadline) const noexcept {
    if (deadline.is_never()) return false;
    return deadline.ns() <= 0 || system_.monotonic_ns() >= deadline.ns();
  }

  bool make_room(NativeHandle fd) noexcept BATON_REQUIRES(mutex_) try {
    const auto index = static_cast<std::size_t>(fd);
    if (index >= watched_.size()) watched_.resize(index + index / 2 + 64);
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }

  Watched* find(NativeHandle fd) noexcept BATON_REQUIRES(mutex_) {
    const auto index = static_cast<std::size_t>(fd);
    return index < watched_.size() && watched_[index].known ? &watched_[index] : nullptr;
  }

  static std::uint64_t user_data(NativeHandle fd, std::uint32_t request) noexcept {
    return (static_cast<std::uint64_t>(static_cast<std::uint32_t>(fd)) << 32) | request;
  }

  // Without an interest there is no request, so not even a hang-up is reported.
  std::error_code arm(NativeHandle fd, Watched& watched) noexcept BATON_REQUIRES(mutex_) {
    if (!any(watched.interest)) return hand_in();
    uring::abi::Sqe* const request = claim();
    if (request == nullptr) return std::make_error_code(std::errc::resource_unavailable_try_again);
    if (++watched.request == 0) ++watched.request;
    request->opcode = uring::abi::op_poll_add;
    request->fd = fd;
    request->operation_flags = events_of(watched.interest);
    request->user_data = user_data(fd, watched.request);
    ring_->publish();
    watched.armed = true;
    return hand_in();
  }

  // A completion that still comes belongs to an older request and is ignored.
  void disarm(NativeHandle fd, Watched& watched) noexcept BATON_REQUIRES(mutex_) {
    if (!std::exchange(watched.armed, false)) return;
    const std::uint64_t old = user_data(fd, watched.request);
    if (++watched.request == 0) ++watched.request;
    uring::abi::Sqe* const request = claim();
    if (request == nullptr) return;  // it holds its file until something happens there
    request->opcode = uring::abi::op_async_cancel;
    request->fd = -1;
    request->address = old;
    ring_->publish();
  }

  uring::abi::Sqe* claim() noexcept BATON_REQUIRES(mutex_) {
    uring::abi::Sqe* request = ring_->claim();
    if (request != nullptr) return request;
    static_cast<void>(hand_in());
    return ring_->claim();
  }

  // Congested: the thread that waits has completions to take, and hands the rest in after that.
  std::error_code hand_in() noexcept BATON_REQUIRES(mutex_) {
    return ring_->submit() == uring::Entered::refused ? system_error() : std::error_code{};
  }

  std::size_t collect(std::span<Report> reports) noexcept {
    const os::LockGuard lock(mutex_, system_);
    std::size_t count = 0;
    ring_->pop_each(reports.size(),
                    [&](const uring::abi::Cqe& completion) BATON_NO_THREAD_SAFETY_ANALYSIS {
                      const auto fd = static_cast<NativeHandle>(completion.user_data >> 32);
                      Watched* const watched = completion.user_data != 0 ? find(fd) : nullptr;
                      if (watched == nullptr || !watched->armed) return;
                      if (watched->request != static_cast<std::uint32_t>(completion.user_data))
                        return;
                      watched->armed = false;
                      if (completion.result == -ECANCELED) {
                        static_cast<void>(arm(fd, *watched));  // its thread has ended
                      } else {
                        reports[count++] = {watched->token, readiness_of(completion.result)};
                      }
                    });
    return count;
  }

  const os::System& system_;
  const std::unique_ptr<uring::Ring> ring_;
  os::Mutex mutex_;
  std::vector<Watched> watched_ BATON_GUARDED_BY(mutex_);  // by descriptor
};

Result<std::unique_ptr<WaitStrategy>, Failure> open_uring_poll(const WaitOptions& options) {
  const os::System& system = os::or_real(options.system);
  const std::uint32_t wanted = std::max(options.descriptors_max, requests_max);
  auto ring = uring::Ring::open(
      system,
      {.entries = requests_max, .completions = std::min(std::bit_ceil(wanted), completions_max)});
  if (!ring) {
    // ENOSYS: no such system call here. EPERM: sysctl kernel.io_uring_disabled, or a filter.
    const std::error_code error = system_error(ring.error());
    return unexpected{Failure{error, "io_uring_setup: " + error.message()}};
  }
  std::unique_ptr<WaitStrategy> made(new (std::nothrow)
                                         UringPollWaitStrategy(system, std::move(*ring)));
  if (made != nullptr) return made;
  return unexpected{Failure{std::make_error_code(std::errc::not_enough_memory), "no memory"}};
}

// Before the suites make their lists: they are then run over this one alone.
const bool registered = [] {
  conformance::selection().wait_strategies.emplace_back(strategy_name);
  return !registry().add(std::string(strategy_name), WaitStrategyFactory(open_uring_poll),
                         "one request a report, over a ring");
}();

}  // namespace
}  // namespace baton::test
