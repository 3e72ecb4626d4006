// Turns of registrations while the leader does not come back from its wait.
#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <functional>
#include <system_error>
#include <thread>
#include <vector>

#include "baton/reactor.hpp"
#include "os/system.hpp"
#include "support/descriptors.hpp"
#include "support/patience.hpp"

namespace baton::test {
namespace {

// While it is closed, a wait returns only after an interrupt.
std::atomic<bool> closed{false};
std::atomic<bool> somebody_waits{false};
std::atomic<bool> interrupted{false};

const os::System& gated_system() {
  static const os::System table = [] {
    os::System made = os::real_system();
    made.epoll_pwait = [](int epoll, epoll_event* events, int count, int timeout,
                          const sigset_t* mask) {
      for (const Deadline end = at_last(); closed && !interrupted && is_ahead(end);) {
        somebody_waits = true;
        std::this_thread::yield();
      }
      return os::real_system().epoll_pwait(epoll, events, count, timeout, mask);
    };
    made.write = [](int fd, const void* data, std::size_t size) {
      if (closed) interrupted = true;
      return os::real_system().write(fd, data, size);
    };
    return made;
  }();
  return table;
}

// The program has closed the descriptor of the wait strategy.
std::atomic<bool> gone{false};

const os::System& losing_system() {
  static const os::System table = [] {
    os::System made = os::real_system();
    made.epoll_pwait = [](int epoll, epoll_event* events, int count, int timeout,
                          const sigset_t* mask) {
      if (!gone) return os::real_system().epoll_pwait(epoll, events, count, timeout, mask);
      errno = EBADF;
      return -1;
    };
    return made;
  }();
  return table;
}

/// Waits by epoll of this system.
Result<std::unique_ptr<Reactor>, Failure> opened_over(const os::System& system) {
  ReactorConfig config;
  config.wait = "epoll";
  config.system = &system;
  return Reactor::open(config);
}

TEST(reactor_turns, a_wait_that_can_never_succeed_ends_run_in_every_thread) {
  auto opened = opened_over(losing_system());
  ASSERT_TRUE(opened) << opened.error().reason;
  Reactor& reactor = **opened;
  EXPECT_EQ(reactor.handle_events(Deadline::immediately()).value_or(1), 0U);
  gone = true;
  std::atomic<int> refused{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      const auto ran = reactor.run();
      if (!ran && ran.error() == std::errc::bad_file_descriptor) ++refused;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(refused, 3);
  EXPECT_EQ(reactor.handle_events().error(), std::errc::bad_file_descriptor);
  gone = false;
}

/// Runs in the leader's wait: before the system is asked, and after it has answered.
std::function<void()> before_answer = [] {};
std::function<void()> after_answer = [] {};

const os::System& changing_system() {
  static const os::System table = [] {
    os::System made = os::real_system();
    made.epoll_pwait = [](int epoll, epoll_event* events, int count, int timeout,
                          const sigset_t* mask) {
      before_answer();
      const int found = os::real_system().epoll_pwait(epoll, events, count, timeout, mask);
      after_answer();
      return found;
    };
    return made;
  }();
  return table;
}

TEST(reactor_turns, a_report_of_a_removed_registration_is_stale_and_counted) {
  auto opened = opened_over(changing_system());
  ASSERT_TRUE(opened) << opened.error().reason;
  Reactor& reactor = **opened;
  const SocketPair pair;
  pair.make_readable();
  int calls = 0;
  const auto key = reactor.add(pair.ours.get(), Interest::in,
                               [&](NativeHandle, Interest) { return ++calls, Next::keep; });
  ASSERT_TRUE(key);
  after_answer = [&] { EXPECT_EQ(reactor.remove(*key), Reactor::Removal::done); };
  EXPECT_EQ(reactor.handle_events(Deadline::immediately()).value_or(1), 0U);
  after_answer = [] {};
  EXPECT_EQ(calls, 0);
  EXPECT_EQ(reactor.statistics().stale_reports, 1U);
}

TEST(reactor_turns, an_interrupt_of_a_wait_is_counted) {
  auto opened = opened_over(changing_system());
  ASSERT_TRUE(opened) << opened.error().reason;
  Reactor& reactor = **opened;
  int ran = 0;
  before_answer = [&] { EXPECT_FALSE(reactor.notify([&] { ++ran; })); };
  EXPECT_EQ(reactor.handle_events(at_last()).value_or(0), 1U);
  before_answer = [] {};
  EXPECT_EQ(ran, 1);
  EXPECT_EQ(reactor.statistics().interrupts, 1U);
}

// The leader may have the reports of others in hand, and no processor to run on.
TEST(reactor_turns, another_thread_calls_back_the_leader_before_it_repeats_them_without_end) {
  ReactorConfig config;
  config.wait = "epoll";
  config.interrupt = "eventfd";
  config.system = &gated_system();
  auto opened = Reactor::open(config);
  ASSERT_TRUE(opened) << opened.error().reason;
  Reactor& reactor = **opened;
  const SocketPair pair;
  pair.make_readable();
  constexpr int many = 1'000;
  int calls = 0;
  const auto key = reactor.add(pair.ours.get(), Interest::in, [&](NativeHandle, Interest) {
    if (++calls == 1) {
      closed = true;
      const Deadline end = at_last();
      while (!somebody_waits && is_ahead(end)) std::this_thread::yield();
    }
    if (!interrupted && calls < many) return Next::again;
    closed = false;
    reactor.end();
    return Next::remove;
  });
  ASSERT_TRUE(key);
  std::thread other([&] { EXPECT_TRUE(reactor.run()); });
  EXPECT_TRUE(reactor.run());
  other.join();
  EXPECT_TRUE(somebody_waits);
  EXPECT_TRUE(interrupted);
  EXPECT_LT(calls, many);
}

}  // namespace
}  // namespace baton::test
