// An attached thread keeps its lane between its calls, and counts as inside a handler then.
#include <sys/wait.h>

#include <mutex>
#include <optional>
#include <stdexcept>
#include <system_error>

#include "../../support/fork_at_rest.h"
#include "../../support/sleeping_thread.hpp"
#include "baton/attachment.hpp"
#include "threads.hpp"

namespace baton::conformance {
namespace {

class Attached : public Threads {
 protected:
  [[nodiscard]] bool has_lanes() const { return mode() == Mode::per_thread; }
  void drive_until(const std::function<bool()>& done) { run_until(proactor(), done); }
  /// The session of another thread's, which this one drives.
  void serve(Peer& session, int messages) {
    std::atomic<bool> done{false};
    std::thread client{[&] {
      for (int i = 0; i < messages; ++i) round_trip(session.get());
      done = true;
      ASSERT_FALSE(proactor().post([] {}));
    }};
    drive_until([&] { return done.load(); });
    client.join();
  }
  /// `leave` leaves an operation in the lane of an attached thread, which does not call for now.
  /// Another thread that sees the drain must not end it.
  void expect_drain_waits(const std::function<void(Operation&)>& leave) {
    use(2);
    const Attachment attached{proactor()};
    proactor().poll();
    std::atomic<bool> ran{false};
    Operation& last = operation();
    last.set_handler([&](Operation&) { ran = true; });
    leave(last);
    proactor().drain(Deadline::never());
    test::WatchedThread other{[&] {
      proactor().run();
      EXPECT_TRUE(ran);
    }};
    other.until_asleep([] { return true; });
    drive_until([&] { return proactor().stopped(); });
    other.join();
    EXPECT_TRUE(ran);
  }
};

TEST_P(Attached, sessions_and_what_is_started_between_calls_are_served) {
  use(1);
  const Attachment attached{proactor()};
  EXPECT_EQ(attached.has_lane(), has_lanes());
  Peer session = echo();
  serve(session, 20);
  for (int i = 0; i < 20; ++i) {
    Stream stream;
    Operation& read = operation();
    read_byte(adopt(stream.ours), read);
    send_all(stream.peer.get(), "x", 1);
    drive_until([&] { return read.state() == OperationState::completed; });
    EXPECT_EQ(read.bytes(), 1U);
  }
}

// Its call waits, so requests of other threads reach it.
TEST_P(Attached, other_threads_reach_its_lane) {
  use(1);
  const Attachment attached{proactor()};
  Stream stream;
  Handle* const handle = adopt(stream.ours);
  Operation& read = operation();
  std::thread other{[&] {
    read_byte(handle, read);
    send_all(stream.peer.get(), "x", 1);
  }};
  drive_until([&] { return read.state() == OperationState::completed; });
  other.join();
  Operation& held = operation();
  read_byte(handle, held);
  std::thread third{[&] { proactor().cancel(held); }};
  drive_until([&] { return held.state() == OperationState::completed; });
  third.join();
  EXPECT_EQ(held.error(), std::errc::operation_canceled);
}

TEST_P(Attached, lanes_without_a_thread_are_served_too) {
  use(3, [](Config& config) {
    for (ProcessorConfig& processor : config.processors) {
      if (processor.profile == "pinned") processor.profile = "auto";
    }
  });
  const Attachment attached{proactor()};
  std::vector<Peer> sessions;
  for (std::uint32_t lane = 0; lane < proactor().lanes(); ++lane) {
    sessions.push_back(echo(Home{lane}));
  }
  for (Peer& session : sessions) serve(session, 5);
}

// Another thread leads its pending operations.
TEST_P(Attached, pending_operations_go_on_without_it) {
  if (GetParam().profile == "pinned") return;  // it ends with its thread
  use(1);
  Stream stream;
  Operation& read = operation();
  Peer session;
  {
    const Attachment attached{proactor()};
    session = echo();
    serve(session, 3);
    read_byte(adopt(stream.ours), read);
    proactor().handle_events(Deadline::immediately());
  }
  run(1);
  round_trip(session.get());
  send_all(stream.peer.get(), "x", 1);
  wait_until([&] { return read.state() == OperationState::completed; });
  EXPECT_EQ(read.bytes(), 1U);
}

TEST_P(Attached, its_last_start_goes_on_without_it) {
  if (GetParam().profile == "pinned") return;  // it ends with its thread
  use(1);
  Stream stream;
  Operation& read = operation();
  {
    const Attachment attached{proactor()};
    read_byte(adopt(stream.ours), read);
  }
  run(1);
  send_all(stream.peer.get(), "x", 1);
  wait_until([&] { return read.state() == OperationState::completed; });
}

TEST_P(Attached, a_stop_ends_its_calls_and_a_restart_lets_it_go_on) {
  use(1);
  const Attachment attached{proactor()};
  Peer session = echo();
  for (int i = 0; i < 3; ++i) {
    serve(session, 2);
    std::thread other{[&] { proactor().stop(); }};
    proactor().run();
    other.join();
    EXPECT_EQ(proactor().handle_events(), 0U);
    EXPECT_TRUE(proactor().stopped());
    proactor().restart();
  }
  serve(session, 2);
}

TEST_P(Attached, a_drain_ends_in_one_of_its_calls) {
  use(2);
  Stream stream;
  Operation& read = operation();
  const Attachment attached{proactor()};
  read_byte(adopt(stream.ours), read);
  proactor().handle_events(Deadline::immediately());
  proactor().drain(Deadline::never());
  send_all(stream.peer.get(), "x", 1);
  drive_until([&] { return proactor().stopped(); });
  EXPECT_EQ(read.bytes(), 1U);
}

// It is complete, or posted, in its lane at once.
TEST_P(Attached, a_drain_waits_for_posts_between_its_calls) {
  expect_drain_waits([&](Operation& last) { EXPECT_FALSE(proactor().post(last)); });
}

TEST_P(Attached, a_drain_waits_for_a_write_between_its_calls) {
  Stream stream;
  expect_drain_waits([&](Operation& last) {
    Handle* const handle = adopt(stream.ours);
    const auto write = [&](Operation& each) {
      each.prepare(OperationKind::write_stream, handle);
      each.set_buffer(ConstBuffer{memory(1), 1});
      EXPECT_FALSE(proactor().start(each));
    };
    Operation& first = operation();  // it finds the way for those behind it
    write(first);
    drive_until([&] { return !first.is_pending(); });
    write(last);
  });
}

// Two threads that drive in turns, as under a lock of the program's.
TEST_P(Attached, a_drain_ends_though_no_two_call_at_once) {
  use(2);
  std::mutex lock;
  const auto drive = [&] {
    const Attachment attached{proactor()};
    const Deadline end = test::at_last();
    while (!proactor().stopped() && proactor().now() < end) {
      const std::lock_guard guard{lock};
      proactor().poll();
    }
    EXPECT_TRUE(proactor().stopped());
  };
  proactor().drain(Deadline::never());
  std::thread other{drive};
  drive();
  other.join();
}

// A handler in a lane that the thread leads besides its own leaves work in the home lane, and vice
// versa.
TEST_P(Attached, a_drain_waits_for_posts_of_its_handlers_to_other_lanes) {
  if (GetParam().profile == "pinned") return;  // it leads no lane besides its own
  use(2);
  const Attachment attached{proactor()};
  proactor().poll();
  for (const std::uint32_t from : {0U, 1U}) {
    bool ran = false;
    Operation& last = operation();
    last.set_handler([&](Operation&) { ran = true; });
    std::thread{[&, from] {
      post(
          [&, from] {
            proactor().drain(Deadline::never());
            EXPECT_FALSE(proactor().post(last, Notify::strong, Home{1 - from}));
          },
          Notify::strong, Home{from});
    }}.join();
    drive_until([&] { return proactor().stopped(); });
    EXPECT_TRUE(ran) << from;
    proactor().restart();
    drive_until([&] { return !last.is_pending(); });
  }
}

// Its deadline is on a timer, in a lane whose thread waits.
TEST_P(Attached, the_deadline_of_a_drain_is_kept_while_it_is_away) {
  if (!has_lanes() || GetParam().profile == "pinned") return;
  use(2);
  const Attachment attached{proactor()};
  proactor().poll();
  run(1);
  wait_until_asleep(1);
  Stream stream;
  Operation& read = operation();
  read_byte(adopt(stream.ours, HandleKind::stream_socket, Home{1}), read);
  std::thread{[&] { proactor().drain(Deadline::after(1ms, proactor().now())); }}.join();
  wait_until([&] { return read.state() == OperationState::completed; });
  EXPECT_EQ(read.error(), std::errc::operation_canceled);
}

// Other lanes that it has led, and requests to it, go to other threads while it is away.
TEST_P(Attached, it_keeps_no_lane_but_its_own_while_it_is_away) {
  if (!has_lanes() || GetParam().profile == "pinned") return;
  use(3);
  const Attachment attached{proactor()};
  proactor().poll();
  run(1);
  Stream stream;
  Operation& read = operation();
  std::thread other{[&] {
    wait_until_asleep(2);
    read_byte(adopt(stream.ours, HandleKind::stream_socket, Home{2}), read);
    post([] {}, Notify::strong, Home{0});
  }};
  proactor().handle_events();
  other.join();
  send_all(stream.peer.get(), "x", 1);
  wait_until([&] { return read.state() == OperationState::completed; });
  EXPECT_EQ(read.bytes(), 1U);
}

TEST_P(Attached, it_keeps_no_other_lane_after_an_exception_or_a_stop) {
  if (!has_lanes() || GetParam().profile == "pinned") return;
  for (const bool throws : {true, false}) {
    use(2);
    {
      const Attachment attached{proactor()};
      post(
          [&] {
            if (throws) throw std::runtime_error{"one"};
            proactor().stop();
          },
          Notify::strong, Home{1});
      if (throws) {
        EXPECT_THROW(drive_until([] { return false; }), std::runtime_error);
      } else {
        drive_until([&] { return proactor().stopped(); });
        proactor().handle_events();
        proactor().restart();
      }
      Stream stream;
      Operation& read = operation();
      read_byte(adopt(stream.ours, HandleKind::stream_socket, Home{1}), read);
      run(1);
      send_all(stream.peer.get(), "x", 1);
      wait_until([&] { return read.state() == OperationState::completed; });
    }
    stop();
    destroy();
  }
}

TEST_P(Attached, operations_started_between_calls_have_their_age) {
  use(1);
  const Attachment attached{proactor()};
  Stream stream;
  read_byte(adopt(stream.ours), operation());
  EXPECT_EQ(proactor().pending().operations.size(), 1U);
  EXPECT_TRUE(proactor().pending(std::chrono::hours{1}).operations.empty());
}

TEST_P(Attached, its_handlers_may_drive_throw_and_stop) {
  use(1);
  const Attachment attached{proactor()};
  int ran = 0;
  post([&] {
    post([&] { ++ran; });
    while (ran == 0) proactor().poll();
    throw std::runtime_error{"one"};
  });
  EXPECT_THROW(drive_until([] { return false; }), std::runtime_error);
  EXPECT_EQ(ran, 1);
  post([&] { proactor().stop(); });
  proactor().run();
  proactor().restart();
  Peer session = echo();
  serve(session, 3);
}

TEST_P(Attached, twice_or_in_a_handler_it_does_nothing) {
  use(1);
  bool ran = false;
  post([&] {
    const Attachment inside{proactor()};
    EXPECT_FALSE(inside.has_lane());
    ran = true;
  });
  drive_until([&] { return ran; });
  const Attachment first{proactor()};
  Peer session = echo();
  {
    const Attachment second{proactor()};
    EXPECT_FALSE(second.has_lane());
    serve(session, 3);
  }
  serve(session, 3);
}

// A second thread stands by, as without an attachment.
TEST_P(Attached, where_every_lane_has_a_thread_it_does_nothing) {
  if (!has_lanes()) return;
  use(1);
  const Attachment attached{proactor()};
  std::thread second{[&] {
    const Attachment other{proactor()};
    EXPECT_FALSE(other.has_lane());
    proactor().handle_events(Deadline::after(1ms, proactor().now()));
  }};
  second.join();
}

TEST_P(Attached, to_two_proactors_in_any_order) {
  use(1);
  auto other = open(1);
  ASSERT_NE(other, nullptr);
  Peer session = echo();
  auto first = std::make_unique<Attachment>(proactor());
  auto second = std::make_unique<Attachment>(*other);
  int ran = 0;
  for (int i = 1; i <= 3; ++i) {
    ASSERT_FALSE(other->post([&] { ++ran; }));
    run_until(*other, [&] { return ran == i; });
    serve(session, 2);
  }
  proactor().stop();
  EXPECT_EQ(proactor().handle_events(), 0U);
  proactor().restart();
  serve(session, 2);
  first.reset();
  ASSERT_FALSE(other->post([&] { ++ran; }));
  run_until(*other, [&] { return ran == 4; });
  second.reset();
  Peer next = echo();  // a pinned lane has ended the first session with the attachment
  serve(next, 2);
}

TEST_P(Attached, begun_or_ended_in_a_handler_of_another_proactor) {
  use(1);
  auto other = open(1);
  ASSERT_NE(other, nullptr);
  std::optional<Attachment> attached;
  for (int i = 0; i < 2; ++i) {
    bool ran = false;
    ASSERT_FALSE(other->post([&] {
      attached.emplace(proactor());
      ran = true;
    }));
    run_until(*other, [&] { return ran; });
    EXPECT_EQ(attached->has_lane(), has_lanes());
    Peer session = echo();
    serve(session, 3);
    ASSERT_FALSE(other->post([&] {
      attached.reset();
      ran = false;
    }));
    run_until(*other, [&] { return !ran; });
    Peer next = echo();  // a pinned lane has ended the first session with the attachment
    serve(next, 3);
  }
}

TEST_P(Attached, in_a_forked_child_nothing_of_it_is_left) {
#ifdef __SANITIZE_THREAD__
  if (mode() == Mode::dedicated) {
    GTEST_SKIP() << "the thread sanitizer ends children that start threads";
  }
#endif
  use(1);
  auto attached = std::make_unique<Attachment>(proactor());
  Peer session = echo();
  serve(session, 2);
  const pid_t child = fork_at_rest();
  if (child == 0) {
    ::alarm(30);
    attached.reset();
    bool refused = false;
    try {
      const Attachment anew{proactor()};
    } catch (const std::system_error& error) {
      refused = error.code() == errc::after_fork;
    }
    if (!refused || !proactor().reopen()) ::_exit(1);
    const Attachment anew{proactor()};
    int ran = 0;
    if (proactor().post([&] { ++ran; })) ::_exit(2);
    while (ran == 0) proactor().handle_events();
    ::_exit(0);
  }
  int status = -1;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  EXPECT_EQ(status, 0);
  serve(session, 2);
}

BATON_CONFORMANCE_SUITE(Attached);

}  // namespace
}  // namespace baton::conformance
