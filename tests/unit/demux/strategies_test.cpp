// Single wait strategies, over a system that gives rare answers: limits that were lowered
// meanwhile, a wait of 24 days, a change between the call and its reports.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <climits>
#include <functional>
#include <vector>

#include "baton/interrupt_strategy.hpp"
#include "baton/wait_strategy.hpp"
#include "demux/registry.hpp"
#include "os/system.hpp"
#include "support/descriptors.hpp"

namespace baton::test {
namespace {

constexpr Token token_before{1, 1};
constexpr Token token_after{1, 2};

std::unique_ptr<WaitStrategy> strategy_over(const char* name, const os::System& system) {
  auto strategy = demux::find_wait_strategy(name)->factory({.system = &system});
  EXPECT_TRUE(strategy.has_value()) << strategy.error().reason;
  return strategy ? std::move(*strategy) : nullptr;
}

std::vector<Report> reports_of(WaitStrategy& strategy, Deadline deadline = Deadline::immediately(),
                               const SignalMask* mask = nullptr) {
  std::vector<Report> reports(8);
  const auto count = strategy.wait(reports, deadline, mask);
  EXPECT_TRUE(count.has_value()) << count.error().message();
  reports.resize(count.value_or(0));
  return reports;
}

/// A limit of descriptors below every number, as daemons set it.
class NoDescriptors {
 public:
  NoDescriptors() {
    EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &before_), 0);
    const rlimit none{0, before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  }
  ~NoDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  NoDescriptors(const NoDescriptors&) = delete;
  NoDescriptors& operator=(const NoDescriptors&) = delete;

 private:
  rlimit before_{};
};

/// What a wait that the limit has turned into select passes on.
struct Passed {
  bool for_ever = false;
  timespec timeout{};
  const sigset_t* mask = nullptr;
};
Passed passed;

os::System noting_system() {
  os::System system = os::real_system();
  system.pselect = [](int end, fd_set* in, fd_set* out, fd_set* error, const timespec* timeout,
                      const sigset_t* mask) {
    passed = {timeout == nullptr, timeout != nullptr ? *timeout : timespec{}, mask};
    const timespec at_once{};
    return os::real_system().pselect(end, in, out, error, &at_once, nullptr);
  };
  return system;
}

// -- interrupts -----------------------------------------------------------------------------------

// A signal handler may interrupt, and the code below it looks at errno. Here the write fails.
TEST(interrupts_by_descriptor, leave_errno_alone) {
  os::System system = os::real_system();
  system.write = [](int, const void*, std::size_t) -> ssize_t {
    errno = EAGAIN;
    return -1;
  };
  for (const char* name : {"eventfd", "pipe"}) {
    const auto strategy = demux::find_interrupt_strategy(name)->factory({.system = &system});
    ASSERT_TRUE(strategy.has_value()) << strategy.error().reason;
    errno = ENOTTY;
    (*strategy)->interrupt();
    EXPECT_EQ(errno, ENOTTY) << name;
  }
}

// -- epoll ----------------------------------------------------------------------------------------

// Milliseconds in an int last for 24 days.
TEST(wait_by_epoll, goes_on_when_the_longest_timeout_has_passed) {
  static std::vector<int> timeouts;
  os::System system = os::real_system();
  system.epoll_pwait = [](int, epoll_event*, int, int timeout, const sigset_t*) {
    timeouts.push_back(timeout);
    if (timeouts.size() < 3) return 0;
    errno = EINTR;
    return -1;
  };
  timeouts.clear();
  const auto strategy = strategy_over("epoll", system);
  EXPECT_TRUE(reports_of(*strategy, Deadline::after(std::chrono::hours{24 * 365})).empty());
  EXPECT_EQ(timeouts, std::vector(3, INT_MAX));
}

// -- poll -----------------------------------------------------------------------------------------

TEST(wait_by_poll, below_a_lowered_limit_keeps_its_deadline_and_its_mask) {
  const os::System system = noting_system();
  const auto strategy = strategy_over("poll", system);
  const SocketPair pair;
  EXPECT_FALSE(strategy->add(pair.ours.get(), Interest::in, token_before));
  const NoDescriptors lowered;
  SignalMask mask{};
  sigemptyset(&mask.set);
  EXPECT_TRUE(reports_of(*strategy, Deadline::never(), &mask).empty());
  EXPECT_TRUE(passed.for_ever);
  EXPECT_EQ(passed.mask, &mask.set);
  EXPECT_TRUE(reports_of(*strategy, Deadline::after(std::chrono::hours{2})).empty());
  EXPECT_GE(passed.timeout.tv_sec, 3'600);
  EXPECT_EQ(passed.mask, nullptr);
}

// As poll does. Otherwise no descriptor would be reported any more.
TEST(wait_by_poll, below_a_lowered_limit_reports_a_closed_descriptor) {
  const auto strategy = strategy_over("poll", os::real_system());
  const SocketPair open;
  EXPECT_FALSE(strategy->add(open.ours.get(), Interest::in, token_after));
  open.make_readable();
  NativeHandle closed = invalid_handle;
  {
    const SocketPair pair;
    closed = pair.ours.get();
    EXPECT_FALSE(strategy->add(closed, Interest::in, token_before));
  }
  const NoDescriptors lowered;
  auto reports = reports_of(*strategy);
  ASSERT_EQ(reports.size(), 1U);
  EXPECT_EQ(reports[0].token, token_before);
  EXPECT_EQ(reports[0].ready, Interest::both);
  EXPECT_FALSE(strategy->remove(closed));
  reports = reports_of(*strategy);
  ASSERT_EQ(reports.size(), 1U);
  EXPECT_EQ(reports[0].token, token_after);
}

TEST(wait_by_poll, below_a_lowered_limit_reports_what_is_ready_now) {
  const auto strategy = strategy_over("poll", os::real_system());
  const SocketPair pair;
  EXPECT_FALSE(strategy->add(pair.ours.get(), Interest::both, token_before));
  pair.make_readable();
  auto reports = reports_of(*strategy);
  ASSERT_EQ(reports.size(), 1U);
  EXPECT_EQ(reports[0].ready, Interest::both);
  EXPECT_EQ(pair.drain(), 1);
  const NoDescriptors lowered;
  reports = reports_of(*strategy);
  ASSERT_EQ(reports.size(), 1U);
  EXPECT_EQ(reports[0].ready, Interest::out) << "the input of the last wait is gone";
}

/// Runs between the call of poll and the look at its result.
std::function<void()> meanwhile;

os::System changing_system() {
  os::System system = os::real_system();
  system.ppoll = [](pollfd* list, nfds_t count, const timespec* timeout, const sigset_t* mask) {
    const int result = os::real_system().ppoll(list, count, timeout, mask);
    meanwhile();
    return result;
  };
  return system;
}

TEST(wait_by_poll, reports_nothing_that_is_not_asked_for_any_more) {
  const os::System system = changing_system();
  const auto strategy = strategy_over("poll", system);
  const SocketPair pair;
  pair.make_readable();
  EXPECT_FALSE(strategy->add(pair.ours.get(), Interest::in, token_before));
  meanwhile = [&] {
    EXPECT_FALSE(strategy->modify(pair.ours.get(), Interest::none, token_before));
  };
  EXPECT_TRUE(reports_of(*strategy).empty());
  meanwhile = [] {};
  EXPECT_TRUE(reports_of(*strategy).empty());
}

TEST(wait_by_poll, has_no_report_with_the_token_of_a_removed_descriptor) {
  const os::System system = changing_system();
  const auto strategy = strategy_over("poll", system);
  const SocketPair pair;
  pair.make_readable();
  EXPECT_FALSE(strategy->add(pair.ours.get(), Interest::in, token_before));
  meanwhile = [&] {
    EXPECT_FALSE(strategy->remove(pair.ours.get()));
    EXPECT_FALSE(strategy->add(pair.ours.get(), Interest::in, token_after));
  };
  EXPECT_TRUE(reports_of(*strategy).empty());
  meanwhile = [] {};
  const auto reports = reports_of(*strategy);
  ASSERT_EQ(reports.size(), 1U);
  EXPECT_EQ(reports[0].token, token_after);
}

// -- select ---------------------------------------------------------------------------------------

// Its owner tries, and finds the error.
TEST(wait_by_select, reports_a_closed_descriptor_as_both) {
  const auto strategy = strategy_over("select", os::real_system());
  for (const Interest interest : {Interest::in, Interest::out, Interest::both}) {
    SocketPair pair;
    const int number = pair.ours.get();
    EXPECT_FALSE(strategy->add(number, interest, token_before));
    pair.ours.close();
    const auto reports = reports_of(*strategy);
    ASSERT_EQ(reports.size(), 1U);
    EXPECT_EQ(reports[0].ready, Interest::both);
    EXPECT_FALSE(strategy->remove(number));
  }
}

// Such a hang-up is neither input nor room for select.
TEST(wait_by_select, reports_a_hang_up_as_both_to_one_that_waits_for_urgent_data) {
  const auto strategy = strategy_over("select", os::real_system());
  SocketPair pair;
  EXPECT_FALSE(strategy->add(pair.ours.get(), Interest::urgent, token_before));
  pair.peer.close();
  const auto reports = reports_of(*strategy);
  ASSERT_EQ(reports.size(), 1U);
  EXPECT_EQ(reports[0].ready, Interest::both);
}

// -- rt_signals -----------------------------------------------------------------------------------

// Beside files that send no signals it sleeps in poll, which the limit refuses.
TEST(wait_by_rt_signals, below_a_lowered_limit_hears_of_silent_files_and_keeps_its_mask) {
  const os::System system = noting_system();
  const auto strategy = strategy_over("rt_signals", system);
  const Fd event(::eventfd(1, EFD_NONBLOCK | EFD_CLOEXEC));
  EXPECT_FALSE(strategy->add(event.get(), Interest::in, token_before));
  const NoDescriptors lowered;
  const auto reports = reports_of(*strategy);
  ASSERT_EQ(reports.size(), 1U);
  EXPECT_EQ(reports[0].token, token_before);
  EXPECT_EQ(passed.mask, nullptr);
  SignalMask mask{};
  sigemptyset(&mask.set);
  EXPECT_TRUE(reports_of(*strategy, Deadline::immediately(), &mask).empty());
  EXPECT_NE(passed.mask, nullptr);
}

}  // namespace
}  // namespace baton::test
