// stop, restart, drain (contract.md, rule 9).
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "threads.hpp"

namespace baton::conformance {
namespace {

class Stop : public Threads {
 protected:
  Handle* listener() {
    Peer fd{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_EQ(::listen(fd.get(), 8), 0);
    return adopt(fd, HandleKind::listener);
  }
  void accept(Handle* handle, Operation& operation) {
    operation.prepare(OperationKind::accept, handle);
    ASSERT_FALSE(proactor().start(operation));
  }
};

TEST_P(Stop, from_outside_ends_every_run) {
  use(3);
  Peer session = echo();
  run(3);
  round_trip(session.get(), 64);
  proactor().stop();
  proactor().stop();
  join();
  EXPECT_TRUE(proactor().stopped());
  EXPECT_TRUE(failures().empty());
}

TEST_P(Stop, from_inside_a_handler_ends_every_run) {
  use(3);
  run(3);
  post([this] { proactor().stop(); });
  join();
  EXPECT_TRUE(proactor().stopped());
}

TEST_P(Stop, comes_before_run) {
  use(1);
  proactor().stop();
  proactor().run();
  EXPECT_EQ(proactor().poll(), 0U);
}

TEST_P(Stop, races_with_threads_that_are_just_going_to_sleep) {
  use(2);
  for (int i = 0; i < 200 / slowness; ++i) {
    run(2);
    // Closing needs the mutex to be free for a moment: a stop must not get lost there.
    Stream stream;
    proactor().close_detached(*adopt(stream.ours));
    stop();
    proactor().restart();
  }
}

TEST_P(Stop, refuses_starts_until_restart) {
  use(1);
  Stream stream;
  Handle* handle = adopt(stream.ours);
  proactor().stop();
  Operation& read = operation();
  read.prepare(OperationKind::read_stream, handle);
  read.set_buffer(MutableBuffer{memory(1), 1});
  EXPECT_EQ(proactor().start(read), errc::stopped);
  EXPECT_EQ(proactor().post(operation()), errc::stopped);
  EXPECT_EQ(proactor().start_timer(operation(), proactor().now()), errc::stopped);
  proactor().restart();
  read_byte(handle, read);
  send_all(stream.peer.get(), "x", 1);
  run_until(proactor(), [&] { return !read.is_pending(); });
}

// Pending operations stay pending over stop and restart.
TEST_P(Stop, keeps_what_is_pending) {
  if (GetParam().profile == "pinned") GTEST_SKIP() << "a pinned ring is drained before run() ends";
  use(1);
  Peer session = echo();
  run(1);
  round_trip(session.get());
  wait_until([&] { return echoes()[0].operation.activation() == 3; });  // it reads again
  stop();
  proactor().restart();
  run(1);
  round_trip(session.get());
}

TEST_P(Stop, with_ten_thousand_pending_calls_nothing_after) {
  use(2);
  constexpr int handles = 100;
  constexpr int each = 100 / slowness;
  std::vector<Stream> streams(handles);
  std::atomic<int> completed{0};
  std::atomic<bool> over{false};
  struct Shared {
    std::atomic<int>& completed;
    std::atomic<bool>& over;
  } shared{completed, over};
  run(2);
  for (Stream& stream : streams) {
    Handle* handle = adopt(stream.ours);
    for (int i = 0; i < each; ++i) {
      Operation& read = operation();
      read.set_handler([to = &shared](Operation&) {
        EXPECT_FALSE(to->over);
        to->completed.fetch_add(1);
      });
      read_byte(handle, read);
    }
  }
  stop();
  const int before = completed;
  if (GetParam().profile != "pinned") {
    EXPECT_EQ(before, 0);
  }
  destroy();  // here they complete, cancelled, in this thread
  EXPECT_EQ(completed, handles * each);
  over = true;
}

// -- drain ----------------------------------------------------------------------------------------

TEST_P(Stop, a_drain_with_nothing_to_do_ends_run) {
  use(2);
  run(2);
  proactor().drain(Deadline::never());
  join();
  EXPECT_TRUE(proactor().stopped());
}

TEST_P(Stop, a_drain_cancels_accepts_and_refuses_new_ones_and_lets_the_rest_finish) {
  use(2);
  Handle* door = listener();
  Operation& accepting = operation();
  accept(door, accepting);
  Peer session = echo();
  run(2);
  round_trip(session.get());
  proactor().drain(Deadline::never());
  wait_until([&] { return !accepting.is_pending(); });
  EXPECT_EQ(accepting.error(), std::errc::operation_canceled);
  Operation& late = operation();
  late.prepare(OperationKind::accept, door);
  EXPECT_EQ(proactor().start(late), errc::stopped);
  for (int i = 0; i < 10; ++i) round_trip(session.get());
  EXPECT_FALSE(proactor().stopped());
  session.close();
  join();  // the session was the last
  EXPECT_TRUE(echoes()[0].done());
}

TEST_P(Stop, a_drain_waits_for_timers_and_posts) {
  use(2);
  run(2);
  std::atomic<int> ran{0};
  timer(Deadline::after(3ms, proactor().now()), [&] {
    post([&] { ran.fetch_add(1); });
    ran.fetch_add(1);
  });
  proactor().drain(Deadline::never());
  join();
  EXPECT_EQ(ran, 2);
}

TEST_P(Stop, at_its_deadline_a_drain_cancels_the_rest) {
  use(2);
  Peer session = echo();
  run(2);
  round_trip(session.get());
  wait_until([&] { return echoes()[0].operation.activation() == 3; });  // it reads again
  const Deadline deadline = Deadline::after(5ms, proactor().now());
  proactor().drain(deadline);
  join();
  EXPECT_GE(proactor().now(), deadline);
  EXPECT_TRUE(echoes()[0].done());
  EXPECT_EQ(echoes()[0].operation.error(), std::errc::operation_canceled);
}

// The earlier of two deadlines counts.
TEST_P(Stop, a_second_drain_may_end_the_first_sooner) {
  use(2);
  Peer session = echo();
  run(2);
  round_trip(session.get());
  wait_until([&] { return echoes()[0].operation.activation() == 3; });  // it reads again
  proactor().drain(Deadline::never());
  proactor().drain(Deadline::after(1h, proactor().now()));
  proactor().drain(Deadline::immediately());
  proactor().drain(Deadline::never());
  join();
  EXPECT_TRUE(echoes()[0].done());
  EXPECT_EQ(echoes()[0].operation.error(), std::errc::operation_canceled);
}

// Sessions that never pause: at each moment some of them are between two operations.
TEST_P(Stop, at_its_deadline_a_drain_ends_endless_work) {
  use(2);
  std::vector<Peer> sessions;
  std::vector<std::thread> clients;
  for (std::uint32_t i = 0; i < 4; ++i) sessions.push_back(echo(Home{i % 2}));
  for (const Peer& session : sessions) {
    clients.emplace_back([fd = session.get()] {
      char byte = 'x';
      while (::send(fd, &byte, 1, MSG_NOSIGNAL) == 1 && receive_all(fd, &byte, 1)) {
      }
    });
  }
  const auto ticks = std::make_unique<Operation>();
  ticks->set_handler([this](Operation& tick) {
    static_cast<void>(proactor().start_timer(tick, Deadline::after(100us, proactor().now())));
  });
  ASSERT_FALSE(proactor().start_timer(*ticks, proactor().now()));
  run(2);
  // A lane that no thread had entered by the deadline would keep its operations.
  for (const Echo& one : echoes()) {
    wait_until([&] { return one.operation.activation() >= 3; });
  }
  proactor().drain(Deadline::after(5ms, proactor().now()));
  join();
  for (const Echo& one : echoes()) EXPECT_TRUE(one.done());
  EXPECT_FALSE(ticks->is_pending());
  for (std::thread& client : clients) client.join();
}

// The timer of the first drain must not end the second run.
TEST_P(Stop, drains_can_follow_each_other) {
  use(1);
  for (int i = 0; i < 3; ++i) {
    run(1);
    proactor().drain(Deadline::after(10ms, proactor().now()));
    join();
    proactor().restart();
  }
  Peer session = echo();
  run(1);
  const Deadline end = Deadline::after(15ms, proactor().now());
  while (proactor().now() < end) round_trip(session.get());
  EXPECT_FALSE(echoes()[0].done());
  // The last one has a deadline of its own.
  proactor().drain(Deadline::after(1ms, proactor().now()));
  join();
  EXPECT_TRUE(echoes()[0].done());
}

TEST_P(Stop, a_drain_from_inside_a_handler) {
  use(2);
  run(2);
  post([this] { proactor().drain(Deadline::never()); });
  join();
}

BATON_CONFORMANCE_SUITE(Stop);

}  // namespace
}  // namespace baton::conformance
