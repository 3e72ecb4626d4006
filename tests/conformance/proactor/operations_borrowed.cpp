// Rule 12: a borrowed descriptor stays its owner's - its mode, its flags, its number.
#include <fcntl.h>

#include <thread>

#include "operations.hpp"

namespace baton::conformance {
namespace {

class Borrowed : public Operations {};
BATON_CONFORMANCE_SOCKET_SUITE(Borrowed);

TEST_P(Borrowed, is_neither_changed_nor_closed) {
  Pair pair = unix_pair();
  const int status = ::fcntl(pair.ours.get(), F_GETFL);
  const int flags = ::fcntl(pair.ours.get(), F_GETFD);
  ASSERT_EQ(status & O_NONBLOCK, 0);
  Handle* const handle = borrow(pair.ours);
  std::string& into = memory(8);
  Probe& read = reading(handle, into);
  start(read);
  run_for(1ms);
  // O_ASYNC is how real-time signals wait, and gone when nobody does.
  EXPECT_EQ(::fcntl(pair.ours.get(), F_GETFL) & ~O_ASYNC, status);
  send_all(pair.peer.get(), "data");
  finish(read);
  Probe& write = writing(handle, memory("reply"), Operation::exactly);
  finish(write);
  Probe& cancelled = reading(handle, into);
  start(cancelled);
  run_for(1ms);
  finish_close(handle);
  EXPECT_EQ(cancelled.error(), std::errc::operation_canceled);
  EXPECT_EQ(::fcntl(pair.ours.get(), F_GETFL), status);
  EXPECT_EQ(::fcntl(pair.ours.get(), F_GETFD), flags);
  send_all(pair.ours.get(), "mine");
  EXPECT_EQ(receive(pair.peer.get(), 9), "replymine");
}

// Its owner closes it while nothing is pending, and opens another with the same number; the old
// connection lives on under another number, with events that are nobody's business here.
TEST_P(Borrowed, may_be_closed_and_reused_between_operations) {
  Pair pair = unix_pair();
  const int number = pair.ours.get();
  Handle* const handle = borrow(pair.ours);
  std::vector<Fd> old;
  std::string& into = memory(8);
  for (int i = 0; i < 5; ++i) {
    Probe& read = reading(handle, into);
    start(read);
    run_for(500us);
    EXPECT_TRUE(read.is_pending());
    const std::string text = "round " + std::to_string(i);
    send_all(pair.peer.get(), text);
    finish(read);
    EXPECT_EQ(into.substr(0, read.bytes()), text);

    old.emplace_back(::dup(number));
    old.emplace_back(std::move(pair.peer));
    Pair next = unix_pair();
    ASSERT_EQ(::dup2(next.ours.get(), number), number);
    pair.peer = std::move(next.peer);
    send_all(old.back().get(), "old");
  }
  const std::uint64_t waits = proactor().statistics().waits;
  run_for(5ms);
  EXPECT_LT(proactor().statistics().waits - waits, 20U) << "an old registration is left";
  finish_close(handle);
}

// Neither a start nor the leader blocks on a descriptor that would.
TEST_P(Borrowed, blocking_sockets_and_pipes_block_nobody) {
  struct Case {
    Pair in, out;
    HandleKind kind;
  };
  Case cases[] = {{unix_pair(), unix_pair(), HandleKind::stream_socket},
                  {tcp_pair(), tcp_pair(), HandleKind::stream_socket},
                  {pipe_to_read(), pipe_to_write(), HandleKind::pipe}};
  std::string& text = memory(pattern(300'000));
  for (Case& one : cases) {
    Probe& read = reading(borrow(one.in.ours, one.kind), memory(8));
    Probe& write = writing(borrow(one.out.ours, one.kind), text, Operation::exactly);
    start(read);
    inside([&] { start(write); });
    for (int i = 0; i < 3; ++i) run_for(500us);  // timers are served all the while
    EXPECT_FALSE(write.done());
    EXPECT_FALSE(read.done());
    send_all(one.in.peer.get(), "data");
    finish(read);
    EXPECT_EQ(read.bytes(), 4U);
    std::string received;
    std::thread peer{[&] { received = receive(one.out.peer.get(), text.size()); }};
    finish(write);
    peer.join();
    EXPECT_EQ(write.bytes(), text.size());
    EXPECT_TRUE(received == text);
  }
}

}  // namespace
}  // namespace baton::conformance
