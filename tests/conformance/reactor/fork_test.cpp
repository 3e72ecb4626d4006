// The child of a fork.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "baton/error.hpp"
#include "baton/signal_set.hpp"
#include "harness.hpp"
#include "support/fork_at_rest.h"

namespace baton::test {
namespace {

/// Runs `body` in a child; true: it said yes.
bool child_says_yes(const std::function<bool()>& body) {
  const pid_t child = fork_at_rest();
  if (child == 0) ::_exit(body() ? 0 : 1);
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
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
  // The parent's is none the worse.
  EXPECT_EQ(reader.calls, 0);
  pair.make_readable();
  run_until([&] { return reader.calls == 1 && ticks == 1; });
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

// Made by a handler of a timer, in whose midst the child goes on.
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
      // With real-time signals one open file has one owner, and the parent's thread is it already.
      return reader.calls == 1 || reader.why == std::errc::device_or_resource_busy;
    }));
    return Next::remove;
  };
  ASSERT_TRUE(loop().schedule(fork_here, Deadline::immediately()));
  run_until([&] { return loop().timers() == 0; });
}

// Made by a handler that has removed itself: nobody returns from that call in the child.
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

}  // namespace baton::test
