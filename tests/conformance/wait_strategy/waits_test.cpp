// How long a wait lasts, and what ends it early.
#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <chrono>

#include "harness.hpp"
#include "os/system.hpp"

namespace baton::test {

using std::chrono::microseconds;
using std::chrono::milliseconds;

TEST_P(wait_strategy, never_ends_early) {
  const SocketPair pair;
  add(pair.ours.get(), Interest::in, token_of(0));
  for (const Duration span : {Duration{1}, Duration{999}, Duration{microseconds{100}},
                              Duration{microseconds{1001}}, Duration{milliseconds{7}}}) {
    const Deadline deadline = Deadline::after(span);
    EXPECT_TRUE(wait(deadline).empty());
    EXPECT_GE(Deadline::after(Duration{0}), deadline) << span.count() << " ns";
  }
}

TEST_P(wait_strategy, a_deadline_that_has_passed_does_not_wait) {
  const SocketPair pair;
  add(pair.ours.get(), Interest::in, token_of(0));
  EXPECT_TRUE(wait(Deadline::immediately()).empty());
  EXPECT_TRUE(wait(Deadline::at_ns(1)).empty());
  EXPECT_TRUE(wait(Deadline::at_ns(-1)).empty());
  pair.make_readable();
  EXPECT_EQ(wait(Deadline::at_ns(1)).size(), 1U);
}

TEST_P(wait_strategy, a_far_deadline_is_no_short_one) {
  const SocketPair pair;
  pair.make_readable();
  add(pair.ours.get(), Interest::in, token_of(0));
  const Deadline far = Deadline::after(std::chrono::hours{24 * 365 * 200});
  EXPECT_EQ(wait(far).size(), 1U);
  if (info().trigger != Trigger::level) pair.make_readable();
  again(pair.ours.get(), Interest::in, token_of(0));
  EXPECT_EQ(wait(Deadline::never()).size(), 1U);
}

namespace {

std::atomic<int> storms{0};

// A timer that sends a signal to this thread, again and again, as long as it lives.
class SignalStorm {
 public:
  explicit SignalStorm(long every_ns) {
    storms = 0;
    struct sigaction action{};
    action.sa_handler = [](int) { ++storms; };
    ::sigaction(SIGUSR2, &action, &before_);
    sigevent event{};
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = SIGUSR2;
    event._sigev_un._tid = static_cast<pid_t>(::syscall(SYS_gettid));
    EXPECT_EQ(::timer_create(CLOCK_MONOTONIC, &event, &timer_), 0);
    itimerspec interval{};
    interval.it_interval.tv_nsec = every_ns;
    interval.it_value.tv_nsec = every_ns;
    EXPECT_EQ(::timer_settime(timer_, 0, &interval, nullptr), 0);
  }
  ~SignalStorm() {
    ::timer_delete(timer_);
    ::sigaction(SIGUSR2, &before_, nullptr);
  }
  SignalStorm(const SignalStorm&) = delete;
  SignalStorm& operator=(const SignalStorm&) = delete;

 private:
  timer_t timer_{};
  struct sigaction before_{};
};

}  // namespace

TEST_P(wait_strategy, signals_are_zero_reports) {
  const SocketPair pair;
  add(pair.ours.get(), Interest::in, token_of(0));
  const SignalStorm storm(200'000);
  const Deadline end = Deadline::after(milliseconds{50});
  while (Deadline::after(Duration{0}) < end) {
    EXPECT_TRUE(wait(end).empty());
  }
  EXPECT_GT(storms.load(), 0);
  pair.make_readable();
  EXPECT_EQ(ready_of(wait_for_reports(), token_of(0)), Interest::in);
}

TEST_P(wait_strategy, the_mask_counts_inside_the_wait_only) {
  if (!info().takes_signal_mask) GTEST_SKIP() << "declares to take no signal mask";
  storms = 0;
  struct sigaction action{};
  struct sigaction before{};
  action.sa_handler = [](int) { ++storms; };
  ASSERT_EQ(::sigaction(SIGUSR2, &action, &before), 0);
  sigset_t usr2;
  sigemptyset(&usr2);
  sigaddset(&usr2, SIGUSR2);
  SignalMask outside{};
  ASSERT_EQ(::pthread_sigmask(SIG_BLOCK, &usr2, &outside.set), 0);

  ASSERT_EQ(::raise(SIGUSR2), 0);
  EXPECT_TRUE(wait().empty());
  EXPECT_EQ(storms.load(), 0);
  std::array<Report, 4> reports;
  // Never: the pending signal must end it.
  const auto count = strategy().wait(reports, Deadline::never(), &outside);
  ASSERT_TRUE(count.has_value());
  EXPECT_EQ(*count, 0U);
  EXPECT_EQ(storms.load(), 1);

  sigset_t after;
  ASSERT_EQ(::pthread_sigmask(SIG_SETMASK, nullptr, &after), 0);
  EXPECT_EQ(sigismember(&after, SIGUSR2), 1);
  ::pthread_sigmask(SIG_SETMASK, &outside.set, nullptr);
  ::sigaction(SIGUSR2, &before, nullptr);
}

}  // namespace baton::test
