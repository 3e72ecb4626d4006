// Many sessions at once, and signals that interrupt every wait.
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <time.h>

#include <cstring>

#include "../../support/restore_signal.hpp"
#include "threads.hpp"

namespace baton::conformance {
namespace {

class Sessions : public Threads {
 protected:
  void SetUp() override {
    Threads::SetUp();
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, 4'096);
    ::setrlimit(RLIMIT_NOFILE, &limit);
  }
  /// `count` sessions that send, and then expect back, twice: all of them are in flight at once.
  void serve(unsigned count, unsigned threads) {
    use(threads);
    std::vector<Peer> peers;
    for (unsigned i = 0; i < count; ++i) {
      Peer low = echo();
      // Moved to high numbers: select takes only descriptors below 1024, and the proactor's ends
      // need those.
      Peer high{::fcntl(low.get(), F_DUPFD_CLOEXEC, 1'200)};
      ASSERT_GE(high.get(), 0) << std::strerror(errno);
      peers.push_back(std::move(high));
    }
    run(threads);
    for (std::uint32_t round = 0; round < 2; ++round) {
      for (std::uint32_t i = 0; i < count; ++i) {
        const std::uint32_t sent[4] = {i, ~i, round, i * 2'654'435'761U};
        send_all(peers[i].get(), sent, sizeof(sent));
      }
      for (std::uint32_t i = 0; i < count; ++i) {
        const std::uint32_t sent[4] = {i, ~i, round, i * 2'654'435'761U};
        std::uint32_t back[4] = {};
        ASSERT_TRUE(receive_all(peers[i].get(), back, sizeof(back)));
        ASSERT_EQ(std::memcmp(sent, back, sizeof(sent)), 0);
      }
    }
    peers.clear();
    wait_until([&] {
      return std::all_of(echoes().begin(), echoes().end(),
                         [](const Echo& session) { return session.done(); });
    });
    wait_until([&] { return proactor().statistics().handles == 0; });
    stop();
    const Statistics sum = proactor().statistics();
    EXPECT_EQ(sum.started, sum.completed);
    EXPECT_EQ(sum.pending, 0U);
  }
};

TEST_P(Sessions, a_thousand_with_one_thread) { serve(1'000 / slowness, 1); }
TEST_P(Sessions, a_thousand_with_two_threads) { serve(1'000 / slowness, 2); }

// A signal about every 200 us, to any thread of the process: it interrupts every call that can be
// interrupted.
TEST_P(Sessions, do_not_mind_being_interrupted_by_signals) {
  static std::atomic<int> signals{0};
  struct sigaction action{};
  action.sa_handler = [](int) { signals.fetch_add(1); };
  struct sigaction before{};
  ASSERT_EQ(::sigaction(SIGUSR1, &action, &before), 0);  // without SA_RESTART
  use(2);
  Peer session = echo();
  run(2);
  sigevent event{};
  event.sigev_notify = SIGEV_SIGNAL;
  event.sigev_signo = SIGUSR1;
  timer_t timer{};
  ASSERT_EQ(::timer_create(CLOCK_MONOTONIC, &event, &timer), 0);
  const itimerspec period{{0, 200'000}, {0, 200'000}};
  ASSERT_EQ(::timer_settime(timer, 0, &period, nullptr), 0);
  const int first = signals;
  while (signals < first + 100) round_trip(session.get());
  const Deadline when = Deadline::after(5ms, proactor().now());
  std::atomic<bool> early{true};
  std::atomic<bool> fired{false};
  this->timer(when, [&] {
    early = proactor().now() < when;
    fired = true;
  });
  wait_until([&] { return fired.load(); });
  EXPECT_FALSE(early) << "an interrupted wait is not the end of its time";
  ::timer_delete(timer);
  stop();
  test::restore_signal(SIGUSR1, before);
}

BATON_CONFORMANCE_SOCKET_SUITE(Sessions);

}  // namespace
}  // namespace baton::conformance
