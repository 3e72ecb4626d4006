// Signals as events.
#include <signal.h>
#include <unistd.h>

#include "baton/signal_set.hpp"
#include "harness.hpp"

namespace baton::test {

// Sent to this thread, which runs the reactor: so nothing but signalfd can take them.
TEST_P(reactor, calls_for_signals) {
  ASSERT_FALSE(SignalSet::block({SIGUSR1, SIGUSR2}));
  std::string seen;
  ASSERT_FALSE(loop().add_signal(SIGUSR1, [&](int number) {
    EXPECT_EQ(number, SIGUSR1);
    seen += '1';
    return Next::keep;
  }));
  ASSERT_FALSE(loop().add_signal(SIGUSR2, [&](int) { return seen += '2', Next::remove; }));
  EXPECT_EQ(loop().size(), 0U);  // what it takes inside is not counted
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(::raise(SIGUSR1), 0);
    run_until([&] { return seen.size() == static_cast<std::size_t>(i) + 1; });
  }
  ASSERT_EQ(::raise(SIGUSR2), 0);
  run_until([&] { return seen.size() == 3; });
  EXPECT_EQ(seen, "112");
  EXPECT_EQ(loop().remove_signal(SIGUSR2), std::errc::no_such_file_or_directory);
  EXPECT_FALSE(loop().remove_signal(SIGUSR1));
  EXPECT_EQ(run_what_is_there(), 0U);
}

TEST_P(reactor, signals_that_cannot_be_had) {
  auto nothing = [](int) { return Next::keep; };
  EXPECT_EQ(loop().add_signal(SIGKILL, nothing), std::errc::invalid_argument);
  EXPECT_EQ(loop().add_signal(0, nothing), std::errc::invalid_argument);
  EXPECT_EQ(loop().remove_signal(SIGUSR1), std::errc::no_such_file_or_directory);
  EXPECT_FALSE(loop().add_signal(SIGUSR1, nothing));
  EXPECT_EQ(loop().add_signal(SIGUSR1, nothing), std::errc::file_exists);
  EXPECT_EQ(loop().remove_signal(SIGUSR2), std::errc::no_such_file_or_directory);
}

}  // namespace baton::test
