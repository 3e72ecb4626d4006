// A handler that blocks delays only itself if another thread is free, and any waiting thread serves
// timers (P-12, P-13, P-36).
#include "threads.hpp"

namespace baton::conformance {
namespace {

class Blocking : public Threads {
 protected:
  /// A handler of a read, which a shared leader runs with its seat kept, that blocks in `until`.
  /// Returns when it has been entered.
  void block_a_reader(Gate& until, Home home = {}) {
    Stream stream;
    Handle* handle = adopt(stream.ours, HandleKind::stream_socket, home);
    Operation& read = operation();
    auto* const state = &blocked_.emplace_back(&until);
    read.set_handler([state](Operation&) {
      state->entered.store(true);
      state->until->wait();
      state->left.store(true);
    });
    read_byte(handle, read);
    send_all(stream.peer.get(), "x", 1);
    wait_until([&] { return state->entered.load(); });
    peers_.push_back(std::move(stream.peer));
  }
  struct Blocked {
    explicit Blocked(Gate* gate) : until(gate) {}
    Gate* until;
    std::atomic<bool> entered{false};
    std::atomic<bool> left{false};
  };
  std::deque<Blocked> blocked_;
  std::vector<Peer> peers_;
};

TEST_P(Blocking, delays_only_itself_while_another_thread_is_free) {
  use(2);
  Peer session = echo(Home{1});
  run(2);
  round_trip(session.get());
  Gate& until = gate();
  block_a_reader(until, Home{0});
  for (int i = 0; i < 20; ++i) round_trip(session.get());
  EXPECT_FALSE(blocked_[0].left);
  if (mode() == Mode::shared) {
    // A busy machine makes handlers of the session slow as well: each seat has one of its own.
    const Statistics now = proactor().statistics();
    EXPECT_GE(now.seats_taken, 1U) << "the standby took the seat of the stuck leader";
    EXPECT_GE(now.slow_handlers, 1U);
    EXPECT_GE(now.seats_taken, now.slow_handlers);
  }
  until.open();
  wait_until([&] { return blocked_[0].left.load(); });
  for (int i = 0; i < 20; ++i) round_trip(session.get());  // its thread has found its place
}

TEST_P(Blocking, three_of_four_threads_may_block) {
  use(4);
  Peer session = echo(Home{3});
  run(4);
  Gate& until = gate();
  for (std::uint32_t i = 0; i < 3; ++i) block_a_reader(until, Home{i});
  for (int i = 0; i < 20; ++i) round_trip(session.get());
  until.open();
  wait_until([&] { return blocked_[0].left && blocked_[1].left && blocked_[2].left; });
  round_trip(session.get());
}

// Results that were reaped together with the one that blocks are not stuck behind it. (In a lane
// they are: it is one thread.)
TEST_P(Blocking, results_of_the_same_batch_go_on) {
  use(2);
  constexpr int count = 8;
  struct Shared {
    Gate& until;
    std::atomic<int> entered{0};
    std::atomic<int> ran{0};
  } shared{gate()};
  std::vector<Stream> streams(count);
  for (Stream& stream : streams) {
    Operation& read = operation();
    read.set_handler([to = &shared](Operation&) {
      if (to->entered.fetch_add(1) == 0) to->until.wait();
      to->ran.fetch_add(1);
    });
    read_byte(adopt(stream.ours), read);
    send_all(stream.peer.get(), "x", 1);
  }
  run(2);
  wait_until([&] { return shared.ran >= (per_thread() ? count / 2 : count - 1); });
  EXPECT_LT(shared.ran, count);
  shared.until.open();
  wait_until([&] { return shared.ran == count; });
}

// A thread that was alone has taken several results at once, for speed. A second thread gets those
// that have not begun.
TEST_P(Blocking, a_new_thread_takes_queued_work) {
  use(2);
  constexpr int count = 100;
  struct Shared {
    Gate& until;
    std::atomic<int> entered{0};
    std::atomic<int> ran{0};
  } shared{gate()};
  for (int i = 0; i < count; ++i) {
    post(
        [to = &shared] {
          if (to->entered.fetch_add(1) == 1) to->until.wait();
          to->ran.fetch_add(1);
        },
        Notify::strong, Home{0});
  }
  run(1);
  wait_until([&] { return shared.entered == 2; });
  EXPECT_EQ(shared.ran, 1);
  run(1);
  if (!per_thread()) wait_until([&] { return shared.ran == count - 1; });
  shared.until.open();
  wait_until([&] { return shared.ran == count; });
}

// A handler that drives the proactor itself gets the results that are queued behind it.
TEST_P(Blocking, a_nested_turn_takes_queued_work) {
  use(1);
  std::atomic<int> ran{0};
  std::atomic<int> nested{-1};
  post([&] {
    while (ran < 3) proactor().handle_events(Deadline::after(100ms, proactor().now()));
    nested = ran.load();
  });
  for (int i = 0; i < 3; ++i) post([&] { ++ran; });
  run(1);
  wait_until([&] { return nested == 3; });
}

// P-14: a lane has one thread; the statistics show handlers that block it.
TEST_P(Blocking, can_be_read_in_the_statistics) {
  use(2);
  run(2);
  std::atomic<bool> done{false};
  post([&] {
    const Deadline end = Deadline::after(20ms);
    while (Deadline::after(0ns) < end) std::this_thread::yield();
    done = true;
  });
  wait_until([&] { return done.load(); });
  if (!per_thread()) {
    // The clock samples the last handler of a batch, and this was the last one.
    wait_until([&] { return proactor().statistics().handler_ns_max >= 20'000'000; });
    return;
  }
  wait_until([&] { return proactor().statistics().slow_handlers == 1; });
  EXPECT_GE(proactor().statistics().handler_ns_max, 20'000'000U);
}

class Timers : public Blocking {
 protected:
  /// A timer that notes whether it came early.
  void expect_at(Deadline when) {
    timer(when, [this, when] {
      if (proactor().now() < when) early_ = true;
      fired_.fetch_add(1);
    });
  }
  void wait_for(int fired) {
    wait_until([&] { return fired_ == fired; });
    EXPECT_FALSE(early_);
  }
  std::atomic<int> fired_{0};
  std::atomic<bool> early_{false};
};

TEST_P(Timers, are_served_while_a_leader_waits) {
  use(2);
  Stream quiet;
  read_byte(adopt(quiet.ours), operation());
  run(2);
  expect_at(Deadline::after(3ms, proactor().now()));
  wait_for(1);
}

TEST_P(Timers, are_served_while_no_thread_leads) {
  use(2);
  run(2);
  expect_at(Deadline::after(3ms, proactor().now()));
  wait_for(1);
}

TEST_P(Timers, are_served_by_one_thread_alone) {
  use(1);
  run(1);
  for (int i = 0; i < 10; ++i) expect_at(Deadline::after(i * 500us, proactor().now()));
  wait_for(10);
}

TEST_P(Timers, a_nearer_one_is_not_slept_through) {
  use(2);
  Stream quiet;
  read_byte(adopt(quiet.ours), operation());
  run(2);
  wait_until_asleep(2);
  Operation& far = operation();
  ASSERT_FALSE(proactor().start_timer(far, Deadline::after(1h, proactor().now())));
  expect_at(Deadline::after(5ms, proactor().now()));
  wait_for(1);
  EXPECT_EQ(proactor().cancel(far), CancelResult::requested);
  wait_until([&] { return !far.is_pending(); });
  EXPECT_EQ(far.error(), std::errc::operation_canceled);
}

// Of another thread's lane no deadline can be moved.
TEST_P(Timers, one_that_is_moved_nearer_is_not_slept_through) {
  if (mode() == Mode::per_thread) return;
  use(1);
  run(1);
  Operation& timer = operation();
  ASSERT_FALSE(proactor().start_timer(timer, Deadline::after(1h, proactor().now())));
  wait_until_asleep(1);
  EXPECT_TRUE(proactor().move_deadline(timer, Deadline::after(1us, proactor().now())));
  wait_until([&] { return !timer.is_pending(); });
  EXPECT_FALSE(timer.failed());
}

TEST_P(Timers, are_served_while_a_handler_blocks) {
  use(2);
  run(2);
  Gate& until = gate();
  block_a_reader(until, Home{0});
  post([this] { expect_at(Deadline::after(3ms, proactor().now())); }, Notify::strong, Home{1});
  post([this] { expect_at(Deadline::after(6ms, proactor().now())); }, Notify::strong, Home{1});
  wait_for(2);
  until.open();
}

BATON_CONFORMANCE_SOCKET_SUITE(Blocking);
BATON_CONFORMANCE_SOCKET_SUITE(Timers);

}  // namespace
}  // namespace baton::conformance
