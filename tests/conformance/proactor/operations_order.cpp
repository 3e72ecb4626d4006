// Rule 3: the order of one handle's operations, and the independence of its two directions (P-18,
// P-19).
#include <poll.h>

#include <thread>

#include "operations.hpp"

namespace baton::conformance {
namespace {

class Order : public Operations {
 protected:
  static constexpr int count = 100;

  /// Numbered blocks of different sizes.
  static std::string block(int number) {
    return "<" + std::to_string(number) + std::string(static_cast<std::size_t>(number % 7), '.') +
           ">";
  }
  static bool all_done(const std::vector<Probe*>& probes) {
    for (const Probe* probe : probes) {
      if (!probe->done()) return false;
    }
    return true;
  }
  std::vector<Probe*> blocks_to(Handle* handle, std::string& expected, std::vector<int>& finished) {
    std::vector<Probe*> writes;
    for (int i = 0; i < count; ++i) {
      std::string& text = memory(block(i));
      expected += text;
      writes.push_back(&writing(handle, text, Operation::exactly));
      writes.back()->then = [&finished, i] { finished.push_back(i); };
    }
    return writes;
  }
  static void expect_ascending(const std::vector<int>& finished) {
    for (std::size_t i = 0; i < finished.size(); ++i) EXPECT_EQ(finished[i], static_cast<int>(i));
  }
  /// Leaves no room for the proactor's end; how many bytes that took.
  static std::size_t fill(int fd) {
    const std::string filler(4'096, 'f');
    std::size_t filled = 0;
    for (ssize_t sent; (sent = ::send(fd, filler.data(), filler.size(), MSG_DONTWAIT)) > 0;) {
      filled += static_cast<std::size_t>(sent);
    }
    return filled;
  }
};
BATON_CONFORMANCE_SOCKET_SUITE(Order);

TEST_P(Order, queued_writes_leave_in_the_order_of_their_start) {
  Pair pair = unix_pair();
  Handle* const handle = adopt(pair.ours);
  const std::size_t filled = fill(handle->native());
  std::string expected;
  std::vector<int> finished;
  const std::vector<Probe*> writes = blocks_to(handle, expected, finished);
  for (std::size_t i = 0; i < writes.size(); ++i) {
    if (i < writes.size() / 2) {
      start(*writes[i]);
    } else {
      inside([&] { start(*writes[i]); });
    }
  }
  EXPECT_EQ(receive(pair.peer.get(), filled).size(), filled);
  run([&] { return all_done(writes); });
  EXPECT_EQ(receive(pair.peer.get(), expected.size()), expected);
  expect_ascending(finished);
}

TEST_P(Order, queued_reads_take_the_data_in_the_order_of_their_start) {
  Pair pair = unix_pair();
  Handle* const handle = adopt(pair.ours);
  std::string sent;
  std::vector<Probe*> reads;
  std::vector<int> finished;
  for (int i = 0; i < count; ++i) {
    const std::string text = block(i);
    sent += text;
    reads.push_back(&reading(handle, memory(text.size()), Operation::exactly));
    reads.back()->then = [&finished, i] { finished.push_back(i); };
    // Operations whose completion needs more work do not change places with simpler ones.
    if (i % 3 == 1) reads.back()->set_deadline(Deadline::after(1h, proactor().now()));
    start(*reads.back());
  }
  send_all(pair.peer.get(), sent.substr(0, 100));
  run_for(1ms);
  send_all(pair.peer.get(), sent.substr(100));
  run([&] { return all_done(reads); });
  std::string received;
  for (const Probe* read : reads) {
    received += std::string_view(static_cast<char*>(read->buffer().data), read->bytes());
  }
  EXPECT_EQ(received, sent);
  expect_ascending(finished);
}

// With room for one, two or three operations in the engine the rest is deferred, and still in order
// (P-17).
TEST_P(Order, deferred_operations_keep_the_order) {
  for (const std::uint32_t room : {1U, 2U, 3U}) {
    use([room](Config& config) { sockets(config).started_max = room; });
    Pair pair = unix_pair();
    Handle* const handle = adopt(pair.ours);
    const std::size_t filled = fill(handle->native());
    std::string expected;
    std::vector<int> finished;
    const std::vector<Probe*> writes = blocks_to(handle, expected, finished);
    for (Probe* write : writes) start(*write);
    Probe& half_close = plain(OperationKind::shutdown, handle);
    start(half_close);
    run_for(1ms);
    EXPECT_GE(proactor().statistics().deferred, writes.size() - room);
    EXPECT_EQ(receive(pair.peer.get(), filled).size(), filled);
    run([&] { return all_done(writes) && half_close.done(); });
    EXPECT_EQ(receive_rest(pair.peer.get()), expected);
    expect_ascending(finished);
  }
}

TEST_P(Order, half_close_waits_for_the_writes_before_it) {
  Pair pair = tcp_pair();
  Handle* const handle = adopt(pair.ours);
  std::string& text = memory(pattern(100'000));
  Probe& write = writing(handle, text, Operation::exactly);
  Probe& half_close = plain(OperationKind::shutdown, handle);
  std::string& into = memory(16);
  Probe& read = reading(handle, into);
  start(read);
  start(write);
  start(half_close);
  half_close.then = [&] { EXPECT_TRUE(write.done()); };
  std::string received;
  std::thread peer{[&] {
    received = receive_rest(pair.peer.get());
    send_all(pair.peer.get(), "still open");  // the other direction is
  }};
  run([&] { return write.done() && half_close.done() && read.done(); });
  peer.join();
  EXPECT_FALSE(half_close.failed());
  EXPECT_TRUE(received == text);
  EXPECT_EQ(into.substr(0, read.bytes()), "still open");
  Probe& late = writing(handle, text);
  finish(late);
  EXPECT_EQ(late.error(), std::errc::broken_pipe);
}

// Full duplex: a direction that is stuck does not hold up the other.
TEST_P(Order, reads_and_writes_of_one_handle_are_independent) {
  Pair pair = unix_pair();
  Handle* const handle = adopt(pair.ours);
  const std::size_t filled = fill(handle->native());
  Probe& write = writing(handle, memory("late"), Operation::exactly);
  start(write);
  std::string& into = memory(4);
  for (int i = 0; i < 20; ++i) {
    Probe& read = reading(handle, into, Operation::exactly);
    start(read);
    send_all(pair.peer.get(), "data");
    finish(read);
    EXPECT_EQ(into, "data");
  }
  EXPECT_FALSE(write.done());
  EXPECT_EQ(receive(pair.peer.get(), filled).size(), filled);
  Probe& waiting = reading(handle, into);
  start(waiting);
  finish(write);
  EXPECT_EQ(receive(pair.peer.get(), 4), "late");
  EXPECT_FALSE(waiting.done());
}

// There is room for a few bytes long before the system reports any.
TEST_P(Order, a_wait_for_readiness_holds_up_nothing) {
  for (const int interest : {int{Operation::writable}, Operation::readable | Operation::writable}) {
    Pair pair = unix_pair();
    const int raw = pair.ours.get();
    const std::string block(512, 'x');
    std::size_t filled = 0;
    for (pollfd room{raw, POLLOUT, 0}; ::poll(&room, 1, 0) > 0; filled += block.size()) {
      ASSERT_EQ(::send(raw, block.data(), block.size(), MSG_DONTWAIT), 512);
    }
    Handle* const handle = adopt(pair.ours);
    Probe& wait = plain(OperationKind::wait_ready, handle, static_cast<std::uint16_t>(interest));
    start(wait);
    Probe& write = writing(handle, memory("data"), Operation::exactly);
    finish(write);
    EXPECT_FALSE(write.failed()) << write.error().message();
    std::string nothing;
    Probe& empty = writing(handle, nothing, Operation::exactly);
    finish(empty);
    EXPECT_FALSE(empty.failed()) << empty.error().message();
    Probe& end = plain(OperationKind::shutdown, handle);
    finish(end);
    EXPECT_FALSE(end.failed()) << end.error().message();
    EXPECT_TRUE(wait.is_pending());
    EXPECT_EQ(receive_rest(pair.peer.get()).size(), filled + 4);
    finish(wait);
    EXPECT_FALSE(wait.failed()) << wait.error().message();
  }
}

TEST_P(Order, a_wait_for_readiness_holds_up_no_read_that_needs_no_bytes) {
  Pair pair = unix_pair();
  Handle* const handle = adopt(pair.ours);
  Probe& wait = plain(OperationKind::wait_ready, handle, Operation::readable);
  start(wait);
  std::string nothing;
  Probe& empty = reading(handle, nothing);
  finish(empty);
  EXPECT_FALSE(empty.failed()) << empty.error().message();
  const std::string_view delimiter = "\n";
  Probe& line = reading(handle, memory("a line\nand more"));
  line.set_until(&delimiter, 9);
  finish(line);
  EXPECT_FALSE(line.failed()) << line.error().message();
  EXPECT_EQ(line.bytes(), 9U);
  EXPECT_TRUE(wait.is_pending());
}

// Only a part of it goes at once; the rest goes when there is room.
TEST_P(Order, a_write_behind_a_wait_for_readiness_goes_on) {
  Pair pair = unix_pair();
  const int raw = pair.ours.get();
  Handle* const handle = adopt(pair.ours);
  const std::size_t filled = fill(raw);
  Probe& wait = plain(OperationKind::wait_ready, handle, Operation::writable);
  start(wait);
  std::string& text = memory(pattern(1 << 20));
  Probe& write = writing(handle, text, Operation::exactly);
  Probe& behind = writing(handle, memory("behind"), Operation::exactly);
  start(write);
  start(behind);
  std::string received;
  run([&] {
    char part[65'536];
    for (ssize_t size; (size = ::recv(pair.peer.get(), part, sizeof(part), MSG_DONTWAIT)) > 0;) {
      received.append(part, static_cast<std::size_t>(size));
    }
    return received.size() == filled + text.size() + 6 && write.done() && behind.done();
  });
  EXPECT_EQ(received.substr(filled), text + "behind");
  finish(wait);
  EXPECT_FALSE(wait.failed()) << wait.error().message();
}

}  // namespace
}  // namespace baton::conformance
