// A peer whose buffer is full, or that disconnects while it is full: nothing is lost, the end is
// reported, and waiting costs no CPU (contract.md, rules 1 and 11).
#include <pty.h>
#include <sys/ioctl.h>
#include <sys/un.h>
#include <termios.h>

#include <cstddef>
#include <cstring>
#include <fstream>
#include <set>

#include "../../support/counting_system.hpp"
#include "operations.hpp"

namespace baton::conformance {
namespace {

class Full : public Operations {
 protected:
  /// A UNIX datagram socket that is not read yet.
  struct Reader {
    Fd fd;
    Endpoint endpoint;
  };
  static Reader reader() {
    static std::atomic<int> made{0};
    Reader result;
    result.endpoint = Endpoint::unix_path("@baton.full." + std::to_string(::getpid()) + "." +
                                          std::to_string(made.fetch_add(1)))
                          .value();
    result.fd = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const auto* address = static_cast<const sockaddr*>(result.endpoint.data());
    EXPECT_EQ(::bind(result.fd.get(), address, result.endpoint.size()), 0);
    return result;
  }
  /// Datagrams that a UNIX socket takes before its reader comes.
  static int queue_length() {
    int length = 0;
    std::ifstream{"/proc/sys/net/unix/max_dgram_qlen"} >> length;
    EXPECT_GT(length, 0);
    return length;
  }
  static bool send_raw(const Fd& from, const Reader& to) {
    return ::sendto(from.get(), "x", 1, MSG_DONTWAIT,
                    static_cast<const sockaddr*>(to.endpoint.data()), to.endpoint.size()) == 1;
  }
  /// Sends to peers that do not read, until the system reports no room.
  static std::vector<Reader> hold_memory_of(const Fd& socket) {
    std::vector<Reader> silent;
    const auto has_room = [&] {
      pollfd room{socket.get(), POLLOUT, 0};
      return ::poll(&room, 1, 0) == 1;
    };
    while (has_room()) {
      if (silent.empty() || !send_raw(socket, silent.back())) silent.push_back(reader());
    }
    return silent;
  }
  Handle* sender(const Reader& to, bool connected) {
    Fd fd = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (connected) {
      const auto* address = static_cast<const sockaddr*>(to.endpoint.data());
      EXPECT_EQ(::connect(fd.get(), address, to.endpoint.size()), 0);
    }
    return adopt(fd, HandleKind::datagram_socket);
  }
  Probe& send(Handle* handle, std::string text, Endpoint* to) {
    Probe& probe = plain(OperationKind::write_datagram, handle);
    probe.set_buffer(ConstBuffer{std::string_view{memory(std::move(text))}});
    probe.set_endpoint(to);
    start(probe);
    return probe;
  }
};
BATON_CONFORMANCE_SOCKET_SUITE(Full);

TEST_P(Full, a_slow_unix_peer_gets_every_datagram) {
  for (const bool connected : {true, false}) {
    Reader peer = reader();
    Handle* const handle = sender(peer, connected);
    std::multiset<std::string> sent;
    std::multiset<std::string> received;
    std::deque<Probe*> probes;
    for (int i = 0; i < queue_length() + 20; ++i) {
      const std::string text = "datagram " + std::to_string(i);
      sent.insert(text);
      probes.push_back(&send(handle, text, connected ? nullptr : &peer.endpoint));
    }
    // More than fits is in flight before anything is read.
    const auto done = [&] {
      return std::count_if(probes.begin(), probes.end(),
                           [](const Probe* probe) { return probe->done(); });
    };
    run([&] { return done() >= queue_length(); });
    char text[64];
    run([&] {
      for (ssize_t size; (size = ::recv(peer.fd.get(), text, sizeof(text), 0)) >= 0;) {
        received.emplace(text, static_cast<std::size_t>(size));
      }
      return received.size() == sent.size() && done() == static_cast<std::ptrdiff_t>(sent.size());
    });
    EXPECT_EQ(received, sent) << (connected ? "connected" : "unconnected");
    for (const Probe* probe : probes) EXPECT_FALSE(probe->failed()) << probe->error().message();
  }
}

// One that reads and one that does not, behind one socket: neither what was sent before the first
// try, nor what is sent while the full one is waited for, waits for the full one.
TEST_P(Full, a_full_unix_peer_does_not_hold_up_another) {
  const bool connected_too[] = {false, true};
  for (const bool connected : connected_too) {
    const Reader full = reader();
    const Reader other = reader();
    Endpoint to_full = full.endpoint;
    Endpoint to_other = other.endpoint;
    Handle* const handle = sender(full, connected);
    const int more = queue_length() + 8;
    std::vector<Probe*> waiting;
    for (int i = 0; i < more; ++i) {
      waiting.push_back(&send(handle, std::to_string(i), connected ? nullptr : &to_full));
    }
    Probe& first = send(handle, "first", &to_other);
    run([&] { return first.done(); });
    Probe& second = send(handle, "second", &to_other);
    run([&] { return second.done(); });
    EXPECT_FALSE(first.failed());
    EXPECT_FALSE(second.failed());
    char text[16];
    EXPECT_EQ(::recv(other.fd.get(), text, sizeof(text), MSG_DONTWAIT), 5);
    EXPECT_EQ(::recv(other.fd.get(), text, sizeof(text), MSG_DONTWAIT), 6);
    EXPECT_FALSE(waiting.back()->done());
    int received = 0;
    run([&] {
      while (::recv(full.fd.get(), text, sizeof(text), MSG_DONTWAIT) > 0) ++received;
      return received == more && waiting.back()->done();
    });
    EXPECT_EQ(received, more);
    for (Probe* const each : waiting) run([&] { return each->done(); });
    for (Probe* const each : waiting) EXPECT_FALSE(each->failed());
  }
}

// The system has no room for a connected socket as long as its peer is full. Without a report of
// room, ten datagrams to another peer would go at each look, and most turns would do nothing.
TEST_P(Full, a_full_connected_peer_does_not_slow_down_another) {
  if (with_troubles()) GTEST_SKIP() << "the chaos engine delays each of them on its own";
  const Reader full = reader();
  const Reader other = reader();
  Endpoint to_other = other.endpoint;
  Handle* const handle = sender(full, true);
  const int more = queue_length() + 2;
  Probe* last = nullptr;
  for (int i = 0; i < more; ++i) last = &send(handle, "x", nullptr);
  const int sent = 30 * queue_length();
  for (int i = 0; i < sent; ++i) send(handle, "y", &to_other);
  char text[16];
  int received = 0;
  int useless_turns = 0;
  run([&] {
    const int before = received;
    while (::recv(other.fd.get(), text, sizeof(text), MSG_DONTWAIT) > 0) ++received;
    if (received == before) ++useless_turns;
    return received == sent;
  });
  EXPECT_LT(useless_turns, 30);
  EXPECT_FALSE(last->done());
  run([&] {
    while (::recv(full.fd.get(), text, sizeof(text), MSG_DONTWAIT) > 0) continue;
    return last->done();
  });
  EXPECT_FALSE(last->failed());
}

// Both are full when the datagrams begin to wait, and only the second reads.
TEST_P(Full, a_full_unix_peer_does_not_hold_up_another_that_was_full) {
  const Reader full = reader();
  const Reader other = reader();
  Endpoint to_full = full.endpoint;
  Endpoint to_other = other.endpoint;
  Handle* const handle = sender(full, false);
  std::vector<Probe*> waiting;
  std::vector<Probe*> served;
  const int more = queue_length() + 2;
  for (int i = 0; i < more; ++i) waiting.push_back(&send(handle, "x", &to_full));
  for (int i = 0; i < more; ++i) served.push_back(&send(handle, "y", &to_other));
  const auto all_sent = [](const std::vector<Probe*>& probes) {
    return std::all_of(probes.begin(), probes.end(), [](Probe* each) { return each->done(); });
  };
  run_for(1ms);
  EXPECT_FALSE(all_sent(served));
  char text[16];
  run([&] {
    while (::recv(other.fd.get(), text, sizeof(text), MSG_DONTWAIT) > 0) continue;
    return all_sent(served);
  });
  EXPECT_FALSE(all_sent(waiting));
  run([&] {
    while (::recv(full.fd.get(), text, sizeof(text), MSG_DONTWAIT) > 0) continue;
    return all_sent(waiting);
  });
  for (Probe* each : waiting) EXPECT_FALSE(each->failed());
  for (Probe* each : served) EXPECT_FALSE(each->failed());
}

// Peers that do not read hold so much of the socket's memory that the system reports no room.
TEST_P(Full, unix_peers_that_do_not_read_starve_no_other) {
  Fd ours = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const std::vector<Reader> silent = hold_memory_of(ours);
  Reader live = reader();
  const Fd another = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  while (send_raw(another, live)) continue;
  Handle* const handle = adopt(ours, HandleKind::datagram_socket);
  std::vector<Probe*> waiting;
  for (int i = 0; i < 3; ++i) waiting.push_back(&send(handle, "y", &live.endpoint));
  run_for(1ms);
  EXPECT_FALSE(waiting.front()->done());
  char text[16];
  while (::recv(live.fd.get(), text, sizeof(text), MSG_DONTWAIT) > 0) continue;
  for (Probe* const each : waiting) run([&] { return each->done(); });
  for (Probe* const each : waiting) EXPECT_FALSE(each->failed());
}

// The connected one reads at any moment between the try that finds it full and the wait for room.
TEST_P(Full, unix_peers_that_do_not_read_do_not_starve_the_connected_one) {
  for (int turns = 0; turns < 3; ++turns) {
    Fd ours = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const std::vector<Reader> silent = hold_memory_of(ours);
    const Reader live = reader();
    const auto* address = static_cast<const sockaddr*>(live.endpoint.data());
    ASSERT_EQ(::connect(ours.get(), address, live.endpoint.size()), 0);
    const Fd another = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    while (send_raw(another, live)) continue;
    Probe& waiting = send(adopt(ours, HandleKind::datagram_socket), "y", nullptr);
    for (int i = 0; i < turns; ++i) proactor().poll();
    char text[16];
    ASSERT_EQ(::recv(live.fd.get(), text, sizeof(text), MSG_DONTWAIT), 1);
    run([&] { return waiting.done(); });
    EXPECT_FALSE(waiting.failed()) << turns;
  }
}

// If each was tried for itself, all but a few of many would be in vain at each report of room, and
// those would back off although the peer reads.
TEST_P(Full, datagrams_that_wait_for_a_peer_go_in_their_order) {
  if (with_troubles()) GTEST_SKIP() << "the chaos engine delays each of them on its own";
  for (const bool connected : {true, false}) {
    Reader peer = reader();
    Handle* const handle = sender(peer, connected);
    std::vector<std::string> sent;
    for (int i = 0; i < queue_length() + 300; ++i) {
      sent.push_back(std::to_string(i));
      send(handle, sent.back(), connected ? nullptr : &peer.endpoint);
    }
    run_for(1ms);
    std::vector<std::string> received;
    char text[16];
    run([&] {
      for (ssize_t size; (size = ::recv(peer.fd.get(), text, sizeof(text), 0)) >= 0;) {
        received.emplace_back(text, static_cast<std::size_t>(size));
      }
      return received.size() == sent.size();
    });
    EXPECT_EQ(received, sent) << (connected ? "connected" : "unconnected");
  }
}

// The system ends a blocking write there, and reports nothing to those that poll.
TEST_P(Full, a_datagram_ends_when_the_program_shuts_the_writing_side) {
  int ends[2] = {-1, -1};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, ends), 0);
  Fd ours = ends[0];
  const Fd peer = ends[1];
  while (::send(ours.get(), "x", 1, MSG_DONTWAIT) == 1) continue;
  Handle* const handle = adopt(ours, HandleKind::datagram_socket);
  Probe& waiting = send(handle, "y", nullptr);
  run_for(1ms);
  EXPECT_FALSE(waiting.done());
  ASSERT_EQ(::shutdown(handle->native(), SHUT_WR), 0);
  run([&] { return waiting.done(); });
  EXPECT_EQ(waiting.error(), std::errc::broken_pipe);
}

TEST_P(Full, a_peer_that_stays_full_costs_next_to_nothing) {
  if (with_troubles()) GTEST_SKIP() << "each delay of the chaos engine is a call";
  use([](Config& config) { config.system = &test::counting_system(); });
  for (const bool connected : {true, false}) {
    Reader peer = reader();
    Handle* const handle = sender(peer, connected);
    Probe* last = nullptr;
    for (int i = 0; i < queue_length() + 2; ++i) {
      last = &send(handle, "full", connected ? nullptr : &peer.endpoint);
    }
    run_for(20ms);
    test::system_calls().clear();
    run_for(100ms);
    EXPECT_LT(test::system_calls().all_but_locks(), 200U) << connected;
    EXPECT_TRUE(last->is_pending());
    // It can still be ended.
    EXPECT_EQ(proactor().cancel(*last), CancelResult::requested);
    finish(*last);
    EXPECT_EQ(last->error(), std::errc::operation_canceled);
  }
}

// Such a peer sends nothing any more, which is no room.
TEST_P(Full, a_wait_for_room_does_not_end_when_the_peer_half_closes) {
  if (with_troubles()) GTEST_SKIP() << "each delay of the chaos engine is a call";
  use([](Config& config) { config.system = &test::counting_system(); });
  for (const bool local : {true, false}) {
    Pair pair = local ? unix_pair() : tcp_pair();
    const std::string block(65'536, 'x');
    std::size_t filled = 0;
    for (ssize_t sent = 0; sent >= 0; filled += static_cast<std::size_t>(std::max(sent, {}))) {
      sent = ::send(pair.ours.get(), block.data(), block.size(), MSG_DONTWAIT);
    }
    ASSERT_EQ(::shutdown(pair.peer.get(), SHUT_WR), 0);
    Handle* const handle = adopt(pair.ours);
    Probe& input = plain(OperationKind::wait_ready, handle, Operation::readable);
    finish(input);
    EXPECT_FALSE(input.failed()) << "the end of the stream";
    Probe& room = plain(OperationKind::wait_ready, handle, Operation::writable);
    start(room);
    run_for(20ms);
    test::system_calls().clear();
    run_for(100ms);
    EXPECT_LT(test::system_calls().all_but_locks(), 200U) << local;
    EXPECT_TRUE(room.is_pending());
    receive(pair.peer.get(), filled);
    finish(room);
    EXPECT_FALSE(room.failed()) << room.error().message();
  }
}

TEST_P(Full, a_write_to_a_terminal_ends_when_the_other_side_is_gone) {
  int master = -1;
  int slave = -1;
  ASSERT_EQ(::openpty(&master, &slave, nullptr, nullptr, nullptr), 0);
  Fd ours = master;
  Fd peer = slave;
  termios raw{};
  ASSERT_EQ(::tcgetattr(slave, &raw), 0);
  ::cfmakeraw(&raw);
  ASSERT_EQ(::tcsetattr(slave, TCSANOW, &raw), 0);
  Handle* const handle = adopt(ours, HandleKind::pipe);
  Probe& write = writing(handle, memory(pattern(1 << 20)), Operation::exactly);
  Probe& behind = writing(handle, memory(pattern(1 << 10)), Operation::exactly);
  start(write);
  start(behind);
  run([&] {
    int there = 0;
    return ::ioctl(peer.get(), FIONREAD, &there) == 0 && there > 0;
  });
  peer.reset();
  finish(write);
  finish(behind);
  EXPECT_EQ(write.error(), std::errc::io_error) << write.error().message();
  // A terminal drops its content when its last user leaves: the next write may find room.
  if (behind.failed()) {
    EXPECT_EQ(behind.error(), std::errc::io_error) << behind.error().message();
  } else {
    EXPECT_EQ(behind.bytes(), std::size_t{1} << 10);
  }
}

}  // namespace
}  // namespace baton::conformance
