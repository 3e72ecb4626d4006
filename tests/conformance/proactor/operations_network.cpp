// What the network does to a program: floods, and addresses that go (rules 7 and 11).
#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>

#include <cstring>
#include <thread>

#include "operations.hpp"

namespace baton::conformance {
namespace {

class Network : public Operations {
 protected:
  /// A datagram socket on the loopback of the calling thread's network namespace.
  static Fd datagrams() {
    Fd fd = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    const Endpoint any = Endpoint::loopback(0);
    EXPECT_EQ(::bind(fd.get(), static_cast<const sockaddr*>(any.data()), any.size()), 0);
    return fd;
  }

  /// Which of the seven patterns this is; 7: none.
  static unsigned number_of(std::string_view text, std::size_t size) {
    unsigned seed = 0;
    while (seed < 7 && text.substr(0, size) != pattern(size, seed)) ++seed;
    return seed;
  }

  /// The loopback of the namespace that this socket belongs to: up, with its address or without.
  static void set_loopback(int fd, bool address) {
    ifreq loopback{};
    std::string_view{"lo"}.copy(loopback.ifr_name, IFNAMSIZ);
    loopback.ifr_flags = IFF_UP;
    ASSERT_EQ(::ioctl(fd, SIOCSIFFLAGS, &loopback), 0);
    sockaddr_in in{};
    in.sin_family = AF_INET;
    in.sin_addr.s_addr = htonl(address ? INADDR_LOOPBACK : INADDR_ANY);
    std::memcpy(&loopback.ifr_addr, &in, sizeof(in));
    ASSERT_EQ(::ioctl(fd, SIOCSIFADDR, &loopback), 0);
  }
};

// The echo reads one datagram after the other, and never finds the queue empty.
TEST_P(Network, a_flood_of_datagrams_starves_no_other) {
  constexpr std::size_t size = 100;
  Fd served = datagrams();
  Endpoint where = bound_to(served.get());
  Fd flooding = datagrams();
  Handle* const echo = adopt(served, HandleKind::datagram_socket);
  std::string& datagram = memory(size);
  Endpoint from;
  Probe& receive = operation();
  Probe& answer = operation();
  std::atomic<bool> ended{false};
  std::atomic<std::size_t> echoed{0};
  const auto read_next = [&] {
    receive.prepare(OperationKind::read_datagram, echo);
    receive.set_buffer(MutableBuffer{datagram});
    receive.set_endpoint(&from);
    start(receive);
  };
  receive.then = [&] {
    if (ended) return;
    EXPECT_EQ(receive.bytes(), size);
    answer.prepare(OperationKind::write_datagram, echo);
    answer.set_buffer(ConstBuffer{std::string_view{datagram}});
    answer.set_endpoint(&from);
    start(answer);
  };
  answer.then = [&] {
    ++echoed;
    if (!ended) read_next();
  };
  inside(read_next);

  std::atomic<bool> stop{false};
  std::size_t answers = 0;
  std::thread flood{[&] {
    std::string back(size + 1, '\0');
    for (unsigned number = 0; !stop; ++number) {
      const std::string text = pattern(size, number % 7);
      ::sendto(flooding.get(), text.data(), size, MSG_DONTWAIT,
               static_cast<const sockaddr*>(where.data()), where.size());
      while (::recv(flooding.get(), back.data(), back.size(), MSG_DONTWAIT) >= 0) {
        const unsigned seed = number_of(back, size);
        EXPECT_LT(seed, 7U) << "an answer is no datagram that was sent";
        ++answers;
      }
    }
  }};
  run([&] { return echoed > 0; });
  Pair pair = tcp_pair();
  Handle* const stream = adopt(pair.ours);
  for (int i = 0; i < 50; ++i) {
    send_all(pair.peer.get(), "x");
    finish(reading(stream, memory(1)));
    finish(writing(stream, memory(std::string{"y"})));
    EXPECT_EQ(conformance::receive(pair.peer.get(), 1), "y");
    Probe& timer = operation();
    start_timer(timer, Deadline::after(1ms, proactor().now()));
    run([&] { return timer.done(); });
  }
  inside([&] { ended = true; });
  stop = true;
  flood.join();
  proactor().cancel(receive);
  run([&] { return receive.done() && answer.done(); });
}

// Longer than one call of the system moves.
TEST_P(Network, a_datagram_may_have_a_buffer_of_two_gibibytes) {
  Fd ours = datagrams();
  Fd theirs = datagrams();
  Endpoint here = bound_to(ours.get());
  Endpoint there = bound_to(theirs.get());
  Handle* const handle = adopt(ours, HandleKind::datagram_socket);
  std::string& block = memory(std::size_t{1} << 17);  // longer than any datagram
  constexpr std::size_t size = std::size_t{1} << 31;
  for (const bool with_endpoint : {true, false}) {
    Endpoint from;
    ASSERT_EQ(::sendto(theirs.get(), "short", 5, 0, static_cast<const sockaddr*>(here.data()),
                       here.size()),
              5);
    Probe& receive = plain(OperationKind::read_datagram, handle);
    receive.set_buffer(MutableBuffer{block.data(), size});
    if (with_endpoint) receive.set_endpoint(&from);
    finish(receive);
    EXPECT_FALSE(receive.error()) << receive.error().message();
    EXPECT_EQ(receive.bytes(), 5U);
    if (with_endpoint) {
      EXPECT_EQ(from, there);
    }
  }
  Probe& send = plain(OperationKind::write_datagram, handle);
  send.set_buffer(ConstBuffer{block.data(), size});
  send.set_endpoint(&there);
  finish(send);
  EXPECT_EQ(send.error(), std::errc::message_size);
}

// The namespace's thread has ended, and only its sockets keep it.
TEST_P(Network, an_address_that_goes_is_an_error_and_the_sockets_live_on) {
  Pair pair;
  Fd first;
  Fd second;
  bool made = false;
  std::thread{[&] {
    if (::unshare(CLONE_NEWNET) != 0) return;
    made = true;
    const Fd any = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    set_loopback(any.get(), true);
    first = datagrams();
    second = datagrams();
    pair = tcp_pair();
  }}.join();
  if (!made) GTEST_SKIP() << "no right to make network namespaces (unshare)";
  Endpoint there = bound_to(second.get());
  const int of_namespace = second.get();
  Handle* const sender = adopt(first, HandleKind::datagram_socket);
  Handle* const stream = adopt(pair.ours);
  const auto send = [&]() -> Probe& {
    Probe& sent = plain(OperationKind::write_datagram, sender);
    sent.set_buffer(ConstBuffer{std::string_view{memory(std::string{"datagram"})}});
    sent.set_endpoint(&there);
    finish(sent);
    return sent;
  };
  EXPECT_FALSE(send().error());
  send_all(pair.peer.get(), "x");
  Probe& before = reading(stream, memory(1));
  finish(before);
  EXPECT_EQ(before.bytes(), 1U);

  Probe& waiting = reading(stream, memory(1));
  start(waiting);
  set_loopback(of_namespace, false);
  EXPECT_EQ(send().error(), std::errc::network_unreachable);
  EXPECT_TRUE(waiting.is_pending());
  set_loopback(of_namespace, true);
  EXPECT_FALSE(send().error());
  send_all(pair.peer.get(), "y");
  finish(waiting);
  EXPECT_EQ(waiting.bytes(), 1U);

  Probe& last = reading(stream, memory(1));
  start(last);
  set_loopback(of_namespace, false);
  proactor().cancel(last);
  finish(last);
  EXPECT_EQ(last.error(), std::errc::operation_canceled);
  finish_close(stream);
}

BATON_CONFORMANCE_SOCKET_SUITE(Network);

}  // namespace
}  // namespace baton::conformance
