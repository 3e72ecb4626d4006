// Changes of the set: between waits, during a wait, and without the strategy's knowledge.
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <functional>

#include "demux/registry.hpp"
#include "harness.hpp"
#include "os/system.hpp"
#include "support/patience.hpp"
#include "support/sleeping_thread.hpp"

namespace baton::test {

TEST_P(wait_strategy, modify_replaces_interest_and_token) {
  const SocketPair pair;
  pair.make_readable();
  add(pair.ours.get(), Interest::in, token_of(1));
  EXPECT_FALSE(strategy().modify(pair.ours.get(), Interest::out, token_of(2, 5)));
  const auto reports = wait_for_reports();
  ASSERT_EQ(reports.size(), 1U);
  EXPECT_EQ(reports[0].token, token_of(2, 5));
  EXPECT_EQ(reports[0].ready & Interest::out, Interest::out);
}

// A second direction is added to the watched one, as by the first read after a connect: both count,
// under the new token. Tested outside of a wait, and after a report.
TEST_P(wait_strategy, modify_keeps_what_it_names_again) {
  for (const bool reported_before : {false, true}) {
    for (const Interest first : {Interest::in, Interest::out}) {
      const SocketPair pair;
      pair.make_readable();
      add(pair.ours.get(), first, token_of(1));
      if (reported_before) {
        EXPECT_EQ(ready_of(wait_for_reports(), token_of(1)) & first, first);
      }
      EXPECT_FALSE(strategy().modify(pair.ours.get(), Interest::both, token_of(2, 5)));
      if (info().trigger == Trigger::edge) pair.make_readable();  // a new event; room is none
      const Interest wanted = info().trigger == Trigger::edge ? Interest::in : Interest::both;
      Interest found = Interest::none;
      for (int i = 0; i < 4 && (found & wanted) != wanted; ++i) {
        for (const Report& report : wait_for_reports()) {
          EXPECT_EQ(report.token, token_of(2, 5));
          found = found | report.ready;
        }
        again(pair.ours.get(), Interest::both, token_of(2, 5));
      }
      EXPECT_EQ(found & wanted, wanted);
      EXPECT_FALSE(strategy().remove(pair.ours.get()));
    }
  }
}

TEST_P(wait_strategy, removed_is_silent) {
  const SocketPair gone;
  const SocketPair stays;
  add(gone.ours.get(), Interest::in, token_of(1));
  add(stays.ours.get(), Interest::in, token_of(2));
  gone.make_readable();
  stays.make_readable();
  EXPECT_FALSE(strategy().remove(gone.ours.get()));
  const auto reports = wait_for_reports();
  ASSERT_EQ(reports.size(), 1U);
  EXPECT_EQ(reports[0].token, token_of(2));
}

TEST_P(wait_strategy, removing_an_unknown_descriptor) {
  const SocketPair pair;
  EXPECT_FALSE(strategy().remove(pair.ours.get()));
  add(pair.ours.get(), Interest::in, token_of(1));
  EXPECT_FALSE(strategy().remove(pair.ours.get()));
  EXPECT_FALSE(strategy().remove(pair.ours.get()));
}

TEST_P(wait_strategy, many_come_and_go) {
  constexpr std::uint32_t count = 40;
  const std::vector<SocketPair> pairs(count);
  for (std::uint32_t i = 0; i < count; ++i) add(pairs[i].ours.get(), Interest::in, token_of(i));
  for (std::uint32_t i = 0; i < count; i += 3) {
    EXPECT_FALSE(strategy().remove(pairs[i].ours.get()));
  }
  for (std::uint32_t i = 0; i < count; i += 6) {
    add(pairs[i].ours.get(), Interest::in, token_of(i, 2));
  }
  for (const SocketPair& pair : pairs) pair.make_readable();
  const auto reports = wait();
  for (std::uint32_t i = 0; i < count; ++i) {
    const bool first = i % 3 != 0;
    const bool second = i % 6 == 0;
    EXPECT_EQ(any(ready_of(reports, token_of(i, 1))), first) << i;
    EXPECT_EQ(any(ready_of(reports, token_of(i, 2))), second) << i;
  }
}

// Closed without remove: it drops out, or is reported so that its owner finds the truth. Others
// live on.
TEST_P(wait_strategy, closed_descriptor) {
  SocketPair closed;
  const SocketPair stays;
  add(closed.ours.get(), Interest::in, token_of(1));
  add(stays.ours.get(), Interest::in | Interest::urgent, token_of(2));
  const int number = closed.ours.get();
  closed.ours.close();
  auto reports = wait();
  if (info().forgets_closed) {
    EXPECT_TRUE(reports.empty());
  } else {
    EXPECT_EQ(ready_of(reports, token_of(1)) & Interest::in, Interest::in);
    EXPECT_EQ(ready_of(reports, token_of(2)), Interest::none);
  }
  static_cast<void>(strategy().remove(number));
  stays.make_readable();
  reports = wait_for_reports();
  ASSERT_EQ(reports.size(), 1U);
  EXPECT_EQ(reports[0].token, token_of(2));
}

TEST_P(wait_strategy, reused_number_is_another_descriptor) {
  SocketPair first;
  const int number = first.ours.get();
  add(number, Interest::in, token_of(1, 1));
  first.make_readable();
  EXPECT_TRUE(any(ready_of(wait_for_reports(), token_of(1, 1))));
  EXPECT_FALSE(strategy().remove(number));
  first.ours.close();

  SocketPair second;
  if (second.ours.get() != number) {
    ASSERT_EQ(::dup3(second.ours.get(), number, O_CLOEXEC), number);
    second.ours = Fd(number);
  }
  add(number, Interest::in, token_of(1, 2));
  EXPECT_TRUE(wait().empty());
  second.make_readable();
  const auto reports = wait_for_reports();
  ASSERT_EQ(reports.size(), 1U);
  EXPECT_EQ(reports[0].token, token_of(1, 2));
}

// One report, and none before the next request: by the number, whatever file that names then.
TEST_P(wait_strategy, watching_once) {
  SocketPair pair;
  const int number = pair.ours.get();
  const std::error_code first = strategy().watch_once(number, Interest::in, token_of(1, 1), false);
  if (!info().watches_once) {
    EXPECT_EQ(first, std::errc::not_supported);
    return;
  }
  ASSERT_FALSE(first) << first.message();
  EXPECT_TRUE(wait().empty());
  pair.make_readable();
  EXPECT_EQ(ready_of(wait_for_reports(), token_of(1, 1)), Interest::in);
  EXPECT_TRUE(wait().empty());
  EXPECT_FALSE(strategy().watch_once(number, Interest::both, token_of(1, 2), true));
  EXPECT_EQ(ready_of(wait_for_reports(), token_of(1, 2)), Interest::both);
  pair.peer.close();
  EXPECT_TRUE(wait().empty()) << "a hang-up is a word, too";

  const Fd kept(::dup(number));
  SocketPair next;
  ASSERT_EQ(::dup3(next.ours.get(), number, O_CLOEXEC), number);
  next.ours.close();
  EXPECT_FALSE(strategy().watch_once(number, Interest::in, token_of(1, 3), true));
  EXPECT_TRUE(wait().empty());
  next.make_readable();
  EXPECT_EQ(ready_of(wait_for_reports(), token_of(1, 3)), Interest::in);
  EXPECT_FALSE(strategy().watch_once(number, Interest::in, token_of(1, 4), true));
  EXPECT_FALSE(strategy().remove(number));
  EXPECT_TRUE(wait().empty());
}

// -- while another thread waits -------------------------------------------------------------------

class Waiter {
 public:
  explicit Waiter(WaitStrategy& strategy)
      : thread_([this, &strategy] {
          std::vector<Report> reports(16);
          entered_.store(true);
          const auto count = strategy.wait(reports, at_last(), nullptr);
          reports.resize(count.value_or(0));
          reports_ = reports;
        }) {
    thread_.until_asleep([this] { return entered_.load(); });
  }
  const std::vector<Report>& reports() {
    thread_.join();
    return reports_;
  }

 private:
  std::atomic<bool> entered_{false};
  std::vector<Report> reports_;
  WatchedThread thread_;
};

TEST_P(wait_strategy, add_during_wait) {
  if (!info().changes_during_wait) GTEST_SKIP() << "declares that the set of a wait is fixed";
  const SocketPair pair;
  Waiter waiter(strategy());
  add(pair.ours.get(), Interest::in, token_of(1));
  pair.make_readable();
  EXPECT_EQ(ready_of(waiter.reports(), token_of(1)), Interest::in);
}

TEST_P(wait_strategy, modify_during_wait) {
  if (!info().changes_during_wait) GTEST_SKIP() << "declares that the set of a wait is fixed";
  const SocketPair pair;
  add(pair.ours.get(), Interest::in, token_of(1));
  Waiter waiter(strategy());
  EXPECT_FALSE(strategy().modify(pair.ours.get(), Interest::both, token_of(2)));
  EXPECT_EQ(ready_of(waiter.reports(), token_of(2)), Interest::out);
}

// Declared or not: after remove and close, nothing is reported for the old descriptor, and the next
// one with the same number does not inherit the wait's events.
TEST_P(wait_strategy, remove_during_wait) {
  SocketPair gone;
  const SocketPair stays;
  add(gone.ours.get(), Interest::in, token_of(1, 1));
  add(stays.ours.get(), Interest::in, token_of(2, 1));
  Waiter waiter(strategy());
  EXPECT_FALSE(strategy().remove(gone.ours.get()));
  gone.make_readable();
  add(gone.ours.get(), Interest::none, token_of(1, 2));
  stays.make_readable();
  for (const Report& report : waiter.reports()) EXPECT_EQ(report.token, token_of(2, 1));
}

// Between the system call and the report: its findings are not for the next descriptor with the
// same number. (The old token may still appear, in a report that was already taken.)
TEST_P(wait_strategy, replaced_between_call_and_report) {
  static std::function<void()> meanwhile;
  os::System system = os::real_system();
  system.epoll_pwait = [](int epoll, epoll_event* events, int count, int timeout,
                          const sigset_t* mask) {
    const int result = os::real_system().epoll_pwait(epoll, events, count, timeout, mask);
    meanwhile();
    return result;
  };
  system.ppoll = [](pollfd* list, nfds_t count, const timespec* timeout, const sigset_t* mask) {
    const int result = os::real_system().ppoll(list, count, timeout, mask);
    meanwhile();
    return result;
  };
  system.pselect = [](int end, fd_set* in, fd_set* out, fd_set* error, const timespec* timeout,
                      const sigset_t* mask) {
    const int result = os::real_system().pselect(end, in, out, error, timeout, mask);
    meanwhile();
    return result;
  };
  auto opened = demux::find_wait_strategy(GetParam())->factory({.system = &system});
  ASSERT_TRUE(opened.has_value()) << opened.error().reason;
  WaitStrategy& replaced = **opened;
  const SocketPair pair;
  pair.make_readable();
  meanwhile = [] {};
  EXPECT_FALSE(replaced.add(pair.ours.get(), Interest::in, token_of(1, 1)));
  bool called = false;
  meanwhile = [&] {
    called = true;
    EXPECT_FALSE(replaced.remove(pair.ours.get()));
    EXPECT_FALSE(replaced.add(pair.ours.get(), Interest::in, token_of(1, 2)));
  };
  std::array<Report, 4> reports;
  auto count = replaced.wait(reports, Deadline::immediately(), nullptr);
  ASSERT_TRUE(count.has_value());
  for (std::size_t i = 0; i < *count; ++i) EXPECT_EQ(reports[i].token, token_of(1, 1));
  meanwhile = [] {};
  if (!called) GTEST_SKIP() << "has reported without one of the system calls replaced here";
  count = replaced.wait(reports, Deadline::immediately(), nullptr);
  ASSERT_EQ(count.value_or(0), 1U);
  EXPECT_EQ(reports[0].token, token_of(1, 2));
}

TEST_P(wait_strategy, changes_beside_waits) {
  constexpr int rounds = 2000;
  const SocketPair wake;
  const std::vector<SocketPair> pairs(4);
  add(wake.ours.get(), Interest::in, token_of(100));
  std::atomic<bool> stop{false};
  WatchedThread waiter([&] {
    std::vector<Report> reports(16);
    while (!stop.load()) {
      const auto count =
          strategy().wait(reports, Deadline::after(std::chrono::milliseconds{5}), nullptr);
      EXPECT_TRUE(count.has_value());
    }
  });
  for (int round = 0; round < rounds; ++round) {
    const auto generation = static_cast<std::uint32_t>(round);
    for (const SocketPair& pair : pairs) {
      add(pair.ours.get(), Interest::out, token_of(1, generation));
      EXPECT_FALSE(strategy().modify(pair.ours.get(), Interest::in, token_of(1, generation)));
    }
    for (const SocketPair& pair : pairs) EXPECT_FALSE(strategy().remove(pair.ours.get()));
  }
  stop.store(true);
  wake.make_readable();
  waiter.join();
}

}  // namespace baton::test
