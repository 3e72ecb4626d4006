// Leaders, followers and wake-ups: the hand-over rule and its levels (P-10 to P-13, P-16).
#include "threads.hpp"

#include <algorithm>
#include <iterator>

namespace baton::conformance {
namespace {

class Roles : public Threads {
 protected:
  /// `threads` in run(); with `leading`, a read stays pending, so that a shared processor has a
  /// waiting leader.
  void begin(unsigned threads, bool leading) {
    use(threads);
    if (leading) {
      quiet_ = std::make_unique<Stream>();
      read_byte(adopt(quiet_->ours), operation());
    }
    run(threads);
    wait_until_asleep(static_cast<int>(threads));
    before_ = proactor().statistics();
  }
  [[nodiscard]] std::uint64_t woken() {
    return proactor().statistics().followers_woken - before_.followers_woken;
  }
  [[nodiscard]] std::uint64_t interrupted() {
    return proactor().statistics().interrupts_sent - before_.interrupts_sent;
  }
  /// A handler that counts.
  std::function<void()> counting() {
    return [this] { ran_.fetch_add(1); };
  }
  void wait_for(int handlers) {
    wait_until([&] { return ran_ == handlers; });
  }
  std::unique_ptr<Stream> quiet_;
  Statistics before_;
  std::atomic<int> ran_{0};
};
BATON_CONFORMANCE_SOCKET_SUITE(Roles);

/// Tests that need a leader that runs handlers.
class SharedRoles : public Roles {};
BATON_CONFORMANCE_SUITE_IN(SharedRoles, Mode::shared);

// P-11, level NONE: only queued. The next thread that passes runs it.
TEST_P(Roles, a_post_of_level_none_wakes_no_thread) {
  begin(2, true);
  post(counting(), Notify::none);
  if (!per_thread()) {
    EXPECT_EQ(woken(), 0U);
    EXPECT_EQ(interrupted(), 0U);
  }
  const Home home{0};
  post(counting(), Notify::strong, home);
  if (per_thread()) post(counting(), Notify::strong, Home{1});
  wait_for(per_thread() ? 3 : 2);
}

TEST_P(Roles, a_post_of_level_follower_is_run_by_a_sleeping_follower) {
  begin(2, true);
  post(counting(), Notify::follower);
  wait_for(1);
  if (mode() == Mode::shared) {
    EXPECT_EQ(woken(), 1U);
    EXPECT_EQ(interrupted(), 0U) << "the leader need not be asked";
  }
}

TEST_P(SharedRoles, a_post_of_level_follower_never_interrupts_a_leader) {
  begin(1, true);
  post(counting(), Notify::follower);
  EXPECT_EQ(interrupted(), 0U);
  EXPECT_EQ(ran_, 0);
  post(counting(), Notify::strong);
  wait_for(2);
}

TEST_P(SharedRoles, a_strong_post_interrupts_the_leader_if_no_thread_sleeps) {
  begin(1, true);
  post(counting(), Notify::strong);
  wait_for(1);
  EXPECT_EQ(interrupted(), 1U);
  EXPECT_EQ(woken(), 0U);
}

TEST_P(SharedRoles, a_strong_post_prefers_a_sleeping_follower) {
  begin(2, true);
  post(counting(), Notify::strong);
  wait_for(1);
  EXPECT_EQ(interrupted(), 0U);
  EXPECT_EQ(woken(), 1U);
}

// From nothing pending to one operation: a shared processor has no leader yet.
TEST_P(Roles, the_first_start_wakes_a_follower) {
  begin(2, false);
  Stream stream;
  Operation& read = operation();
  read_byte(adopt(stream.ours), read);
  send_all(stream.peer.get(), "x", 1);
  wait_until([&] { return !read.is_pending(); });
  EXPECT_EQ(read.bytes(), 1U);
}

// P-10: with nothing to do, no thread wakes up. All sleep without a timeout.
TEST_P(Roles, an_idle_proactor_makes_no_system_calls) {
  begin(3, false);
  wait_until_asleep_for_good(3);
}

TEST_P(Roles, a_proactor_that_only_waits_makes_no_system_calls) {
  begin(3, true);
  wait_until_asleep_for_good(3);
}

/// A look interval that is longer than a hanging test lasts, so that only the length of handlers
/// decides what threads do.
class RolesWithoutLooks : public SharedRoles {
 protected:
  void SetUp() override {
    SharedRoles::SetUp();
    if (with_troubles()) GTEST_SKIP() << "delayed results come neither together nor in a row";
  }
  void begin_without_looks(unsigned threads) {
    use(threads, [](Config& config) { config.understudy_look_us = 10'000'000; });
    run(threads);
    wait_until_asleep(static_cast<int>(threads));
  }
};
BATON_CONFORMANCE_SUITE_IN(RolesWithoutLooks, Mode::shared);

// Waking a thread costs more than most handlers, so five threads serve one connection as one does.
// This holds soon, not at once: handlers that run long, as on a busy machine, are worth another
// thread.
TEST_P(RolesWithoutLooks, one_session_does_not_wander_from_thread_to_thread) {
  begin_without_looks(5);
  Peer peer = echo();
  constexpr unsigned messages = 2'000 / slowness;
  wait_until([&] {
    const std::uint64_t before = woken();
    for (unsigned i = 0; i < messages; ++i) round_trip(peer.get(), 16);
    return woken() - before < messages / 20;
  });
}

class LastingHandlers : public RolesWithoutLooks {
 protected:
  /// Enough of them to be noticed.
  void run_lasting() {
    for (int i = 0; i < 8; ++i) {
      run_together(16, [] { std::this_thread::sleep_for(200us); });
    }
  }
  /// Handlers of reads that are queued together: the first one holds the leader until all have
  /// come.
  void run_together(std::size_t count, std::function<void()> body) {
    ran_ = 0;
    bodies_.push_back(std::move(body));
    std::vector<Stream> streams(count);
    Gate& all_have_come = gate();
    Stream first;
    Operation& read = operation();
    read.set_handler([&](Operation&) { all_have_come.wait(); });
    read_byte(adopt(first.ours), read);
    for (Stream& stream : streams) {
      Operation& each = operation();
      each.set_handler([this, body = &bodies_.back()](Operation&) {
        (*body)();
        ran_.fetch_add(1);
      });
      read_byte(adopt(stream.ours), each);
    }
    send_all(first.peer.get(), "x", 1);
    for (Stream& stream : streams) send_all(stream.peer.get(), "x", 1);
    all_have_come.open();
    wait_for(static_cast<int>(count));
    std::ranges::move(streams, std::back_inserter(streams_));
    streams_.push_back(std::move(first));
  }

 private:
  std::deque<std::function<void()>> bodies_;
  std::vector<Stream> streams_;
};
BATON_CONFORMANCE_SUITE_IN(LastingHandlers, Mode::shared);

// Each of two handlers waits for the other. When handlers run long, a sleeping thread gets the
// results that are queued behind one.
TEST_P(LastingHandlers, do_not_delay_work_queued_behind_them) {
  begin_without_looks(2);
  run_lasting();
  std::atomic<int> met{0};
  run_together(2, [&] {
    met.fetch_add(1);
    wait_until([&] { return met == 2; });
  });
  EXPECT_EQ(proactor().statistics().seats_taken, 0U) << "by the standby";
}

// The leader's handler waits for an answer that only another leader can bring. That is the thread
// that has helped and is free again.
TEST_P(LastingHandlers, do_not_keep_what_comes_later) {
  begin_without_looks(2);
  run_lasting();
  Peer session = echo();
  std::atomic<int> met{0};
  std::atomic<bool> answered{false};
  std::thread client{[&] {
    wait_until([&] { return met == 2; });
    round_trip(session.get());
    answered = true;
  }};
  run_together(2, [&] {
    const bool first = met.fetch_add(1) == 0;
    wait_until([&] { return met == 2 && (answered || !first); });
  });
  client.join();
  EXPECT_EQ(proactor().statistics().seats_taken, 0U) << "by the standby";
}

}  // namespace
}  // namespace baton::conformance
