// Each report takes the descriptor out of the kernel's hands until modify() arms it again; the
// library does that. The kernel keeps the set, so nothing is locked here.
#include "oneshot_epoll.hpp"

#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <baton/signal_mask.hpp>
#include <bit>
#include <cerrno>
#include <chrono>
#include <climits>
#include <string>

namespace own_parts {
namespace {

using baton::Interest;

std::error_code last_error() noexcept { return {errno, std::system_category()}; }

class OneshotEpoll final : public baton::WaitStrategy {
 public:
  explicit OneshotEpoll(int epoll) noexcept : epoll_(epoll) {}
  ~OneshotEpoll() override { after_fork_in_child(); }

  [[nodiscard]] const baton::WaitStrategyInfo& info() const noexcept override { return info_; }

  // With no interest it is not in the set: EPOLLERR and EPOLLHUP are reported unasked.
  std::error_code add(int fd, Interest interest, baton::Token token) noexcept override {
    return any(interest) ? control(EPOLL_CTL_ADD, fd, interest, token) : std::error_code{};
  }
  std::error_code modify(int fd, Interest interest, baton::Token token) noexcept override {
    if (!any(interest)) return remove(fd);
    const auto error = control(EPOLL_CTL_MOD, fd, interest, token);
    return error == std::errc::no_such_file_or_directory ? add(fd, interest, token) : error;
  }
  std::error_code remove(int fd) noexcept override {
    const auto error = control(EPOLL_CTL_DEL, fd, Interest::none, {});
    return error == std::errc::no_such_file_or_directory ? std::error_code{} : error;
  }

  baton::Result<std::size_t> wait(std::span<baton::Report> reports, baton::Deadline deadline,
                                  const baton::SignalMask* unblocked) noexcept override {
    std::array<epoll_event, 64> events;
    const auto room = static_cast<int>(std::min(reports.size(), events.size()));
    const int count = ::epoll_pwait(epoll_, events.data(), room, milliseconds(deadline),
                                    unblocked != nullptr ? &unblocked->set : nullptr);
    if (count < 0 && errno != EINTR) return baton::unexpected{last_error()};
    for (int i = 0; i < count; ++i) {
      const auto [found, data] = events[static_cast<std::size_t>(i)];
      Interest ready = (found & (EPOLLERR | EPOLLHUP)) != 0 ? Interest::both : Interest::none;
      if ((found & EPOLLIN) != 0) ready = ready | Interest::in;
      if ((found & EPOLLOUT) != 0) ready = ready | Interest::out;
      if ((found & EPOLLPRI) != 0) ready = ready | Interest::urgent;
      reports[static_cast<std::size_t>(i)] = {std::bit_cast<baton::Token>(std::uint64_t{data.u64}),
                                              ready};
    }
    return static_cast<std::size_t>(std::max(count, 0));
  }

  [[nodiscard]] int descriptor() const noexcept override { return epoll_; }
  void after_fork_in_child() noexcept override {  // the set is the parent's, the number is ours
    if (epoll_ >= 0) ::close(epoll_);
    epoll_ = baton::invalid_handle;
  }

 private:
  std::error_code control(int what, int fd, Interest interest, baton::Token token) const noexcept {
    epoll_event event{};
    event.events = EPOLLONESHOT;
    if (any(interest & Interest::in)) event.events |= EPOLLIN;
    if (any(interest & Interest::out)) event.events |= EPOLLOUT;
    if (any(interest & Interest::urgent)) event.events |= EPOLLPRI;
    event.data.u64 = std::bit_cast<std::uint64_t>(token);
    return ::epoll_ctl(epoll_, what, fd, &event) == 0 ? std::error_code{} : last_error();
  }

  // Rounded up: late is allowed, early is not. A wait of 24 days may end early, with no reports.
  static int milliseconds(baton::Deadline deadline) noexcept {
    if (deadline.is_never()) return -1;
    const auto now = baton::Deadline::at(std::chrono::steady_clock::now());
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline.remaining(now));
    return static_cast<int>(std::min<std::int64_t>(left.count(), INT_MAX));
  }

  baton::WaitStrategyInfo info_{.name = oneshot_epoll_name,
                                .trigger = baton::Trigger::one_shot,
                                .changes_during_wait = true,
                                .takes_signal_mask = true,
                                .forgets_closed = true};
  int epoll_;
};

}  // namespace

baton::Result<std::unique_ptr<baton::WaitStrategy>, baton::Failure> open_oneshot_epoll(
    const baton::WaitOptions&) {
  const int epoll = ::epoll_create1(EPOLL_CLOEXEC);
  if (epoll < 0) return baton::unexpected{baton::Failure{last_error(), "epoll_create1 failed"}};
  return std::unique_ptr<baton::WaitStrategy>{std::make_unique<OneshotEpoll>(epoll)};
}

}  // namespace own_parts
