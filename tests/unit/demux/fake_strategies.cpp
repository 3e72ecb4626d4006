#include "fake_strategies.hpp"

#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "baton/registry.hpp"
#include "demux/registry.hpp"

namespace baton::test {
namespace {

// epoll in its other modes, with the facts that belong to them.
class FakeStrategy final : public WaitStrategy {
 public:
  explicit FakeStrategy(WaitStrategyInfo facts) : facts_(facts), epoll_(::epoll_create1(0)) {}
  ~FakeStrategy() override { ::close(epoll_); }

  [[nodiscard]] const WaitStrategyInfo& info() const noexcept override { return facts_; }
  std::error_code add(NativeHandle fd, Interest interest, Token token) noexcept override {
    return control(EPOLL_CTL_ADD, fd, interest, token);
  }
  std::error_code modify(NativeHandle fd, Interest interest, Token token) noexcept override {
    return control(EPOLL_CTL_MOD, fd, interest, token);
  }
  std::error_code remove(NativeHandle fd) noexcept override {
    return control(EPOLL_CTL_DEL, fd, Interest::none, {});
  }
  Result<std::size_t> wait(std::span<Report> reports, Deadline deadline,
                           const SignalMask* /*unblocked*/) noexcept override {
    std::array<epoll_event, 32> events{};
    const int count_max = static_cast<int>(std::min(reports.size(), events.size()));
    int timeout = -1;
    if (!deadline.is_never()) {
      const auto left = deadline.remaining(Deadline::after(Duration{0}));
      timeout = static_cast<int>((left.count() + 999'999) / 1'000'000);
    }
    const int count = ::epoll_wait(epoll_, events.data(), count_max, timeout);
    for (int i = 0; i < count; ++i) {
      const epoll_event& event = events[static_cast<std::size_t>(i)];
      Report& report = reports[static_cast<std::size_t>(i)];
      report.token = {static_cast<std::uint32_t>(event.data.u64),
                      static_cast<std::uint32_t>(event.data.u64 >> 32)};
      report.ready = Interest::none;
      if ((event.events & EPOLLIN) != 0) report.ready = report.ready | Interest::in;
      if ((event.events & EPOLLOUT) != 0) report.ready = report.ready | Interest::out;
      if ((event.events & (EPOLLERR | EPOLLHUP)) != 0) report.ready = Interest::both;
    }
    return static_cast<std::size_t>(std::max(count, 0));
  }

 private:
  std::error_code control(int operation, int fd, Interest interest, Token token) noexcept {
    epoll_event event{};
    if (any(interest & Interest::in)) event.events |= EPOLLIN;
    if (any(interest & Interest::out)) event.events |= EPOLLOUT;
    if (facts_.trigger == Trigger::edge) event.events |= EPOLLET;
    if (facts_.trigger == Trigger::one_shot) event.events |= EPOLLONESHOT;
    event.data.u64 = (std::uint64_t{token.generation} << 32) | token.index;
    if (::epoll_ctl(epoll_, operation, fd, &event) == 0) return {};
    return {errno, std::system_category()};
  }

  const WaitStrategyInfo facts_;
  const int epoll_;
};

class ScriptedStrategy final : public WaitStrategy {
 public:
  [[nodiscard]] const WaitStrategyInfo& info() const noexcept override { return facts_; }
  std::error_code add(NativeHandle fd, Interest interest, Token token) noexcept override {
    if (token.index == UINT32_MAX) return {};  // the interrupter
    script().calls.push_back({'a', fd, interest, token});
    return script().add_answer;
  }
  std::error_code modify(NativeHandle fd, Interest interest, Token token) noexcept override {
    if (token.index == UINT32_MAX) return script().modify_answer;
    script().calls.push_back({'m', fd, interest, token});
    return script().modify_answer;
  }
  std::error_code remove(NativeHandle fd) noexcept override {
    script().calls.push_back({'r', fd, Interest::none, {}});
    return {};
  }
  Result<std::size_t> wait(std::span<Report> reports, Deadline /*deadline*/,
                           const SignalMask* /*unblocked*/) noexcept override {
    if (script().wait_answer) return unexpected{script().wait_answer};
    const std::size_t count = std::min(reports.size(), script().reports.size());
    std::copy_n(script().reports.begin(), count, reports.begin());
    script().reports.clear();
    return count;
  }

 private:
  const WaitStrategyInfo facts_{
      .name = "scripted", .trigger = script().trigger, .changes_during_wait = true};
};

void add(WaitStrategyInfo facts) {
  static_cast<void>(demux::add_wait_strategy(
      {std::string(facts.name),
       [facts](const WaitOptions&) -> Result<std::unique_ptr<WaitStrategy>, Failure> {
         return std::unique_ptr<WaitStrategy>(new FakeStrategy(facts));
       },
       "for tests"}));
}

}  // namespace

Script& script() {
  static Script script;
  return script;
}

void add_fake_strategies() {
  static const bool added = [] {
    add({.name = "fake_edge", .trigger = Trigger::edge, .changes_during_wait = true});
    add({.name = "fake_one_shot", .trigger = Trigger::one_shot, .changes_during_wait = true});
    add({.name = "fake_pinned", .changes_during_wait = true, .any_thread_waits = false});
    add({.name = "fake_unmasked", .changes_during_wait = true});
    static_cast<void>(demux::add_wait_strategy(
        {"scripted",
         [](const WaitOptions&) -> Result<std::unique_ptr<WaitStrategy>, Failure> {
           return std::unique_ptr<WaitStrategy>(new ScriptedStrategy);
         },
         "for tests"}));
    return true;
  }();
  static_cast<void>(added);
}

}  // namespace baton::test
