// The child of a fork.
#include <sys/wait.h>
#include <unistd.h>

#include "baton/error.hpp"
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

}  // namespace baton::test
