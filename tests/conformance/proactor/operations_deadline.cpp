// Deadlines of operations, and timers (P-23): never early, in order, and distinct from a
// cancellation.
#include <random>
#include <thread>

#include "operations.hpp"

namespace baton::conformance {
namespace {

class Timing : public Operations {
 protected:
  Deadline in(Duration span) { return Deadline::after(span, proactor().now()); }
};
BATON_CONFORMANCE_SOCKET_SUITE(Timing);

TEST_P(Timing, an_operation_times_out_with_the_bytes_it_moved) {
  Pair pair = unix_pair();
  Pair other = unix_pair();
  Handle* const handle = adopt(pair.ours);
  std::string& into = memory(64);
  Probe& read = reading(handle, into, Operation::exactly);
  send_all(pair.peer.get(), "part");
  std::string& text = memory(pattern(2 << 20));
  Handle* const sender = adopt(other.ours);
  Probe& write = writing(sender, text, Operation::exactly);
  const Deadline deadline = in(5ms);
  for (Probe* probe : {&read, &write}) {
    probe->set_deadline(deadline);
    probe->then = [&] { EXPECT_GE(proactor().now(), deadline) << "early"; };
    start(*probe);
  }
  run([&] { return read.done() && write.done(); });
  EXPECT_EQ(read.error(), errc::timed_out);
  // The data was read and reported, or is still in the socket.
  const std::string rest = receive(handle->native(), 4 - read.bytes());
  EXPECT_EQ(into.substr(0, read.bytes()) + rest, "part");
  EXPECT_EQ(write.error(), errc::timed_out);
  finish_close(sender);
  EXPECT_EQ(receive_rest(other.peer.get()).size(), write.bytes());
  EXPECT_EQ(proactor().statistics().timed_out, 2U);
  EXPECT_EQ(proactor().statistics().cancelled, 0U);
}

TEST_P(Timing, a_post_leaves_the_deadline_for_the_next_start) {
  Pair pair = unix_pair();
  Handle* const handle = adopt(pair.ours);
  std::string& into = memory(1);
  Probe& both = operation();
  both.set_deadline(Deadline::immediately());
  ++both.starts;
  ASSERT_FALSE(proactor().post(both));
  finish(both);
  EXPECT_FALSE(both.error());
  const auto read = [&] {
    both.prepare(OperationKind::read_stream, handle);
    both.set_buffer(MutableBuffer{into});
    start(both);
    finish(both);
    return both.error();
  };
  EXPECT_EQ(read(), errc::timed_out);
  send_all(pair.peer.get(), "x");
  EXPECT_EQ(read(), std::error_code{}) << "that was the last start with a deadline";
}

TEST_P(Timing, every_kind_that_waits_can_time_out) {
  Pair pair = unix_pair();
  Endpoint endpoint = Endpoint::loopback(0);
  Fd listening = listener(endpoint);
  Fd datagram = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  Handle* const stream = adopt(pair.ours);
  Probe& ready = plain(OperationKind::wait_ready, stream, Operation::readable);
  Probe& accept = plain(OperationKind::accept, adopt(listening, HandleKind::listener));
  Probe& receive =
      plain(OperationKind::read_datagram, adopt(datagram, HandleKind::datagram_socket));
  receive.set_buffer(MutableBuffer{memory(8)});
  Probe& read = reading(stream, memory(8));
  Probe& behind = reading(stream, memory(8));  // queued behind the first
  Probe* const all[] = {&ready, &accept, &receive, &read, &behind};
  Duration span = 1ms;
  for (Probe* probe : all) probe->set_deadline(in(span += 1ms)), start(*probe);
  for (Probe* probe : all) {
    finish(*probe);
    EXPECT_EQ(probe->error(), errc::timed_out) << probe->error().message();
  }
}

TEST_P(Timing, a_deadline_that_is_not_reached_touches_nothing) {
  Pair pair = unix_pair();
  Handle* const handle = adopt(pair.ours);
  std::string& into = memory(8);
  Probe& read = reading(handle, into);
  Deadline deadline;
  int missed = 0;  // a busy machine may need a longer one
  for (Duration span = 10ms; span < 1min; span *= 10) {
    deadline = in(span);
    read.prepare(OperationKind::read_stream, handle);
    read.set_buffer(MutableBuffer{into});
    read.set_deadline(deadline);
    send_all(pair.peer.get(), "data");
    start(read);
    run([&] { return read.done(); });
    if (!read.failed()) break;
    ASSERT_GE(proactor().now(), deadline);
    ASSERT_EQ(receive(handle->native(), 4), "data");
    ++missed;
  }
  EXPECT_FALSE(read.failed());
  EXPECT_EQ(read.bytes(), 4U);
  // The deadline was for that activation only.
  read.prepare(OperationKind::read_stream, handle);
  read.set_buffer(MutableBuffer{into});
  start(read);
  run([&] { return proactor().now() > Deadline::after(2ms, deadline); });
  EXPECT_TRUE(read.is_pending());
  EXPECT_EQ(proactor().statistics().timed_out, static_cast<unsigned>(missed));
  send_all(pair.peer.get(), "more");
  finish(read);
  EXPECT_FALSE(read.failed());
}

TEST_P(Timing, a_deadline_in_the_past_ends_an_operation_that_would_wait) {
  Pair pair = unix_pair();
  Handle* const handle = adopt(pair.ours);
  for (const bool in_handler : {false, true}) {
    Probe& read = reading(handle, memory(8));
    read.set_deadline(Deadline::immediately());
    if (in_handler) {
      inside([&] { start(read); });
    }
    finish(read);
    EXPECT_EQ(read.error(), errc::timed_out);
    Probe& timer = operation();
    start_timer(timer, Deadline::immediately());
    run([&] { return timer.done(); });
    EXPECT_FALSE(timer.failed());
  }
}

// 10^4 timers, started in random order.
TEST_P(Timing, timers_fire_in_order_and_never_early) {
  constexpr int count = 10'000;
  std::mt19937 random{2'002};
  std::uniform_int_distribution<int> microseconds{0, 20'000};
  const Deadline base = in(1ms);
  Deadline last = Deadline::immediately();
  int fired = 0;
  for (int i = 0; i < count; ++i) {
    Probe& timer = operation();
    const Deadline when = Deadline::after(std::chrono::microseconds{microseconds(random)}, base);
    timer.then = [&, when] {
      ++fired;
      EXPECT_GE(when, last);
      EXPECT_GE(proactor().now(), when);
      EXPECT_FALSE(timer.failed());
      last = when;
    };
    start_timer(timer, when);
  }
  run([&] { return fired == count; });
  EXPECT_EQ(proactor().statistics().pending, 0U);
}

TEST_P(Timing, timers_are_cancelled_and_set_again) {
  Probe& timer = operation();
  start_timer(timer, in(1h));
  run_for(1ms);
  EXPECT_EQ(proactor().cancel(timer), CancelResult::requested);
  run([&] { return timer.done(); });
  EXPECT_EQ(timer.error(), std::errc::operation_canceled);
  EXPECT_EQ(proactor().cancel(timer), CancelResult::nothing_pending);
  // Cancelled in the handler of another, and set again by its own.
  Probe& other = operation();
  timer.then = [&] {
    if (timer.completions <= 100) start_timer(timer, in(timer.completions % 2 == 0 ? 1us : 1h));
    if (timer.completions % 2 == 1) proactor().cancel(timer);
  };
  other.then = [&] { proactor().cancel(timer); };
  start_timer(timer, in(1h));
  start_timer(other, in(1ms));
  run([&] { return timer.completions > 100 && timer.done(); });
}

// A pending timer, and the deadline of a read, get other times: no completion comes in between, and
// none early.
TEST_P(Timing, a_deadline_is_moved) {
  Pair pair = unix_pair();
  Handle* const handle = adopt(pair.ours);
  Probe& timer = operation();
  Probe& read = reading(handle, memory(8));
  read.set_deadline(in(1h));
  start(read);
  start_timer(timer, in(1h));
  const std::uint32_t activation = timer.activation();
  Deadline when;
  inside([&] {
    when = in(2ms);
    EXPECT_TRUE(proactor().move_deadline(timer, in(2h)));
    EXPECT_TRUE(proactor().move_deadline(timer, in(1us)));
    EXPECT_TRUE(proactor().move_deadline(timer, when));
    EXPECT_TRUE(proactor().move_deadline(read, when));
  });
  run([&] { return timer.done() && read.done(); });
  EXPECT_FALSE(timer.failed());
  EXPECT_EQ(read.error(), errc::timed_out);
  EXPECT_EQ(timer.completions, 1);
  EXPECT_EQ(timer.activation(), activation);
  EXPECT_GE(proactor().now(), when);
  // No deadline is left to move, and a read without a deadline gets none.
  inside([&] {
    EXPECT_FALSE(proactor().move_deadline(timer, in(1h)));
    EXPECT_FALSE(proactor().move_deadline(read, in(1h)));
  });
  Probe& other = reading(handle, memory(8));
  start(other);
  inside([&] { EXPECT_FALSE(proactor().move_deadline(other, in(1us))); });
  send_all(pair.peer.get(), "later");
  finish(other);
  EXPECT_FALSE(other.failed());
}

// A thread that waits for a far timer is woken for a nearer one that another thread sets.
TEST_P(Timing, a_nearer_timer_wakes_the_thread_that_waits) {
  Probe& far = operation();
  start_timer(far, in(1h));
  const Runners runner{proactor(), 1};
  for (int i = 0; i < 20; ++i) {
    Probe& near = operation();
    start_timer(near, in(200us));
    wait_until([&] { return near.done(); });
  }
  EXPECT_TRUE(far.is_pending());
  // The deadline of an operation wakes the thread as well.
  Pair pair = unix_pair();
  Probe& read = reading(adopt(pair.ours), memory(8));
  read.set_deadline(in(1ms));
  start(read);
  wait_until([&] { return read.done(); });
  EXPECT_EQ(read.error(), errc::timed_out);
}

}  // namespace
}  // namespace baton::conformance
