// run, run_one, poll, handle_events: their promises about handlers, deadlines, and threads that
// come and go (P-10, P-14, X-02).
#include <pthread.h>

#include <stdexcept>
#include <thread>

#include "../../support/fork_at_rest.h"
#include "baton/strand.hpp"
#include "baton/stream_socket.hpp"
#include "threads.hpp"

namespace baton::conformance {
namespace {

class Run : public Threads {
 protected:
  std::function<void()> counting() {
    return [this] { ran_.fetch_add(1); };
  }
  Handle* two_threads_and_a_read_that_throws(Stream& stream);
  std::atomic<int> ran_{0};
  char byte_ = 0;
};

TEST_P(Run, run_one_runs_at_most_one_handler) {
  use(1);
  post(counting());
  post(counting());
  EXPECT_TRUE(proactor().run_one());
  EXPECT_EQ(ran_, 1);
  EXPECT_TRUE(proactor().run_one());
  EXPECT_EQ(ran_, 2);
}

// Inside the library pthread_cancel acts nowhere: its functions are noexcept.
TEST_P(Run, a_thread_that_is_cancelled_returns_first) {
  use(1);
  Stream stream;
  Operation& read = operation();
  Operation& close = operation();
  read.set_handler([this, &close](Operation& self) {
    close.prepare(OperationKind::close, self.handle());
    EXPECT_FALSE(proactor().close(*self.handle(), close));
  });
  close.set_handler([this](Operation&) { proactor().stop(); });
  read_byte(adopt(stream.ours), read);
  std::atomic<bool> cancelled{false};
  std::atomic<bool> returned{false};
  std::thread runs{[&] {
    while (!cancelled) std::this_thread::yield();
    proactor().run();
    int before = 0;
    ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    returned = true;
  }};
  EXPECT_EQ(::pthread_cancel(runs.native_handle()), 0);
  cancelled = true;
  wait_until_asleep(1);
  send_all(stream.peer.get(), "x", 1);
  runs.join();
  EXPECT_TRUE(returned);
}

TEST_P(Run, run_one_gives_up_at_its_deadline_and_not_before) {
  use(1);
  const Deadline deadline = Deadline::after(3ms, proactor().now());
  EXPECT_FALSE(proactor().run_one(deadline));
  EXPECT_GE(proactor().now(), deadline);
}

TEST_P(Run, run_one_waits_for_io) {
  use(1);
  Stream stream;
  Operation& read = operation();
  read_byte(adopt(stream.ours), read);
  send_all(stream.peer.get(), "x", 1);
  EXPECT_TRUE(proactor().run_one(test::at_last()));
  EXPECT_EQ(read.bytes(), 1U);
}

// Operations that a handler has started are submitted when run_one has returned.
TEST_P(Run, starts_of_a_handler_are_submitted_before_its_thread_leaves) {
  use(1);
  Peer peer = echo();
  send_all(peer.get(), "hello", 5);
  while (echoes()[0].operation.kind() == OperationKind::read_stream) proactor().run_one();
  char back[5];
  ASSERT_TRUE(receive_all(peer.get(), back, sizeof(back)));  // no thread drives the proactor
}

TEST_P(Run, poll_runs_complete_operations_and_does_not_wait) {
  use(1);
  Stream quiet;
  read_byte(adopt(quiet.ours), operation());
  EXPECT_EQ(proactor().poll(), 0U);
  for (int i = 0; i < 10; ++i) post(counting());
  EXPECT_EQ(proactor().poll(), 10U);
  EXPECT_EQ(ran_, 10);
  EXPECT_EQ(proactor().poll(), 0U);
}

// Handlers that queue the next one for ever: a turn takes the handlers queued at its start.
TEST_P(Run, poll_and_handle_events_are_bounded) {
  use(1);
  std::function<void()> again = [&] {
    if (++ran_ < 1'000'000) {
      ASSERT_FALSE(proactor().post([&] { again(); }));
    }
  };
  post(again);
  EXPECT_LT(proactor().poll(), 10'000U);
  EXPECT_LT(proactor().handle_events(), 10'000U);
  EXPECT_LT(proactor().handle_events(Deadline::after(1ms, proactor().now())), 10'000U);
  ran_ = 1'000'000;
  while (proactor().poll() > 0) {
  }
}

TEST_P(Run, handle_events_returns_after_handlers) {
  use(1);
  post(counting());
  post(counting());
  EXPECT_EQ(proactor().handle_events(), 2U);
  timer(Deadline::after(2ms, proactor().now()), counting());
  EXPECT_EQ(proactor().handle_events(), 1U);
}

TEST_P(Run, handle_events_honours_its_deadline_and_never_returns_before) {
  use(1);
  Stream quiet;
  read_byte(adopt(quiet.ours), operation());
  for (int i = 0; i < 3; ++i) {
    const Deadline deadline = Deadline::after(2ms, proactor().now());
    EXPECT_EQ(proactor().handle_events(deadline), 0U);
    EXPECT_GE(proactor().now(), deadline);
  }
}

// The same for a follower, while another thread leads.
TEST_P(Run, handle_events_honours_its_deadline_beside_a_leader) {
  use(2);
  Stream quiet;
  read_byte(adopt(quiet.ours), operation());
  run(1);
  const Deadline deadline = Deadline::after(2ms, proactor().now());
  EXPECT_EQ(proactor().handle_events(deadline), 0U);
  EXPECT_GE(proactor().now(), deadline);
}

TEST_P(Run, handle_events_returns_when_stopped) {
  use(1);
  std::thread waiting{[&] { EXPECT_EQ(proactor().handle_events(), 0U); }};
  wait_until_asleep(1);
  proactor().stop();
  waiting.join();
}

// Rule 7: the baton is handed over before the exception leaves run().
TEST_P(Run, an_exception_leaves_one_run_and_the_others_go_on) {
  use(2);
  Peer session = echo(Home{1});
  run(1);
  // In per_thread mode lane 0 belongs to the first thread.
  wait_until([&] { return !per_thread() || sleepers().waiting == 1; });
  run(1);
  round_trip(session.get());
  post([] { throw std::runtime_error{"from a handler"}; }, Notify::strong, Home{0});
  wait_until([&] { return failures().size() == 1; });  // it has the lane until then
  if (per_thread()) {
    run(1);  // a thread has to serve the lane
  }
  for (int i = 0; i < 20; ++i) round_trip(session.get());
  stop();
  ASSERT_EQ(failures().size(), 1U);
  EXPECT_THROW(std::rethrow_exception(failures()[0]), std::runtime_error);
}

TEST_P(Run, run_works_again_after_an_exception) {
  use(1);
  for (int i = 0; i < 3; ++i) {
    post([i] { throw i; });
    EXPECT_THROW(proactor().run(), int);
    post([this] { proactor().stop(); });
    proactor().run();
    proactor().restart();
  }
}

/// Of two threads that sleep in run(), one is to run the handler of a read, which throws.
Handle* Run::two_threads_and_a_read_that_throws(Stream& stream) {
  use(2);
  Handle* const handle = adopt(stream.ours);
  run(2);
  Operation& read = operation();
  read.prepare(OperationKind::read_stream, handle);
  read.set_buffer(MutableBuffer{&byte_, 1});
  read.set_handler([](Operation&) { throw std::runtime_error{"the last handler"}; });
  EXPECT_FALSE(proactor().start(read));
  wait_until([&] { return sleepers().waiting + sleepers().parked >= 2; });
  return handle;
}

// Its thread leaves run(), and another one sleeps there: the rest of the handler's work is done.
TEST_P(Run, a_close_is_complete_although_the_last_handler_throws) {
  if (GetParam().profile == "pinned") GTEST_SKIP() << "a pinned lane has no thread any more";
  Stream stream;
  Handle* const handle = two_threads_and_a_read_that_throws(stream);
  Operation& close = operation();
  close.prepare(OperationKind::close, handle);
  ASSERT_FALSE(proactor().close(*handle, close));
  wait_until([&] { return !close.is_pending(); });
  stop();
  EXPECT_EQ(failures().size(), 1U);
}

TEST_P(Run, a_drain_ends_although_the_last_handler_throws) {
  if (GetParam().profile == "pinned") GTEST_SKIP() << "a pinned lane has no thread any more";
  Stream stream;
  two_threads_and_a_read_that_throws(stream);
  proactor().drain(Deadline::never());
  send_all(stream.peer.get(), "x", 1);
  wait_until([&] { return proactor().stopped(); });
  stop();
  EXPECT_EQ(failures().size(), 1U);
}

// Both are complete together. The one that comes second could last for long.
TEST_P(Run, a_close_in_a_handler_comes_before_the_next_handler) {
  // A lane closes after a row of handlers, and the thread of a dedicated processor beside them.
  if (mode() != Mode::shared) return;
  use(1);
  Stream streams[2];
  StreamSocket sockets[2];
  char bytes[2] = {};
  const Stream* closed = nullptr;
  for (std::size_t i = 0; i < 2; ++i) {
    auto socket = StreamSocket::adopt(proactor(), streams[i].ours.release());
    ASSERT_TRUE(socket);
    sockets[i] = std::move(socket.value());
    send_all(streams[i].peer.get(), "x", 1);
    ASSERT_FALSE(sockets[i].read(MutableBuffer{&bytes[i], 1}, [&, i](auto&&...) {
      char byte = 0;
      if (closed == nullptr) {
        closed = &streams[i];
        sockets[i] = StreamSocket{};
      } else {
        proactor().stop();
        EXPECT_EQ(::recv(closed->peer.get(), &byte, 1, MSG_DONTWAIT), 0) << "it is not closed";
      }
    }));
  }
  proactor().run();
}

// A close that may block is complete in the look that is due after so many handlers, and has no
// handler itself.
TEST_P(Run, a_drain_ends_with_a_close_after_many_handlers) {
  use(1);
  Stream stream;
  auto socket = StreamSocket::adopt(proactor(), stream.ours.release());
  ASSERT_TRUE(socket);
  proactor().set_close_may_block(*socket.value().handle(), true);
  for (std::size_t i = 1; i < limits::handlers_per_look; ++i) post([] {});
  post([&] {
    proactor().drain(Deadline::never());
    socket.value() = StreamSocket{};
    while (!(others_sleep() && others_sleep())) ::sched_yield();  // the close is done
  });
  proactor().run();
  EXPECT_TRUE(proactor().stopped());
}

TEST_P(Run, a_drain_waits_for_a_handler_that_polls) {
  use(1);
  std::error_code refused;
  bool ran = false;
  post([&] {
    proactor().drain(Deadline::never());
    proactor().poll();
    refused = proactor().post([&] { ran = true; });
  });
  run(1);
  join();
  EXPECT_FALSE(refused) << refused.message();
  EXPECT_TRUE(ran);
}

// The operation is then neither pending nor in this proactor's queue.
TEST_P(Run, a_drain_waits_for_complete_operations_in_a_strand) {
  use(1);
  Proactor other{Config{}};
  Strand strand{other};
  Gate gate;
  Gate entered;
  Operation first;
  first.prepare(OperationKind::user, nullptr);
  first.set_strand(&strand);
  first.set_handler([&](Operation&) {
    entered.open();
    gate.wait();
  });
  std::thread drives_other([&] { other.run(); });
  ASSERT_FALSE(other.post(first));
  entered.wait();
  Stream stream;
  Operation& read = operation();
  read.prepare(OperationKind::read_stream, adopt(stream.ours));
  read.set_buffer(MutableBuffer{&byte_, 1});
  read.set_strand(&strand);
  run(1);
  ASSERT_FALSE(proactor().start(read));
  send_all(stream.peer.get(), "x", 1);
  wait_until([&] { return read.state() == OperationState::result_ready; });
  proactor().drain(Deadline::never());
  gate.open();
  wait_until([&] { return proactor().stopped(); });
  EXPECT_FALSE(read.is_pending());
  stop();
  other.stop();
  drives_other.join();
}

// Threads that call run_one, poll or handle_events and leave: nothing is lost.
TEST_P(Run, threads_may_come_and_go_under_load) {
  constexpr unsigned threads = 3;
  constexpr int messages = 300 / slowness;
  use(threads);
  std::vector<Peer> sessions;
  for (std::uint32_t i = 0; i < threads; ++i) sessions.push_back(echo(Home{i}));
  std::atomic<bool> over{false};
  std::vector<std::thread> visitors;
  for (unsigned t = 0; t < threads; ++t) {
    visitors.emplace_back([&, t] {
      for (unsigned i = t; !over; ++i) {
        const Deadline soon = Deadline::after(200us, proactor().now());
        if (i % 3 == 0) proactor().run_one(soon);
        if (i % 3 == 1) proactor().poll();
        if (i % 3 == 2) proactor().handle_events(soon);
      }
    });
  }
  for (int i = 0; i < messages; ++i) {
    for (Peer& session : sessions) round_trip(session.get());
  }
  over = true;
  for (std::thread& visitor : visitors) visitor.join();
}

BATON_CONFORMANCE_SUITE(Run);

}  // namespace
}  // namespace baton::conformance
