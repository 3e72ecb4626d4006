// Lanes of per_thread mode: which threads may lead them, and to which lane handles and posts belong
// (P-14, P-18).
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <stdexcept>
#include <system_error>
#include <thread>

#include "threads.hpp"

namespace baton::conformance {
namespace {

class Lanes : public Threads {
 protected:
  static std::error_code error_of(const std::function<void()>& call) {
    try {
      call();
    } catch (const std::system_error& failure) {
      return failure.code();
    }
    return {};
  }
  [[nodiscard]] bool pinned() const { return GetParam().profile == "pinned"; }
  /// `threads` inside run(), each in its lane.
  void run_all(unsigned threads) {
    run(threads);
    wait_until_asleep(static_cast<int>(threads));
  }
  std::uint32_t home_of(Home home) {
    Stream stream;
    return proactor().home_lane(*adopt(stream.ours, HandleKind::stream_socket, home));
  }
};

TEST_P(Lanes, there_are_as_many_as_were_asked_for) {
  use(2);
  EXPECT_EQ(proactor().lanes(), 2U);
  run_all(2);
  EXPECT_EQ(proactor().poll(), 0U) << "every lane has its thread";
  Peer session = echo();
  round_trip(session.get());  // the others are not disturbed
}

TEST_P(Lanes, a_number_that_does_not_exist_is_as_good_as_none) {
  use(2);
  run_all(2);
  const std::uint32_t unknown = proactor().lanes();
  for (const std::uint32_t lane : {unknown, unknown + 1'000, Home::by_policy - 1}) {
    EXPECT_LT(home_of({.lane = lane}), unknown);
    Peer session = echo({.lane = lane});
    round_trip(session.get());
    Gate& ran = gate();
    post([&] { ran.open(); }, Notify::strong, {.lane = lane});
    ran.wait();
  }
}

TEST_P(Lanes, a_lane_that_was_left_is_free_again) {
  use(1);
  for (int i = 0; i < 3; ++i) {
    run(1);
    Peer session = echo();
    round_trip(session.get());
    stop();
    proactor().restart();
  }
  std::thread other{[&] { proactor().poll(); }};
  other.join();
  run_all(1);
}

// A lane whose thread just comes or goes is not kept: another thread finds none free, and no error.
TEST_P(Lanes, a_pinned_lane_is_not_kept_by_threads_that_come_and_go) {
  if (!pinned()) return;
  use(2);
  std::atomic<int> refused{0};
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 3; ++i) {
      threads.emplace_back([&] {
        for (int j = 0; j < 200'000; ++j) {
          if (error_of([&] { proactor().poll(); })) ++refused;
        }
      });
    }
  }
  EXPECT_EQ(refused, 0);
}

// Operations of a pinned engine stay with the thread that polls it, until that thread ends.
TEST_P(Lanes, a_pinned_lane_is_kept_by_the_thread_that_polls) {
  use(1);
  proactor().poll();
  std::thread{[&] { proactor().poll(); }}.join();  // nothing is in flight
  Stream stream;
  Operation& read = operation();
  read_byte(adopt(stream.ours), read);
  proactor().poll();
  std::error_code other_error;
  std::thread{[&] { other_error = error_of([&] { proactor().poll(); }); }}.join();
  if (pinned()) {
    EXPECT_EQ(other_error, errc::wrong_thread);
    EXPECT_NE(proactor().explain().find("leader=pinned"), std::string::npos);
  } else {
    EXPECT_FALSE(other_error);
  }
  send_all(stream.peer.get(), "x", 1);
  run_until(proactor(), [&] { return !read.is_pending(); });  // still ours
  EXPECT_FALSE(read.error());
}

// After that the engine is free, and the kernel holds nothing of that thread.
TEST_P(Lanes, a_kept_lane_is_let_go_when_its_thread_ends) {
  use(1);
  Stream stream;
  Operation& read = operation();
  Handle* handle = adopt(stream.ours);
  read.prepare(OperationKind::read_stream, handle);
  read.set_buffer(MutableBuffer{memory(1), 1});
  std::thread{[&] {
    ASSERT_FALSE(proactor().start(read));
    proactor().poll();
  }}.join();
  send_all(stream.peer.get(), "x", 1);
  run_until(proactor(), [&] { return !read.is_pending(); });
  EXPECT_EQ(read.error(), pinned() ? std::errc::operation_canceled : std::errc{});
}

// Another thread cannot end what its engine holds.
TEST_P(Lanes, an_end_while_a_thread_keeps_a_lane_ends_the_program_with_the_advice) {
  if (!pinned()) return;
  const auto end_it = [this] {
    use(1);
    Stream stream;
    Operation& read = operation();
    Handle* handle = adopt(stream.ours);
    Gate kept;
    Gate ended;
    std::thread keeper{[&] {
      read_byte(handle, read);
      proactor().poll();
      kept.open();
      ended.wait();
    }};
    kept.wait();
    destroy();
    ended.open();
    keeper.join();
  };
  EXPECT_DEATH(end_it(), "another thread keeps a lane of it.*: call run\\(\\) there once more");
}

// A thread that an exception has brought out of run() keeps its lane, too.
TEST_P(Lanes, a_lane_that_an_exception_has_left_is_let_go_when_its_thread_ends) {
  use(1);
  Stream stream;
  Operation& read = operation();
  Handle* handle = adopt(stream.ours);
  std::thread{[&] {
    read_byte(handle, read);
    post([] { throw std::runtime_error("a handler's"); });
    EXPECT_THROW(proactor().run(), std::runtime_error);
  }}.join();
  destroy();
  EXPECT_EQ(read.error(), std::errc::operation_canceled);
}

TEST_P(Lanes, handles_go_round_robin) {
  use(3);
  for (std::uint32_t i = 0; i < 6; ++i) {
    EXPECT_EQ(home_of(Home{}), i % 3);
  }
  EXPECT_EQ(home_of(Home{2}), 2U);
}

TEST_P(Lanes, handles_of_a_handler_stay_in_its_lane) {
  use(3);
  run_all(3);
  for (std::uint32_t lane = 0; lane < 3; ++lane) {
    std::atomic<std::uint32_t> home{99};
    std::atomic<std::uint32_t> here{99};
    post(
        [&] {
          here = proactor().current_lane();
          home = home_of(Home{});
        },
        Notify::strong, Home{lane});
    wait_until([&] { return home != 99; });
    EXPECT_EQ(here, lane);
    EXPECT_EQ(home, lane);
  }
  EXPECT_EQ(proactor().current_lane(), proactor().lanes()) << "this thread is in none";
}

TEST_P(Lanes, the_least_loaded_lane_gets_the_handle) {
  use(3, [](Config& config) { config.accept_policy = AcceptPolicy::least_loaded; });
  for (int i = 0; i < 2; ++i) home_of(Home{0});
  home_of(Home{1});
  EXPECT_EQ(home_of(Home{Home::by_policy}), 2U);
  EXPECT_EQ(home_of(Home{Home::by_policy}), 1U);
  EXPECT_EQ(home_of(Home{Home::by_policy}), 2U);
}

TEST_P(Lanes, the_accepting_thread_may_keep_the_handle) {
  use(3, [](Config& config) { config.accept_policy = AcceptPolicy::same_thread; });
  run_all(3);
  std::atomic<std::uint32_t> home{99};
  post([&] { home = home_of(Home{Home::by_policy}); }, Notify::strong, Home{2});
  wait_until([&] { return home != 99; });
  EXPECT_EQ(home, 2U);
}

// A handler runs in the lane of its handle, whichever thread started the operation; a post in the
// lane it is sent to, or in the sender's.
TEST_P(Lanes, handlers_run_at_home) {
  use(3);
  run_all(3);
  struct Shared {
    Proactor& proactor;
    std::atomic<std::uint32_t> lane{99};
  };
  for (std::uint32_t lane = 0; lane < 3; ++lane) {
    Shared shared{proactor()};
    Stream stream;
    Operation& read = operation();
    read.set_handler([to = &shared](Operation&) { to->lane = to->proactor.current_lane(); });
    read_byte(adopt(stream.ours, HandleKind::stream_socket, Home{lane}), read);
    send_all(stream.peer.get(), "x", 1);
    wait_until([&] { return shared.lane != 99; });
    EXPECT_EQ(shared.lane, lane);
    Shared posted{proactor()};
    post(
        [&] {
          EXPECT_FALSE(proactor().post([to = &posted] { to->lane = to->proactor.current_lane(); }));
        },
        Notify::strong, Home{lane});
    wait_until([&] { return posted.lane != 99; });
    EXPECT_EQ(posted.lane, lane);
  }
}

// Each lane has its own thread: a session in each, all at once, from foreign threads.
TEST_P(Lanes, all_serve_at_once) {
  use(3);
  run_all(3);
  std::vector<std::thread> clients;
  std::vector<Peer> sessions;
  for (std::uint32_t lane = 0; lane < 3; ++lane) sessions.push_back(echo(Home{lane}));
  for (const Peer& session : sessions) {
    clients.emplace_back([&session] {
      for (int i = 0; i < 100 / slowness; ++i) round_trip(session.get());
    });
  }
  for (std::thread& client : clients) client.join();
}

TEST_P(Lanes, a_deadline_is_moved_in_its_own_lane_only) {
  use(2);
  run_all(2);
  const auto in = [&](Duration span) { return Deadline::after(span, proactor().now()); };
  const auto inside = [&](std::uint32_t lane, const std::function<void()>& body) {
    std::atomic<bool> done{false};
    post([&] { body(), done = true; }, Notify::strong, Home{lane});
    wait_until([&] { return done.load(); });
  };
  Stream stream;
  Handle* const handle = adopt(stream.ours, HandleKind::stream_socket, Home{0});
  Operation& timer = operation();
  Operation& read = operation();
  inside(0, [&] {
    EXPECT_FALSE(proactor().start_timer(timer, in(1h)));
    read.prepare(OperationKind::read_stream, handle);
    read.set_buffer(MutableBuffer{memory(1), 1});
    read.set_deadline(in(1h));
    EXPECT_FALSE(proactor().start(read));
  });
  const auto try_to_move = [&] {
    EXPECT_FALSE(proactor().move_deadline(timer, in(1us)));
    EXPECT_FALSE(proactor().move_deadline(read, in(1us)));
  };
  inside(1, try_to_move);
  try_to_move();
  EXPECT_TRUE(timer.is_pending());
  EXPECT_TRUE(read.is_pending());
  inside(0, [&] {
    EXPECT_TRUE(proactor().move_deadline(timer, in(1us)));
    EXPECT_TRUE(proactor().move_deadline(read, in(1us)));
  });
  wait_until([&] { return !timer.is_pending() && !read.is_pending(); });
  EXPECT_FALSE(timer.error());
  EXPECT_EQ(read.error(), errc::timed_out);
}

TEST_P(Lanes, cancel_all_reaches_every_lane) {
  use(3);
  run_all(3);
  Stream streams[3];
  std::vector<Operation*> reads;
  for (std::uint32_t lane = 0; lane < 3; ++lane) {
    reads.push_back(&operation());
    read_byte(adopt(streams[lane].ours, HandleKind::stream_socket, Home{lane}), *reads.back());
  }
  proactor().cancel_all();
  wait_until([&] {
    return !reads[0]->is_pending() && !reads[1]->is_pending() && !reads[2]->is_pending();
  });
  for (Operation* read : reads) EXPECT_EQ(read->error(), std::errc::operation_canceled);
}

BATON_CONFORMANCE_SUITE_IN(Lanes, Mode::per_thread);

}  // namespace
}  // namespace baton::conformance
