// Threads that start something and end before it completes, and calls from threads that are not in
// run(). (io_uring cancels requests submitted by an ended thread; the engine starts them again.)
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>

#include <cstring>

#include "threads.hpp"

namespace baton::conformance {
namespace {

class Foreign : public Threads {
 protected:
  /// In a thread of its own, which has ended when this returns.
  static void in_a_thread(const std::function<void()>& body) { std::thread{body}.join(); }
  void start_in_a_thread(Operation& operation) {
    in_a_thread([&] { ASSERT_FALSE(proactor().start(operation)); });
  }
  void expect_success(Operation& operation, std::size_t bytes) {
    wait_until([&] { return !operation.is_pending(); });
    EXPECT_FALSE(operation.failed()) << operation.error().message();
    EXPECT_EQ(operation.bytes(), bytes);
  }
  Operation& prepared(OperationKind kind, Handle* handle, std::size_t size,
                      std::uint16_t flags = 0) {
    Operation& fresh = operation();
    fresh.prepare(kind, handle, flags);
    fresh.set_buffer(MutableBuffer{memory(size), size});
    return fresh;
  }
};

TEST_P(Foreign, the_starter_of_a_read_may_end) {
  use(1);
  run(1);
  Stream stream;
  Operation& read =
      prepared(OperationKind::read_stream, adopt(stream.ours), 10, Operation::exactly);
  start_in_a_thread(read);
  send_all(stream.peer.get(), "12345", 5);
  in_a_thread([&] { send_all(stream.peer.get(), "67890", 5); });
  expect_success(read, 10);
  EXPECT_EQ(std::memcmp(read.buffer().data, "1234567890", 10), 0);
}

TEST_P(Foreign, the_starter_of_a_write_may_end) {
  use(1);
  run(1);
  Stream stream;
  constexpr std::size_t size = 2'097'152;  // more than the socket takes at once
  Operation& write =
      prepared(OperationKind::write_stream, adopt(stream.ours), size, Operation::exactly);
  auto* bytes = static_cast<unsigned char*>(write.buffer().data);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<unsigned char>(i * 131 >> 8);
  start_in_a_thread(write);
  std::vector<unsigned char> back(size);
  ASSERT_TRUE(receive_all(stream.peer.get(), back.data(), size));
  EXPECT_EQ(std::memcmp(back.data(), bytes, size), 0);
  expect_success(write, size);
}

TEST_P(Foreign, the_starter_of_a_wait_for_readiness_may_end) {
  use(1);
  run(1);
  Stream stream;
  Operation& ready =
      prepared(OperationKind::wait_ready, adopt(stream.ours), 0, Operation::readable);
  start_in_a_thread(ready);
  send_all(stream.peer.get(), "x", 1);
  expect_success(ready, 0);
}

TEST_P(Foreign, the_starter_of_an_accept_and_of_a_connect_may_end) {
  use(1);
  run(1);
  Peer door{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  ASSERT_EQ(::bind(door.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(::listen(door.get(), 8), 0);
  ASSERT_EQ(::getsockname(door.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  Operation& accept = operation();
  accept.prepare(OperationKind::accept, adopt(door, HandleKind::listener));
  start_in_a_thread(accept);
  Peer caller{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  Endpoint target = Endpoint::loopback(ntohs(address.sin_port));
  Operation& connect = operation();
  connect.prepare(OperationKind::connect, adopt(caller));
  connect.set_endpoint(&target);
  start_in_a_thread(connect);
  expect_success(connect, 0);
  wait_until([&] { return !accept.is_pending(); });
  ASSERT_FALSE(accept.failed()) << accept.error().message();
  const Peer accepted{accept.accepted()};
}

TEST_P(Foreign, the_starter_of_a_datagram_read_may_end) {
  use(1);
  run(1);
  int fd[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, fd), 0);
  Peer ours{fd[0]};
  const Peer peer{fd[1]};
  Operation& read =
      prepared(OperationKind::read_datagram, adopt(ours, HandleKind::datagram_socket), 16);
  start_in_a_thread(read);
  ASSERT_EQ(::send(peer.get(), "datagram", 8, 0), 8);
  expect_success(read, 8);
}

TEST_P(Foreign, the_starter_of_file_operations_and_timers_may_end) {
  use(1);
  run(1);
  char path[] = "/tmp/baton_threads_XXXXXX";
  Peer fd{::mkostemp(path, O_CLOEXEC)};
  ASSERT_GE(fd.get(), 0);
  ::unlink(path);
  Handle* file = adopt(fd, HandleKind::file);
  Operation& write = prepared(OperationKind::write_file, file, 4'096);
  std::memset(write.buffer().data, 'w', 4'096);
  start_in_a_thread(write);
  expect_success(write, 4'096);
  Operation& sync = operation();
  sync.prepare(OperationKind::sync_file, file);
  start_in_a_thread(sync);
  expect_success(sync, 0);
  Operation& read = prepared(OperationKind::read_file, file, 4'096);
  start_in_a_thread(read);
  expect_success(read, 4'096);
  EXPECT_EQ(std::memcmp(read.buffer().data, write.buffer().data, 4'096), 0);
  Operation& timer = operation();
  in_a_thread(
      [&] { ASSERT_FALSE(proactor().start_timer(timer, Deadline::after(2ms, proactor().now()))); });
  expect_success(timer, 0);
  Operation& close = operation();
  close.prepare(OperationKind::close, file);
  start_in_a_thread(close);
  expect_success(close, 0);
}

// P-14: before run() there is no thread yet; in per_thread mode all this lies in a mailbox.
TEST_P(Foreign, everything_may_be_started_before_run) {
  use(2);
  Peer session = echo();
  std::atomic<int> ran{0};
  post([&] { ran.fetch_add(1); });
  timer(proactor().now(), [&] { ran.fetch_add(1); });
  Stream stream;
  Operation& cancelled = operation();
  Handle* handle = adopt(stream.ours);
  read_byte(handle, cancelled);
  EXPECT_EQ(proactor().cancel(cancelled), CancelResult::requested);
  Operation& closed = operation();
  closed.prepare(OperationKind::close, handle);
  EXPECT_FALSE(proactor().start(closed));
  run(2);
  round_trip(session.get());
  wait_until([&] { return ran == 2 && !cancelled.is_pending() && !closed.is_pending(); });
  EXPECT_EQ(cancelled.error(), std::errc::operation_canceled);
  EXPECT_FALSE(closed.failed());
}

// Four threads outside, two inside: each read is cancelled, or its handle closed under it, or it
// gets its byte; each completes once, and nothing waits for ever.
TEST_P(Foreign, threads_start_cancel_close_and_post_under_load) {
  use(2);
  Peer session = echo();
  run(2);
  std::atomic<int> posted{0};
  std::atomic<int> handled{0};
  struct Shared {
    std::atomic<int>& handled;
  } shared{handled};
  std::vector<std::thread> threads;
  constexpr int rounds = 200 / slowness;
  std::deque<Operation> reads(static_cast<std::size_t>(4 * rounds));
  std::deque<Operation> closes(static_cast<std::size_t>(4 * rounds));
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < rounds; ++i) {
        const auto at = static_cast<std::size_t>(t * rounds + i);
        Stream stream;
        Handle* handle = proactor().adopt(stream.ours.get(), HandleKind::stream_socket).value();
        static_cast<void>(stream.ours.release());
        char byte = 0;
        Operation& read = reads[at];
        read.prepare(OperationKind::read_stream, handle);
        read.set_buffer(MutableBuffer{&byte, 1});
        ASSERT_FALSE(proactor().start(read));
        if (i % 3 == 0) proactor().cancel(read);
        if (i % 3 == 1) send_all(stream.peer.get(), "x", 1);
        ASSERT_FALSE(proactor().post([to = &shared] { to->handled.fetch_add(1); }));
        posted.fetch_add(1);
        Operation& close = closes[at];
        close.prepare(OperationKind::close, handle);
        ASSERT_FALSE(proactor().start(close));
        while (close.is_pending() || read.is_pending()) std::this_thread::yield();
        ASSERT_EQ(read.failed(), read.bytes() == 0);
      }
    });
  }
  for (int i = 0; i < 20; ++i) round_trip(session.get());
  for (std::thread& thread : threads) thread.join();
  wait_until([&] { return handled == posted; });
  round_trip(session.get());
}

BATON_CONFORMANCE_SUITE(Foreign);

}  // namespace
}  // namespace baton::conformance
