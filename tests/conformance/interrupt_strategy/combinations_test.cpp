// The conformance suite of interrupt strategies: each one in the registry with each wait strategy,
// as in interrupt_strategy.sticky/eventfd_epoll. The tests use the Demultiplexer, which combines
// the two.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>

#include "../selection.hpp"
#include "demux/demultiplexer.hpp"
#include "demux/registry.hpp"
#include "support/counting_system.hpp"
#include "support/descriptors.hpp"
#include "support/patience.hpp"
#include "support/sleeping_thread.hpp"

namespace baton::test {

using demux::Demultiplexer;

struct Combination {
  std::string interrupt;
  std::string wait;
};

class interrupt_strategy : public testing::TestWithParam<Combination> {
 protected:
  void SetUp() override {
    std::string replaced;
    demux::Options options;
    options.system = &counting_system();
    options.wait = GetParam().wait;
    options.interrupt = GetParam().interrupt;
    options.descriptors_max = 64;
    options.one_thread_waits = true;  // one at a time: the tests change it, for what hands over
    options.explain = [&](std::string_view line) { replaced = line; };
    auto opened = Demultiplexer::open(options);
    if (!opened) GTEST_SKIP() << opened.error().reason;
    if (!replaced.empty()) GTEST_SKIP() << replaced;
    demux_ = std::move(*opened);
    EXPECT_EQ(demux_->interrupt_name(), GetParam().interrupt);
    system_calls().clear();
  }

  Demultiplexer& demux() { return *demux_; }

  /// A thread has entered wait(): it sleeps there when it sleeps.
  [[nodiscard]] std::function<bool()> in_wait() const {
    return [this] { return waits_.load() > 0; };
  }
  /// The system calls of a part of a program's own are not seen.
  static bool seen(const std::string& part) {
    return !conformance::Selection::has(conformance::selection().foreign, part);
  }

  /// One wait; whether it was interrupted.
  bool wait(Deadline deadline = at_last()) {
    std::array<Report, 8> reports;
    bool interrupted = false;
    ++waits_;
    demux_->wait(reports, deadline, interrupted);
    return interrupted;
  }

 private:
  std::atomic<std::uint64_t> waits_{0};
  std::unique_ptr<Demultiplexer> demux_;
};

namespace {

std::vector<Combination> combinations() {
  const conformance::Selection& chosen = conformance::selection();
  std::vector<Combination> all;
  for (const auto& interrupt : demux::interrupt_strategies()) {
    for (const auto& wait : demux::wait_strategies()) {
      const bool wanted = chosen.everything() || chosen.either(wait.name, interrupt.name);
      if (wanted) all.push_back({interrupt.name, wait.name});
    }
  }
  return all;
}

std::uint64_t sends() { return system_calls().writes + system_calls().signals; }

// As programs use interrupts: work is published, then the wait is interrupted; the thread that
// returns from the wait takes all published work. A lost interrupt leaves work behind and hangs the
// test.
class Work {
 public:
  explicit Work(std::uint64_t total) : total_(total) {}
  void add() { added_.fetch_add(1); }
  void take() { taken_ = added_.load(); }
  [[nodiscard]] bool done() const { return taken_ == total_; }

 private:
  const std::uint64_t total_;
  std::atomic<std::uint64_t> added_{0};
  std::atomic<std::uint64_t> taken_{0};
};

std::atomic<Demultiplexer*> interrupted_by_handler{nullptr};

class HandlerThatInterrupts {
 public:
  explicit HandlerThatInterrupts(Demultiplexer& demux) {
    interrupted_by_handler = &demux;
    struct sigaction action{};
    action.sa_handler = [](int) { interrupted_by_handler.load()->interrupt(); };
    action.sa_flags = SA_RESTART;
    EXPECT_EQ(::sigaction(SIGUSR1, &action, &before_), 0);
  }
  ~HandlerThatInterrupts() { ::sigaction(SIGUSR1, &before_, nullptr); }
  HandlerThatInterrupts(const HandlerThatInterrupts&) = delete;
  HandlerThatInterrupts& operator=(const HandlerThatInterrupts&) = delete;

 private:
  struct sigaction before_{};
};

}  // namespace

INSTANTIATE_TEST_SUITE_P(, interrupt_strategy, testing::ValuesIn(combinations()),
                         [](const auto& parameter) {
                           return parameter.param.interrupt + "_" + parameter.param.wait;
                         });

// Counted, not timed: the wait must not sleep. Twenty times: an interrupt that is lost now and then
// is lost here.
TEST_P(interrupt_strategy, sticky) {
  const Sleepless sleepless;
  for (int i = 0; i < 20; ++i) {
    demux().interrupt();
    ASSERT_TRUE(wait());
    ASSERT_EQ(sleepless.sleeps(), 0U);
  }
}

// As code does that saves a mask and restores it. A signal then comes outside of a wait.
TEST_P(interrupt_strategy, sticky_though_the_program_restores_its_mask) {
  sigset_t own;
  ASSERT_EQ(::pthread_sigmask(SIG_SETMASK, nullptr, &own), 0);
  const Sleepless sleepless;
  for (int i = 0; i < 3; ++i) {
    wait(Deadline::immediately());
    ASSERT_EQ(::pthread_sigmask(SIG_SETMASK, &own, nullptr), 0);
    demux().interrupt();
    ASSERT_TRUE(wait());
    ASSERT_EQ(sleepless.sleeps(), 0U);
  }
  ASSERT_EQ(::pthread_sigmask(SIG_SETMASK, &own, nullptr), 0);
}

TEST_P(interrupt_strategy, from_another_thread) {
  bool interrupted = false;
  WatchedThread waiter([&] { interrupted = wait(); });
  waiter.until_asleep(in_wait());
  demux().interrupt();
  waiter.join();
  EXPECT_TRUE(interrupted);
  if (seen(GetParam().interrupt)) {
    EXPECT_EQ(sends(), 1U);
  }
}

TEST_P(interrupt_strategy, from_a_signal_handler_of_the_thread_that_waits_next) {
  const HandlerThatInterrupts handler(demux());
  demux().interrupt();
  ASSERT_TRUE(wait());  // from now on interrupts go to this thread
  errno = ENOTTY;
  ASSERT_EQ(::raise(SIGUSR1), 0);
  EXPECT_EQ(errno, ENOTTY);
  EXPECT_TRUE(wait());
}

TEST_P(interrupt_strategy, from_a_signal_handler_inside_the_wait) {
  const HandlerThatInterrupts handler(demux());
  std::atomic<bool> interrupted{false};
  WatchedThread waiter([&] {
    while (!interrupted) interrupted = wait();  // the signal itself ends a wait, too
  });
  waiter.until_asleep(in_wait());
  ASSERT_EQ(::syscall(SYS_tgkill, ::getpid(), waiter.number(), SIGUSR1), 0);
  waiter.join();
  EXPECT_TRUE(interrupted);
}

TEST_P(interrupt_strategy, many_cost_one_system_call) {
  if (!seen(GetParam().interrupt)) GTEST_SKIP() << "the kit does not see its system calls";
  wait(Deadline::immediately());  // the set has been waited for once
  system_calls().clear();
  for (int i = 0; i < 1000; ++i) demux().interrupt();
  EXPECT_EQ(sends(), 1U);
  EXPECT_TRUE(wait());
}

// The wait after an interrupted one sleeps, and is one system call.
TEST_P(interrupt_strategy, quiet_after) {
  wait(Deadline::immediately());
  demux().interrupt();
  EXPECT_TRUE(wait());
  if (!seen(GetParam().wait) || !seen(GetParam().interrupt)) {
    // Without a count: nothing ends the wait before its time.
    const Deadline end = Deadline::after(std::chrono::milliseconds{20});
    wait(end);
    EXPECT_FALSE(is_ahead(end));
    return;
  }
  const Sleepless sleepless;
  system_calls().clear();
  wait();
  EXPECT_EQ(sleepless.sleeps(), 1U);
  EXPECT_EQ(system_calls().waits, 1U);
  // The other calls: a signal for the leader itself, the mask of its thread, and the drain.
  const std::uint64_t masks = GetParam().interrupt == "signal" ? 1 : 0;
  EXPECT_EQ(system_calls().all_but_locks(),
            1U + masks + system_calls().signals + system_calls().reads);
}

TEST_P(interrupt_strategy, a_wait_that_ends_by_itself_leaves_it_pending) {
  const SocketPair pair;
  std::error_code error;
  ASSERT_FALSE(demux().attach(1, pair.ours.get()));
  ASSERT_EQ(demux().watch(1, Interest::in, error), demux::Watch::armed);
  pair.make_readable();
  demux().interrupt();
  // Report and interrupt, in one wait or in two; never one of them lost.
  std::array<Report, 1> reports;
  bool interrupted = false;
  bool reported = false;
  for (int i = 0; i < 20 && !(interrupted && reported); ++i) {
    bool now = false;
    if (demux().wait(reports, at_last(), now) > 0) {
      reported = true;
      EXPECT_EQ(pair.drain(), 1);
    }
    interrupted = interrupted || now;
  }
  EXPECT_TRUE(interrupted);
  EXPECT_TRUE(reported);
  demux().detach(1);
}

TEST_P(interrupt_strategy, none_is_lost) {
  constexpr std::uint64_t each = 3000;
  Work work(3 * each);
  WatchedThread waiter([&] {
    while (!work.done()) {
      wait(Deadline::never());
      work.take();
    }
  });
  const auto body = [&] {
    for (std::uint64_t i = 0; i < each; ++i) {
      work.add();
      demux().interrupt();
    }
  };
  std::thread a(body);
  std::thread b(body);
  std::thread c(body);
  a.join();
  b.join();
  c.join();
  waiter.join();
  EXPECT_TRUE(work.done());
}

// Interrupt and timeout coincide, again and again.
TEST_P(interrupt_strategy, none_is_lost_at_a_deadline) {
  constexpr std::uint64_t each = 2000;
  Work work(each);
  WatchedThread waiter([&] {
    bool forever = false;
    while (!work.done()) {
      // Every other wait depends on the interrupt alone.
      const bool interrupted =
          wait(forever ? Deadline::never() : Deadline::after(std::chrono::microseconds{20}));
      if (interrupted) work.take();
      forever = !forever;
    }
  });
  for (std::uint64_t i = 0; i < each; ++i) {
    work.add();
    demux().interrupt();
    if (i % 16 == 0) ::sched_yield();
  }
  waiter.join();
  EXPECT_TRUE(work.done());
}

// The thread that waits changes all the time: a signal sent to a leader that has left must not be
// lost.
TEST_P(interrupt_strategy, none_is_lost_when_leaders_change) {
  constexpr std::uint64_t each = 2000;
  Work work(each);
  std::mutex leadership;
  const auto lead = [&] {
    for (;;) {
      const std::scoped_lock lock(leadership);
      if (work.done()) return;
      wait(Deadline::never());
      work.take();
    }
  };
  std::thread a(lead);
  std::thread b(lead);
  std::thread c(lead);
  for (std::uint64_t i = 0; i < each; ++i) {
    work.add();
    demux().interrupt();
    if (i % 8 == 0) ::sched_yield();
  }
  a.join();
  b.join();
  c.join();
  EXPECT_TRUE(work.done());
}

TEST_P(interrupt_strategy, a_leader_that_is_gone) {
  std::thread([&] { wait(Deadline::immediately()); }).join();
  demux().interrupt();
  EXPECT_TRUE(wait());
}

// The moment in which an interrupt can be swallowed for ever: while reset drains. An interrupt that
// comes just before the read or just after it must not keep the next one from being seen.
TEST_P(interrupt_strategy, interrupted_while_it_is_reset) {
  static InterruptStrategy* interrupted = nullptr;
  os::System system = os::real_system();
  system.read = [](int fd, void* buffer, size_t size) {
    interrupted->interrupt();
    const ssize_t result = os::real_system().read(fd, buffer, size);
    interrupted->interrupt();
    return result;
  };
  auto opened = demux::find_interrupt_strategy(GetParam().interrupt)->factory({.system = &system});
  ASSERT_TRUE(opened.has_value());
  InterruptStrategy& interrupter = **opened;
  if (interrupter.descriptor() == invalid_handle) GTEST_SKIP() << "nothing to drain";
  interrupted = &interrupter;
  pollfd set{};
  set.fd = interrupter.descriptor();
  set.events = POLLIN;
  for (int i = 0; i < 3; ++i) {
    interrupter.interrupt();
    EXPECT_EQ(::poll(&set, 1, 0), 1);
    interrupter.reset();
  }
}

// The child makes its own; an interrupt there does not reach the parent.
TEST_P(interrupt_strategy, recreated_after_fork) {
  const auto entry = demux::find_interrupt_strategy(GetParam().interrupt);
  auto opened = entry->factory({});
  ASSERT_TRUE(opened.has_value());
  InterruptStrategy& interrupter = **opened;
  if (interrupter.descriptor() == invalid_handle) GTEST_SKIP() << "shares nothing with the parent";
  interrupter.interrupt();  // inherited unchanged
  const auto readable = [&] {
    pollfd set{};
    set.fd = interrupter.descriptor();
    set.events = POLLIN;
    return ::poll(&set, 1, 0) == 1;
  };
  const pid_t child = ::fork();
  if (child == 0) {
    const bool made = interrupter.recreate().has_value();
    const bool clean = !readable();
    interrupter.interrupt();
    const bool sticky = readable();
    interrupter.reset();
    const bool consumed = !readable();
    ::_exit(made && clean && sticky && consumed ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(readable());
  interrupter.reset();
  EXPECT_FALSE(readable());
}

}  // namespace baton::test
