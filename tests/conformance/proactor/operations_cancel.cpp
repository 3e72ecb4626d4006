// Rule 5: cancel, in every state of an operation (P-22). Only the completion tells which one won.
#include <thread>

#include "operations.hpp"

namespace baton::conformance {
namespace {

class Cancel : public Operations {
 protected:
  static bool cancelled(const Probe& probe) {
    return probe.error() == std::errc::operation_canceled;
  }
  Handle* idle_connection() {
    Pair& pair = pairs_.emplace_back(unix_pair());
    return adopt(pair.ours);
  }
  int peer_of_last() { return pairs_.back().peer.get(); }

 private:
  std::deque<Pair> pairs_;
};
BATON_CONFORMANCE_SUITE(Cancel);

TEST_P(Cancel, a_deferred_operation) {
  use([](Config& config) { sockets(config).started_max = 1; });
  Probe& first = reading(idle_connection(), memory(8));
  Probe& second = reading(idle_connection(), memory(8));
  start(first);
  start(second);
  run_for(1ms);
  EXPECT_EQ(first.state(), OperationState::started);
  EXPECT_EQ(second.state(), OperationState::deferred);
  EXPECT_EQ(proactor().cancel(second), CancelResult::requested);
  finish(second);
  EXPECT_TRUE(cancelled(second));
  EXPECT_TRUE(first.is_pending());
}

TEST_P(Cancel, a_pending_operation_and_no_other_activation_of_it) {
  Handle* const handle = idle_connection();
  Probe& read = reading(handle, memory(8));
  start(read);
  const std::uint32_t first = read.activation();
  run_for(1ms);
  EXPECT_EQ(proactor().cancel(read, first - 1), CancelResult::nothing_pending);
  EXPECT_EQ(proactor().cancel(read, first), CancelResult::requested);
  finish(read);
  EXPECT_TRUE(cancelled(read));
  EXPECT_EQ(read.bytes(), 0U);
  EXPECT_EQ(proactor().cancel(read), CancelResult::nothing_pending) << "after delivery";

  read.prepare(OperationKind::read_stream, handle);
  std::string& into = memory(8);
  read.set_buffer(MutableBuffer{into});
  start(read);
  EXPECT_EQ(proactor().cancel(read, first), CancelResult::nothing_pending) << "stale";
  inside(
      [&] { EXPECT_EQ(proactor().cancel(read, first), CancelResult::nothing_pending) << "stale"; });
  run_for(1ms);
  EXPECT_TRUE(read.is_pending());
  send_all(peer_of_last(), "data");
  finish(read);
  EXPECT_FALSE(read.failed());
}

// Too late: the result stands.
TEST_P(Cancel, a_completed_operation_that_is_not_delivered) {
  if (with_troubles()) GTEST_SKIP() << "two results in one look, which a delay forbids";
  Probe* reads[2];
  bool looked = false;
  for (int i : {0, 1}) {
    reads[i] = &reading(idle_connection(), memory(8));
    send_all(peer_of_last(), "data");
    reads[i]->then = [&, i] {
      if (std::exchange(looked, true)) return;
      // In dedicated mode another thread brings it.
      wait_until([&] { return reads[1 - i]->state() == OperationState::result_ready; });
      EXPECT_EQ(proactor().cancel(*reads[1 - i]), CancelResult::nothing_pending);
      EXPECT_EQ(proactor().cancel(*reads[i]), CancelResult::nothing_pending);
    };
  }
  for (Probe* read : reads) start(*read);
  run([&] { return reads[0]->done() && reads[1]->done(); });
  for (const Probe* read : reads) {
    EXPECT_FALSE(read->failed());
    EXPECT_EQ(read->bytes(), 4U);
  }
}

TEST_P(Cancel, posted_work_is_not_cancelled) {
  Probe& posted = operation();
  inside([&] {
    ++posted.starts;
    ASSERT_FALSE(proactor().post(posted));
    EXPECT_EQ(posted.state(), OperationState::posted);
    EXPECT_EQ(proactor().cancel(posted), CancelResult::nothing_pending);
    proactor().cancel_all();
  });
  run([&] { return posted.done(); });
  EXPECT_FALSE(posted.failed());
}

TEST_P(Cancel, by_handle_and_all) {
  Handle* const one = idle_connection();
  Handle* const two = idle_connection();
  Probe* const of_one[] = {&reading(one, memory(8)), &reading(one, memory(8)),
                           &plain(OperationKind::wait_ready, one, Operation::readable)};
  Probe& of_two = reading(two, memory(8));
  Probe& timer = operation();
  for (Probe* probe : of_one) start(*probe);
  start(of_two);
  start_timer(timer, Deadline::after(1h));
  run_for(1ms);
  EXPECT_EQ(proactor().cancel(*one), CancelResult::requested);
  for (Probe* probe : of_one) {
    finish(*probe);
    EXPECT_TRUE(cancelled(*probe));
  }
  inside([&] { EXPECT_EQ(proactor().cancel(*one), CancelResult::nothing_pending); });
  EXPECT_TRUE(of_two.is_pending());
  proactor().cancel_all();
  run([&] { return of_two.done() && timer.done(); });
  EXPECT_TRUE(cancelled(of_two));
  EXPECT_TRUE(cancelled(timer));
  EXPECT_EQ(proactor().statistics().pending, 0U);
}

// The cancellation reports the transferred bytes exactly.
TEST_P(Cancel, reports_the_bytes_that_were_moved) {
  Handle* const handle = idle_connection();
  std::string& text = memory(pattern(2 << 20));
  Probe& write = writing(handle, text, Operation::exactly);
  start(write);
  run_for(1ms);
  EXPECT_EQ(receive(peer_of_last(), 10'000).size(), 10'000U);
  run_for(1ms);
  proactor().cancel(write);
  finish(write);
  ASSERT_TRUE(cancelled(write));
  finish_close(handle);
  EXPECT_EQ(10'000 + receive_rest(peer_of_last()).size(), write.bytes());
  EXPECT_LT(write.bytes(), text.size());

  std::string& into = memory(100);
  Probe& read = reading(idle_connection(), into, Operation::exactly);
  send_all(peer_of_last(), "first part");
  start(read);
  run_until_taken(read.handle()->native());
  proactor().cancel(read);
  finish(read);
  EXPECT_TRUE(cancelled(read));
  EXPECT_EQ(into.substr(0, read.bytes()), "first part");
}

// 10^4 pairs of start and cancel, each by the handler of the one before.
TEST_P(Cancel, a_storm_of_starts_and_cancels_in_handlers) {
  constexpr int rounds = 10'000;
  Handle* const handle = idle_connection();
  std::string& into = memory(8);
  Probe& read = reading(handle, into);
  int answered = 0;
  read.then = [&] {
    answered += cancelled(read) ? 1 : 0;
    if (read.completions == rounds) return;
    read.prepare(OperationKind::read_stream, handle);
    read.set_buffer(MutableBuffer{into});
    start(read);
    EXPECT_EQ(proactor().cancel(read, read.activation()), CancelResult::requested);
  };
  start(read);
  proactor().cancel(read);
  // In parts, each with its own time limit: a slow machine may need longer for all of them
  // together.
  constexpr int part = rounds / 20;
  for (int until = part; until <= rounds; until += part) {
    run([&] { return read.completions >= until; });
  }
  EXPECT_EQ(answered, rounds);
  EXPECT_EQ(read.activation(), static_cast<std::uint32_t>(rounds));
}

// Another thread cancels three of four reads at any moment while data arrives. A cancelled read
// reports the bytes that it took, and none is lost. The fourth read is left alone: reads that are
// always cancelled at once might never see data.
TEST_P(Cancel, loses_no_byte_against_data) {
  const std::string sent = pattern(20'000);
  Handle* const handle = idle_connection();
  std::string& into = memory(32);
  std::string received;
  std::atomic<bool> finished{false};
  Probe& read = reading(handle, into);
  read.then = [&] {
    received.append(into, 0, read.bytes());
    ASSERT_TRUE(!read.failed() || cancelled(read)) << read.error().message();
    if (received.size() >= sent.size()) {
      finished = true;
      return;
    }
    const bool exactly = read.activation() % 4 == 1;  // the next one's number is one higher
    read.prepare(OperationKind::read_stream, handle, exactly ? Operation::exactly : 0);
    read.set_buffer(MutableBuffer{into});
    start(read);
    if (read.activation() % 64 == 1) proactor().cancel(read);
  };
  start(read);
  std::thread sender{[&] {
    for (std::size_t at = 0; at < sent.size(); at += 25) {
      send_all(peer_of_last(), std::string_view{sent}.substr(at, 25));
    }
  }};
  std::thread canceller{[&] {
    while (!finished) {
      const std::uint32_t activation = read.activation();
      if (activation % 4 != 0) proactor().cancel(read, activation);
      std::this_thread::yield();
    }
  }};
  run([&] { return finished.load(); });
  sender.join();
  canceller.join();
  EXPECT_EQ(received.size(), sent.size());
  EXPECT_TRUE(received == sent);
}

TEST_P(Cancel, cancel_wait_reports_the_outcome) {
  Handle* const handle = idle_connection();
  Probe& read = reading(handle, memory(8));
  start(read);
  const std::uint32_t activation = read.activation();
  // No thread drives the proactor: an engine that has to be waited for keeps it, and the deadline
  // ends the wait.
  const CancelWait answer = proactor().cancel_wait(read, activation, Deadline::after(1ms));
  EXPECT_NE(answer, CancelWait::done);
  EXPECT_EQ(answer == CancelWait::cancelled, read.state() == OperationState::result_ready);

  Runners runner{proactor(), 1};
  wait_until([&] { return read.done(); });
  EXPECT_TRUE(cancelled(read));
  EXPECT_EQ(proactor().cancel_wait(read, activation, Deadline::never()), CancelWait::done);
  for (int i = 0; i < 20; ++i) {
    Probe& pending = reading(handle, memory(8));
    start(pending);
    EXPECT_EQ(proactor().cancel_wait(pending, pending.activation(), Deadline::never()),
              CancelWait::cancelled);
    EXPECT_TRUE(cancelled(pending));
    wait_until([&] { return pending.done(); });
  }
}

}  // namespace
}  // namespace baton::conformance
