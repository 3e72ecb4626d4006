// Rule 12: a borrowed descriptor stays its owner's - its mode, its flags, its number.
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <sys/un.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <future>
#include <iterator>
#include <string>
#include <thread>

#include "operations.hpp"
#include "support/patience.hpp"

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
  // Real-time signals set O_ASYNC during a wait only.
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
// connection lives on under another number, with events that do not concern the new one.
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

// In mode per_thread the test's thread starts and cancels by mail, which the lane takes later.
TEST_P(Borrowed, is_left_alone_by_what_is_cancelled_before_its_lane_begins_it) {
  if (with_troubles()) GTEST_SKIP() << "the chaos engine cancels late";
  for (const bool writes : {false, true}) {
    Pair pair = unix_pair();
    Handle* const handle = borrow(pair.ours);
    Probe& probe = writes ? writing(handle, memory("old")) : reading(handle, memory(8));
    std::atomic<Handle*> told{nullptr};
    probe.then = [&] { told = probe.handle(); };
    start(probe);
    if (proactor().cancel(probe) != CancelResult::requested) {  // it has ended already
      run([&] { return probe.done(); });
      continue;
    }
    Pair next = unix_pair();
    send_all(next.peer.get(), "new");
    ASSERT_EQ(::dup2(next.ours.get(), pair.ours.get()), pair.ours.get());
    run([&] { return probe.done(); });
    char found[4];
    EXPECT_EQ(::recv(pair.ours.get(), found, sizeof(found), MSG_DONTWAIT), 3);
    EXPECT_EQ(::recv(next.peer.get(), found, sizeof(found), MSG_DONTWAIT), -1);
    EXPECT_EQ(told, handle);
    finish_close(handle);
  }
}

// A cancel of the handle, too, leaves it to the handlers.
TEST_P(Borrowed, is_known_to_the_handler_of_what_a_cancel_of_the_handle_ends) {
  Pair pair = unix_pair();
  Handle* const handle = borrow(pair.ours);
  Probe& probe = reading(handle, memory(8));
  std::atomic<Handle*> told{nullptr};
  probe.then = [&] { told = probe.handle(); };
  start(probe);
  EXPECT_EQ(proactor().cancel(*handle), CancelResult::requested);
  run([&] { return probe.done(); });
  EXPECT_EQ(probe.error(), std::errc::operation_canceled);
  EXPECT_EQ(told, handle);
  finish_close(handle);
}

// If reports come one at a time, a report of the other direction must not consume it.
TEST_P(Borrowed, one_direction_goes_on_while_the_other_waits) {
  Pair pair = unix_pair();
  Handle* const handle = borrow(pair.ours);
  std::string& text = memory(pattern(1'000'000));
  Probe& write = writing(handle, text, Operation::exactly);
  start(write);
  std::string& into = memory(8);
  for (int i = 0; i < 3; ++i) {
    Probe& read = reading(handle, into);
    start(read);
    run_for(500us);
    EXPECT_TRUE(read.is_pending());
    send_all(pair.peer.get(), "data");
    finish(read);
    EXPECT_EQ(read.bytes(), 4U);
  }
  EXPECT_FALSE(write.done());
  Probe& last = reading(handle, into);
  start(last);
  std::string received;
  std::thread peer{[&] { received = receive(pair.peer.get(), text.size()); }};
  finish(write);
  peer.join();
  EXPECT_TRUE(received == text);
  EXPECT_TRUE(last.is_pending());
  send_all(pair.peer.get(), "end");
  finish(last);
  EXPECT_EQ(into.substr(0, last.bytes()), "end");
}

// After a completion and after a cancel: events of the connection between operations wake no
// thread, and the next operation finds them.
TEST_P(Borrowed, a_hang_up_between_operations_wakes_no_thread) {
  for (const bool cancelled : {false, true}) {
    Pair pair = unix_pair();
    Handle* const handle = borrow(pair.ours);
    std::string& into = memory(8);
    Probe& read = reading(handle, into);
    start(read);
    run_for(500us);
    if (cancelled) {
      inside([&] { proactor().cancel(read); });
    } else {
      send_all(pair.peer.get(), "data");
    }
    run([&] { return read.done(); });
    pair.peer.reset();
    const std::uint64_t waits = proactor().statistics().waits;
    run_for(5ms);
    EXPECT_LT(proactor().statistics().waits - waits, 20U);
    Probe& end = reading(handle, into);
    finish(end);
    EXPECT_EQ(end.bytes(), 0U);
    finish_close(handle);
  }
}

// A start does not block on a blocking descriptor, and neither does the leader.
TEST_P(Borrowed, blocking_sockets_and_pipes_block_no_other_operation) {
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

// The descriptor stays the caller's and is unchanged.
TEST_P(Borrowed, a_descriptor_that_is_refused_is_as_it_was) {
  use([](Config& config) { config.handles_max = 1; });
  Pair first = unix_pair();
  adopt(first.ours);
  Pair second = unix_pair();
  const int status = ::fcntl(second.ours.get(), F_GETFL);
  ::fcntl(second.ours.get(), F_SETFD, 0);
  EXPECT_EQ(proactor().adopt(second.ours.get(), HandleKind::stream_socket).error(),
            errc::no_free_handles);
  EXPECT_EQ(::fcntl(second.ours.get(), F_GETFL), status);
  EXPECT_EQ(::fcntl(second.ours.get(), F_GETFD), 0);
}

// The backlog of the listener is full, so that a blocking connect would wait for ever.
struct FullListener {
  Endpoint address = *Endpoint::unix_path("@baton_full_" + std::to_string(::getpid()));
  Fd listener = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  Fd waiting = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

  FullListener() {
    const auto* const name = static_cast<const sockaddr*>(address.data());
    EXPECT_EQ(::bind(listener.get(), name, address.size()), 0);
    EXPECT_EQ(::listen(listener.get(), 0), 0);
    EXPECT_EQ(::connect(waiting.get(), name, address.size()), 0);
  }
};

// A kernel that gets the connect and its cancel together may not find the connect.
TEST_P(Borrowed, a_blocking_connect_ends_by_a_cancel_that_comes_at_once) {
  FullListener full;
  Fd sockets[4];
  for (int i = 0; i < 4; ++i) {
    sockets[i].reset(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    Probe& connect = plain(OperationKind::connect, borrow(sockets[i]));
    connect.set_endpoint(&full.address);
    const auto start_and_cancel = [&] {
      start(connect);
      proactor().cancel(connect);
    };
    if (i % 2 == 0) {
      start_and_cancel();
    } else {
      inside(start_and_cancel);
    }
    run([&] { return connect.done(); });
    EXPECT_EQ(connect.error(), std::errc::operation_canceled);
  }
}

TEST_P(Borrowed, a_blocking_connect_ends_by_cancel_deadline_and_close) {
  FullListener full;
  Fd sockets[3];
  Probe* connects[3];
  for (int i = 0; i < 3; ++i) {
    sockets[i].reset(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    connects[i] = &plain(OperationKind::connect, borrow(sockets[i]));
    connects[i]->set_endpoint(&full.address);
  }
  connects[1]->set_deadline(Deadline::after(1ms, proactor().now()));
  for (Probe* connect : connects) start(*connect);
  run_for(1ms);
  EXPECT_TRUE(connects[0]->is_pending());
  proactor().cancel(*connects[0]);
  finish_close(connects[2]->handle());
  run([&] { return connects[0]->done() && connects[1]->done() && connects[2]->done(); });
  EXPECT_EQ(connects[0]->error(), std::errc::operation_canceled);
  EXPECT_EQ(connects[1]->error(), std::errc::timed_out);
  EXPECT_EQ(connects[2]->error(), std::errc::operation_canceled);
  timeval span{};
  socklen_t size = sizeof(span);
  ::getsockopt(sockets[0].get(), SOL_SOCKET, SO_SNDTIMEO, &span, &size);
  EXPECT_EQ(span.tv_usec, 0) << "an option of the owner's is changed";
}

// More than any engine has threads, and neither kind of backlog ever has room.
TEST_P(Borrowed, blocking_connects_that_wait_hold_up_nothing_else) {
  constexpr int waiting = 6;
  FullListener full;
  Endpoint deaf = Endpoint::loopback(0);
  Fd deaf_listener = listener(deaf, 0);
  Fd queued = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(::connect(queued.get(), static_cast<const sockaddr*>(deaf.data()), deaf.size()), 0);
  Fd sockets[waiting * 2];
  Probe* connects[waiting * 2];
  Endpoint names[2] = {full.address, deaf};
  for (int i = 0; i < waiting * 2; ++i) {
    const int domain = i < waiting ? AF_UNIX : AF_INET;
    sockets[i].reset(::socket(domain, SOCK_STREAM | SOCK_CLOEXEC, 0));
    connects[i] = &plain(OperationKind::connect, borrow(sockets[i]));
    connects[i]->set_endpoint(&names[i / waiting]);
    start(*connects[i]);
  }
  Endpoint answers = Endpoint::loopback(0);
  Fd open = listener(answers);
  Fd last = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  Probe& connect = plain(OperationKind::connect, borrow(last));
  connect.set_endpoint(&answers);
  start(connect);
  run([&] { return connect.done(); });
  EXPECT_FALSE(connect.error());
  for (Probe* each : connects) {
    EXPECT_TRUE(each->is_pending());
    proactor().cancel(*each);
  }
  run([&] {
    return std::all_of(std::begin(connects), std::end(connects),
                       [](Probe* each) { return each->done(); });
  });
  for (Probe* each : connects) EXPECT_EQ(each->error(), std::errc::operation_canceled);
}

TEST_P(Borrowed, connects_to_a_full_backlog_are_cancelled_in_any_order) {
  FullListener full;
  Fd sockets[6];
  Probe* connects[6];
  for (int i = 0; i < 6; ++i) {
    const int mode = i < 4 ? SOCK_NONBLOCK : 0;
    sockets[i].reset(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | mode, 0));
    connects[i] = &plain(OperationKind::connect, borrow(sockets[i]));
    connects[i]->set_endpoint(&full.address);
    start(*connects[i]);
  }
  run_for(1ms);
  for (const int i : {2, 1, 3, 5}) {
    proactor().cancel(*connects[i]);
    run([&] { return connects[i]->done(); });
    EXPECT_EQ(connects[i]->error(), std::errc::operation_canceled) << i;
  }
  for (int i = 0; i < 2; ++i) {
    EXPECT_FALSE(connects[0]->done() && connects[4]->done());
    ::close(::accept(full.listener.get(), nullptr, nullptr));
    run([&] { return connects[0]->done() + connects[4]->done() > i; });
  }
  EXPECT_FALSE(connects[0]->error());
  EXPECT_FALSE(connects[4]->error());
}

// Rule 3: the bytes and the half close come after the connection, in blocking mode and without.
TEST_P(Borrowed, what_is_started_after_a_connect_waits_for_it) {
  for (const int mode : {0, int{SOCK_NONBLOCK}}) {
    FullListener full;
    Fd ours = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | mode, 0);
    Handle* const handle = borrow(ours);
    Probe& connect = plain(OperationKind::connect, handle);
    connect.set_endpoint(&full.address);
    Probe& write = writing(handle, memory("text"), Operation::exactly);
    Probe& shutdown = plain(OperationKind::shutdown, handle);
    for (Probe* each : {&connect, &write, &shutdown}) start(*each);
    run_for(1ms);
    EXPECT_FALSE(connect.done() || write.done() || shutdown.done());
    ::close(::accept(full.listener.get(), nullptr, nullptr));
    run([&] { return connect.done() && write.done() && shutdown.done(); });
    EXPECT_FALSE(connect.error());
    EXPECT_FALSE(write.error());
    EXPECT_FALSE(shutdown.error());
    const Fd peer = ::accept(full.listener.get(), nullptr, nullptr);
    char text[8];
    EXPECT_EQ(::recv(peer.get(), text, sizeof(text), 0), 4);
    EXPECT_EQ(::recv(peer.get(), text, sizeof(text), 0), 0);
  }
}

// One is cancelled while the others wait for it.
TEST_P(Borrowed, what_waits_for_a_connect_goes_on_after_its_cancel) {
  FullListener full;
  Fd ours = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  Handle* const handle = borrow(ours);
  Probe* connects[3];
  for (Probe*& each : connects) {
    each = &plain(OperationKind::connect, handle);
    each->set_endpoint(&full.address);
    start(*each);
  }
  Probe& write = writing(handle, memory("text"), Operation::exactly);
  start(write);
  for (const int i : {1, 0}) {
    proactor().cancel(*connects[i]);
    run([&] { return connects[i]->done(); });
    EXPECT_EQ(connects[i]->error(), std::errc::operation_canceled);
  }
  run_for(1ms);
  EXPECT_FALSE(connects[2]->done() || write.done());
  proactor().cancel(*connects[2]);
  run([&] { return connects[2]->done() && write.done(); });
  EXPECT_EQ(connects[2]->error(), std::errc::operation_canceled);
  EXPECT_EQ(write.error(), std::errc::not_connected);
  timeval span{};
  socklen_t size = sizeof(span);
  ::getsockopt(ours.get(), SOL_SOCKET, SO_SNDTIMEO, &span, &size);
  EXPECT_EQ(span.tv_usec, 0) << "an option of the owner's is changed";
}

// A terminal is readable with the first character, and a read waits for the others. The end of an
// earlier ring may interrupt the first read, so there are two. Each has its own terminal, so that
// neither takes the other's character.
TEST_P(Borrowed, a_read_of_a_blocking_terminal_blocks_no_other_operation) {
  Fd masters[2];
  Fd slaves[2];
  Handle* terminals[2];
  for (int i = 0; i < 2; ++i) {
    int pair[2];
    ASSERT_EQ(::openpty(&pair[0], &pair[1], nullptr, nullptr, nullptr), 0);
    masters[i].reset(pair[0]);
    slaves[i].reset(pair[1]);
    termios modes{};
    ASSERT_EQ(::tcgetattr(pair[1], &modes), 0);
    ::cfmakeraw(&modes);
    modes.c_cc[VMIN] = modes.c_cc[VTIME] = 255;
    ASSERT_EQ(::tcsetattr(pair[1], TCSANOW, &modes), 0);
    terminals[i] = borrow(slaves[i], HandleKind::pipe);
  }
  std::promise<void> served;
  std::atomic<bool> held{false};
  std::thread watch{[&] {
    const std::future<void> end = served.get_future();
    const Deadline last = test::at_last();
    // Before the time after a character is over, and all of them in the end.
    while (end.wait_for(1s) != std::future_status::ready) {
      held = last < Deadline::after(0ms);
      const std::string more(held ? 255 : 1, 'x');
      for (const Fd& master : masters) {
        static_cast<void>(::write(master.get(), more.data(), more.size()));
      }
    }
  }};
  Probe* reads[2];
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(::write(masters[i].get(), "x", 1), 1);
    pollfd state{slaves[i].get(), POLLIN, 0};
    EXPECT_EQ(::poll(&state, 1, -1), 1);
    reads[i] = &reading(terminals[i], memory(300));
    inside([&] { start(*reads[i]); });
    for (int j = 0; j < 3; ++j) run_for(1ms);
  }
  served.set_value();
  watch.join();
  EXPECT_FALSE(held);
  for (Probe* const read : reads) proactor().cancel(*read);
  run([&] { return reads[0]->done() && reads[1]->done(); });
}

// A terminal is writable as long as one byte fits, and a write of more waits for its reader.
TEST_P(Borrowed, a_blocking_terminal_blocks_no_other_operation) {
  Fd master = ::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  ASSERT_EQ(::grantpt(master.get()), 0);
  ASSERT_EQ(::unlockpt(master.get()), 0);
  Fd slave = ::open(::ptsname(master.get()), O_RDWR | O_NOCTTY | O_CLOEXEC);
  ASSERT_GE(slave.get(), 0);
  std::string& text = memory(std::string(100'000, 'x'));
  Probe& write = writing(borrow(slave, HandleKind::pipe), text, Operation::exactly);
  inside([&] { start(write); });
  for (int i = 0; i < 3; ++i) run_for(1ms);  // timers are served all the while
  EXPECT_TRUE(write.is_pending());
  std::size_t received = 0;
  std::thread reader{[&] {
    char some[4096];
    while (received < text.size()) {
      const ssize_t count = ::read(master.get(), some, sizeof(some));
      if (count <= 0) break;
      received += static_cast<std::size_t>(count);
    }
  }};
  finish(write);
  reader.join();
  EXPECT_EQ(received, text.size());
}

}  // namespace
}  // namespace baton::conformance
