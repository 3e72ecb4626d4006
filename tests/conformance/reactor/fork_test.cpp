// The child of a fork.
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "baton/error.hpp"
#include "baton/signal_set.hpp"
#include "harness.hpp"
#include "os/system.hpp"
#include "support/fork_at_rest.h"

namespace baton::test {
namespace {

/// Runs `body` in a child; true: it said yes. One that does not end says no.
bool child_says_yes(const std::function<bool()>& body) {
  const pid_t child = fork_at_rest();
  if (child == 0) {
    ::alarm(1 + static_cast<unsigned>(
                    std::chrono::duration_cast<std::chrono::seconds>(patience()).count()));
    ::_exit(body() ? 0 : 1);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/// Runs the reactor until `done`, or for a very long time; true: it is done.
bool comes_about(Reactor& loop, const std::function<bool()>& done) {
  const Deadline limit = at_last();
  while (!done() && Deadline::after(Duration{0}) < limit) {
    if (!loop.handle_events(limit)) return false;
  }
  return done();
}

/// The last descriptor of a signal that the system has given out, with a number from this one on.
int signal_descriptor = -1;
int signal_descriptor_least = 0;
os::System noting_system() {
  os::System system = os::real_system();
  system.signalfd = [](int fd, const sigset_t* set, int flags) {
    signal_descriptor = os::real_system().signalfd(fd, set, flags);
    if (fd >= 0 || signal_descriptor_least == 0) return signal_descriptor;
    const Fd low(signal_descriptor);
    return signal_descriptor = ::fcntl(low.get(), F_DUPFD_CLOEXEC, signal_descriptor_least);
  };
  return system;
}

}  // namespace

TEST_P(reactor, a_child_may_reopen_it) {
  const SocketPair pair;
  auto& reader = make<Reader>();
  const auto key = loop().add(pair.ours.get(), Interest::in, reader);
  ASSERT_TRUE(key.has_value());
  int ticks = 0;
  ASSERT_TRUE(loop().schedule([&](TimerKey, Deadline) { return ++ticks, Next::keep; },
                              Deadline::after(std::chrono::milliseconds{1})));
  EXPECT_TRUE(child_says_yes([&] {
    const auto refused = loop().handle_events(Deadline::immediately());
    if (refused || refused.error() != errc::after_fork) return false;
    if (loop().suspend(*key) != errc::after_fork) return false;
    if (!loop().reopen()) return false;
    if (::write(pair.peer.get(), "child", 5) != 5) return false;
    while (reader.calls == 0 || ticks == 0) {
      if (!loop().handle_events(at_last())) return false;
    }
    return reader.bytes == 5 && loop().remove(*key) == Reactor::Removal::done;
  }));
  // The parent's reactor is not affected.
  EXPECT_EQ(reader.calls, 0);
  pair.make_readable();
  run_until([&] { return reader.calls == 1 && ticks == 1; });
}

// A thread of the parent holds the parent's token while it waits.
TEST_P(reactor, a_child_has_a_token_of_its_own) {
  ReactorConfig config;
  config.tuning.token_line = true;
  config.tuning.keep_lead = false;
  replace(config);
  const SocketPair pair;
  auto& reader = make<Reader>();
  ASSERT_TRUE(loop().add(pair.ours.get(), Interest::in, reader).has_value());
  start_threads(1);
  pair.make_readable();
  wait_for([&] { return reader.calls == 1; });
  bool told = false;
  EXPECT_TRUE(child_says_yes([&] {
    if (!loop().reopen() || loop().notify([&] { told = true; })) return false;
    return comes_about(loop(), [&] { return told; });
  }));
  join_threads();
}

// They are the parent's, which delivers them.
TEST_P(reactor, a_child_forgets_notifications) {
  int told = 0;
  for (int i = 0; i < 3; ++i) ASSERT_FALSE(loop().notify([&] { ++told; }));
  EXPECT_TRUE(child_says_yes([&] {
    if (!loop().reopen() || loop().notifications() != 0) return false;
    if (loop().notify([&] { told += 10; })) return false;
    return comes_about(loop(), [&] { return told != 0; }) && told == 10;
  }));
  run_until([&] { return told == 3; });
}

// Those of registrations, too.
TEST_P(reactor, a_child_forgets_notifications_of_registrations) {
  struct Told final : Reader {
    int rooms = 0;
    Next on_output(NativeHandle) override { return ++rooms, Next::keep; }
  };
  const SocketPair pair;
  auto& told = make<Told>();
  const auto key = loop().add(pair.ours.get(), Interest::in, told);
  ASSERT_TRUE(key.has_value());
  ASSERT_FALSE(loop().notify(*key, Interest::out));
  EXPECT_TRUE(child_says_yes([&] {
    if (!loop().reopen()) return false;
    pair.make_readable();
    // With real-time signals one open file has one owner, and that may be the parent's thread.
    const auto done = [&] { return told.calls == 1 || told.closed == 1; };
    return comes_about(loop(), done) && told.rooms == 0;
  }));
  run_until([&] { return told.rooms == 1; });
}

TEST_P(reactor, a_child_may_destroy_it) {
  const SocketPair pair;
  auto& reader = make<Reader>();
  ASSERT_TRUE(loop().add(pair.ours.get(), Interest::in, reader).has_value());
  EXPECT_TRUE(child_says_yes([&] {
    const auto closed = reader.closed.load();
    static_cast<void>(closed);
    replace({});
    return reader.closed == 0;
  }));
  pair.make_readable();
  run_until([&] { return reader.calls == 1; });
}

TEST_P(reactor, a_child_is_refused_everything_until_it_reopens_it) {
  const SocketPair pair;
  auto& reader = make<Reader>();
  const auto key = loop().add(pair.ours.get(), Interest::in, reader);
  ASSERT_TRUE(key.has_value());
  EXPECT_TRUE(loop().reopen().has_value()) << "nothing to do where it was opened";
  EXPECT_TRUE(child_says_yes([&] {
    const auto is_refused = [](std::error_code error) { return error == errc::after_fork; };
    const auto at_once = Deadline::immediately();
    const auto never = [](TimerKey, Deadline) { return Next::remove; };
    return is_refused(loop().add(pair.ours.get(), Interest::in, reader).error()) &&
           is_refused(loop().change(*key, Interest::out)) && is_refused(loop().suspend(*key)) &&
           is_refused(loop().resume(*key)) && is_refused(loop().notify(*key, Interest::in)) &&
           is_refused(loop().notify([] {})) &&
           is_refused(loop().schedule(never, at_once).error()) &&
           is_refused(loop().add_signal(SIGUSR1, reader)) &&
           is_refused(loop().remove_signal(SIGUSR1)) &&
           loop().remove(*key) == Reactor::Removal::unknown;
  }));
}

// The fork happens in a timer's handler, in which the child continues.
TEST_P(reactor, a_child_of_a_timer_may_reopen_it) {
  const SocketPair pair;
  auto& reader = make<Reader>();
  ASSERT_TRUE(loop().add(pair.ours.get(), Interest::in, reader).has_value());
  const auto fork_here = [&](TimerKey, Deadline) {
    EXPECT_TRUE(child_says_yes([&] {
      if (!loop().reopen() || loop().timers() != 0) return false;
      pair.make_readable();
      while (reader.calls == 0 && reader.closed == 0) {
        if (!loop().handle_events(at_last())) return false;
      }
      // With real-time signals one open file has one owner, and that is the parent's thread
      // already.
      return reader.calls == 1 || reader.why == std::errc::device_or_resource_busy;
    }));
    return Next::remove;
  };
  ASSERT_TRUE(loop().schedule(fork_here, Deadline::immediately()));
  run_until([&] { return loop().timers() == 0; });
}

// The fork happens in a handler that has removed itself: that call never returns in the child.
TEST_P(reactor, a_child_of_one_that_is_removed_closes_it) {
  const SocketPair pair;
  auto& reader = make<Reader>();
  const auto key = loop().add(pair.ours.get(), Interest::in, reader);
  ASSERT_TRUE(key.has_value());
  reader.also = [&](NativeHandle) {
    EXPECT_EQ(loop().remove(*key), Reactor::Removal::when_it_returns);
    EXPECT_TRUE(child_says_yes([&] {
      if (!loop().reopen()) return false;
      while (reader.closed == 0) {
        if (!loop().handle_events(Deadline::immediately())) return false;
      }
      return loop().size() == 0;
    }));
  };
  pair.make_readable();
  run_until([&] { return reader.closed == 1; });
}

TEST_P(reactor, a_child_hears_of_its_own_signals) {
  ASSERT_FALSE(SignalSet::block({SIGUSR1}));
  int signals = 0;
  ASSERT_FALSE(loop().add_signal(SIGUSR1, [&](int) { return ++signals, Next::keep; }));
  EXPECT_TRUE(child_says_yes([&] {
    if (!loop().reopen() || ::raise(SIGUSR1) != 0) return false;
    while (signals == 0) {
      if (!loop().handle_events(at_last())) return false;
    }
    return true;
  }));
  EXPECT_EQ(run_what_is_there(), 0U);
  EXPECT_EQ(signals, 0);
}

// A fork copies the descriptors first and the memory later. So descriptors that another thread
// opens in between are missing in the child. Their numbers are free, or belong to files of the
// child.
TEST_P(reactor, a_child_hears_of_signals_whose_descriptors_it_lacks) {
  ASSERT_FALSE(SignalSet::block({SIGUSR1, SIGUSR2}));
  const os::System system = noting_system();
  replace({.system = &system});
  const SocketPair pair;
  int first = 0;
  int second = 0;
  ASSERT_FALSE(loop().add_signal(SIGUSR2, [&](int) { return ++second, Next::keep; }));
  ASSERT_FALSE(loop().add_signal(SIGUSR1, [&](int) { return ++first, Next::keep; }));
  const int number = signal_descriptor;
  for (const bool taken : {false, true}) {
    EXPECT_TRUE(child_says_yes([&] {
      ::close(number);
      if (taken && ::dup2(pair.ours.get(), number) != number) return false;
      if (!loop().reopen() || ::raise(SIGUSR1) != 0 || ::raise(SIGUSR2) != 0) return false;
      pair.make_readable();
      if (!comes_about(loop(), [&] { return first == 1 && second == 1; })) return false;
      char byte = 0;
      return !taken || ::read(number, &byte, 1) == 1;
    })) << taken;
  }
  replace({});  // before its system goes
}

// The number of the parent's descriptor is free in the child, for another file.
TEST_P(reactor, a_child_may_reuse_the_number_of_a_signals_descriptor) {
  ASSERT_FALSE(SignalSet::block({SIGUSR1}));
  const os::System system = noting_system();
  signal_descriptor_least = 200;
  replace({.system = &system});
  const SocketPair pair;
  auto& reader = make<Reader>();
  ASSERT_FALSE(loop().add_signal(SIGUSR1, [](int) { return Next::keep; }));
  const int number = signal_descriptor;
  ASSERT_GE(number, 200);
  signal_descriptor_least = 0;
  EXPECT_TRUE(child_says_yes([&] {
    if (!loop().reopen() || signal_descriptor == number) return false;
    if (::dup2(pair.ours.get(), number) != number) return false;
    if (!loop().add(number, Interest::in, reader)) return false;
    pair.make_readable();
    return comes_about(loop(), [&] { return reader.calls == 1; });
  }));
  replace({});  // before its system goes
}

// It may be destroyed, or reopened when there is room.
TEST_P(reactor, a_child_that_cannot_reopen_it_may_try_again) {
  ASSERT_FALSE(SignalSet::block({SIGUSR1}));
  const SocketPair pair;
  auto& reader = make<Reader>();
  int signals = 0;
  const auto key = loop().add(pair.ours.get(), Interest::in, reader);
  ASSERT_TRUE(key.has_value());
  ASSERT_FALSE(loop().add_signal(SIGUSR1, [&](int) { return ++signals, Next::keep; }));
  for (const bool again : {true, false}) {
    EXPECT_TRUE(child_says_yes([&] {
      rlimit before{};
      ::getrlimit(RLIMIT_NOFILE, &before);
      const rlimit none{0, before.rlim_max};
      ::setrlimit(RLIMIT_NOFILE, &none);
      if (loop().reopen() || loop().suspend(*key) != errc::after_fork) return false;
      ::setrlimit(RLIMIT_NOFILE, &before);
      if (!again) return replace({}), reader.closed == 0;
      if (!loop().reopen() || ::raise(SIGUSR1) != 0) return false;
      return comes_about(loop(), [&] { return signals == 1; });
    })) << again;
  }
}

// By a thread that does not exist in the child.
TEST_P(reactor, a_child_may_reopen_it_while_a_registration_is_closed) {
  struct Slow final : Reader {
    std::atomic<bool> entered{false};
    std::atomic<bool> go_on{false};
    void on_close(NativeHandle fd, std::error_code error) noexcept override {
      entered = true;
      go_on.wait(false);
      Reader::on_close(fd, error);
    }
  };
  const SocketPair pair;
  auto& slow = make<Slow>();
  slow.next = Next::remove;
  ASSERT_TRUE(loop().add(pair.ours.get(), Interest::in, slow).has_value());
  start_threads(1);
  pair.make_readable();
  wait_for([&] { return slow.entered.load(); });
  EXPECT_TRUE(child_says_yes([&] {
    if (!loop().reopen() || loop().size() != 0) return false;
    const SocketPair own;
    auto& reader = make<Reader>();
    if (!loop().add(own.ours.get(), Interest::in, reader)) return false;
    own.make_readable();
    return comes_about(loop(), [&] { return reader.calls == 1; });
  }));
  slow.go_on = true;
  slow.go_on.notify_all();
  join_threads();
  EXPECT_EQ(slow.closed, 1);
}

// A child that returns from the call in which it was made has no part in the reactor any more.
TEST_P(reactor, a_child_returns_from_any_call_and_leaves) {
  struct Forks final : Reader {
    pid_t child = -1;
    bool at_close = false;
    Next fork_here(bool here) {
      if (here) child = fork_at_rest();
      return Next::remove;
    }
    Next on_input(NativeHandle) override { return ++calls, fork_here(!at_close); }
    Next on_timeout(TimerKey, Deadline) override { return ++calls, fork_here(!at_close); }
    void on_close(NativeHandle, std::error_code) noexcept override {
      ++closed;
      static_cast<void>(fork_here(at_close));
    }
  };
  const SocketPair pair;
  const auto begin = [&](int what, Forks& forks) {
    if (what == 0) return loop().add(pair.ours.get(), Interest::in, forks).has_value();
    if (what == 1) return loop().schedule(forks, Deadline::immediately()).has_value();
    return !loop().notify([&forks] { forks.on_input(invalid_handle); });
  };
  pair.make_readable();
  for (const bool at_close : {false, true}) {
    for (const int what : {0, 1, 2}) {
      if (at_close && what == 2) continue;  // nothing is closed
      auto& forks = make<Forks>();
      forks.at_close = at_close;
      ASSERT_TRUE(begin(what, forks));
      const auto ran = loop().handle_events(at_last());
      if (forks.child == 0) {
        const bool left = !ran && ran.error() == errc::after_fork;
        const bool closed = forks.closed == (at_close ? 1 : 0);
        ::_exit(left && closed && !loop().handle_events(Deadline::immediately()) ? 0 : 1);
      }
      EXPECT_TRUE(ran.has_value());
      int status = 0;
      EXPECT_EQ(::waitpid(forks.child, &status, 0), forks.child);
      EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << what << at_close << status;
      EXPECT_EQ(forks.closed, what == 2 ? 0 : 1);
    }
  }
}

// A handler that reopens the reactor in the child continues with it, and its answer counts.
TEST_P(reactor, a_child_reopens_in_a_call_and_goes_on) {
  const SocketPair pair;
  pid_t child = -1;
  bool went_on = false;
  auto& reader = make<Reader>();
  reader.next = Next::remove;
  reader.also = [&](NativeHandle) {
    child = fork_at_rest();
    if (child != 0) return loop().end();
    if (!loop().reopen()) ::_exit(1);
    static_cast<void>(loop().notify([&] {
      went_on = true;
      loop().end();
    }));
  };
  ASSERT_TRUE(loop().add(pair.ours.get(), Interest::in, reader).has_value());
  pair.make_readable();
  const auto ran = loop().run();
  if (child == 0) {
    ::_exit(ran.has_value() && went_on && reader.closed == 1 && loop().size() == 0 ? 0 : 1);
  }
  EXPECT_TRUE(ran.has_value());
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_EQ(reader.closed, 1);
  loop().restart();
}

}  // namespace baton::test
