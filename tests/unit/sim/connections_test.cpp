// Connections and datagrams of the simulated machine without random faults.
#include <sys/socket.h>

#include <array>
#include <string>

#include "machine.hpp"

namespace baton::sim::test {
namespace {

TEST(SimulatedConnections, come_about_and_carry_bytes_in_both_directions) {
  in_machine([](const os::System& s) {
    const Connection c = connection_at(s, 80);
    EXPECT_EQ(send_text(s, c.client, "question"), gave(8));
    EXPECT_EQ(receive(s, c.server), gave(8));
    EXPECT_EQ(receive(s, c.server), failed(EAGAIN));
    EXPECT_EQ(receive(s, c.server, 0), gave(0));
    EXPECT_EQ(send_text(s, c.server, ""), gave(0));
    EXPECT_EQ(send_text(s, c.server, "yes"), gave(3));
    EXPECT_EQ(receive(s, c.client), gave(3));
    sockaddr_in peer{};
    socklen_t size = sizeof(peer);
    EXPECT_EQ(s.getpeername(c.client, reinterpret_cast<sockaddr*>(&peer), &size), 0);
    EXPECT_EQ(ntohs(peer.sin_port), 80);
    EXPECT_EQ(connect_to(s, c.client, 80), failed(EISCONN));
  });
}

TEST(SimulatedConnections, are_refused_without_a_listener) {
  Faults faults;
  faults.latency_least_ns = faults.latency_most_ns = 100'000;
  in_machine(faults, [](const os::System& s) {
    const int fd = stream_socket(s);
    EXPECT_EQ(send_text(s, fd, "x"), failed(ENOTCONN));
    EXPECT_EQ(receive(s, fd), failed(ENOTCONN));
    EXPECT_EQ(connect_to(s, fd, 81), failed(EINPROGRESS));
    EXPECT_EQ(connect_to(s, fd, 81), failed(EALREADY));
    EXPECT_EQ(send_text(s, fd, "x"), failed(EAGAIN));
    EXPECT_EQ(receive(s, fd), failed(EAGAIN));
    sleep_for(s, 1'000'000);
    EXPECT_EQ(error_of(s, fd), ECONNREFUSED);
    EXPECT_EQ(error_of(s, fd), 0) << "it is told once";
    EXPECT_EQ(send_text(s, fd, "x"), failed(EPIPE));
    EXPECT_EQ(receive(s, fd), failed(ENOTCONN));
    EXPECT_EQ(answer_of(s.shutdown(fd, SHUT_WR)), failed(ENOTCONN));
  });
}

TEST(SimulatedConnections, of_sockets_without_addresses_are_refused) {
  in_machine([](const os::System& s) {
    int ends[2];
    ASSERT_EQ(s.pipe2(ends, 0), 0);
    EXPECT_EQ(connect_to(s, ends[0], 1), failed(EOPNOTSUPP));
    EXPECT_EQ(accept_from(s, ends[0]), failed(EINVAL));
    EXPECT_EQ(answer_of(s.shutdown(ends[0], SHUT_WR)), failed(ENOTCONN));
    const int listener = listener_at(s, 80);
    EXPECT_EQ(accept_from(s, listener), failed(EAGAIN));
    char byte = 0;
    EXPECT_EQ(answer_of(s.read(listener, &byte, 1)), failed(EINVAL));
    EXPECT_EQ(answer_of(s.write(listener, &byte, 1)), failed(EINVAL));
    const int other = stream_socket(s);
    EXPECT_EQ(answer_of(s.listen(other, 0)), gave(0)) << "a port is found for it";
  });
}

TEST(SimulatedConnections, wait_while_a_backlog_is_full_and_then_give_up) {
  in_machine([](const os::System& s) {
    const int listener = listener_at(s, 80, 1);
    const int first = stream_socket(s);
    const int second = stream_socket(s);
    EXPECT_EQ(connect_to(s, first, 80), failed(EINPROGRESS));
    EXPECT_EQ(connect_to(s, second, 80), failed(EINPROGRESS));
    sleep_for(s, 5'000'000);
    const Answer taken = accept_from(s, listener);
    EXPECT_GE(taken.result, 0);
    sleep_for(s, 5'000'000);
    EXPECT_GE(accept_from(s, listener).result, 0) << "the second came when there was room";
    const int third = stream_socket(s);
    const int fourth = stream_socket(s);
    EXPECT_EQ(connect_to(s, third, 80), failed(EINPROGRESS));
    EXPECT_EQ(connect_to(s, fourth, 80), failed(EINPROGRESS));
    sleep_for(s, 100'000'000);
    EXPECT_EQ(error_of(s, fourth), ETIMEDOUT);
    // Connections in the backlog are reset with the listener.
    EXPECT_EQ(s.close(listener), 0);
    EXPECT_EQ(receive(s, third), failed(ECONNRESET));
  });
}

TEST(SimulatedConnections, end_in_one_direction) {
  in_machine([](const os::System& s) {
    const Connection c = connection_at(s, 80);
    EXPECT_EQ(s.shutdown(c.client, SHUT_RD), 0);
    EXPECT_EQ(send_text(s, c.client, "last"), gave(4));
    EXPECT_EQ(s.shutdown(c.client, SHUT_WR), 0);
    EXPECT_EQ(s.shutdown(c.client, SHUT_WR), 0);
    EXPECT_EQ(send_text(s, c.client, "x"), failed(EPIPE));
    EXPECT_EQ(receive(s, c.server), gave(4));
    EXPECT_EQ(receive(s, c.server), gave(0));
    EXPECT_EQ(send_text(s, c.server, "bye"), gave(3));
    EXPECT_EQ(receive(s, c.client), gave(3));
  });
}

TEST(SimulatedConnections, whose_end_is_closed_with_bytes_unread_are_reset) {
  in_machine([](const os::System& s) {
    const Connection c = connection_at(s, 80);
    EXPECT_EQ(send_text(s, c.client, "never read"), gave(10));
    EXPECT_EQ(s.close(c.server), 0);
    EXPECT_EQ(send_text(s, c.client, "x"), failed(ECONNRESET));
    EXPECT_EQ(send_text(s, c.client, "x"), failed(EPIPE));
    EXPECT_EQ(receive(s, c.client), gave(0));
    EXPECT_EQ(answer_of(s.getpeername(c.client, nullptr, nullptr)), failed(ENOTCONN));
    EXPECT_EQ(answer_of(s.shutdown(c.client, SHUT_WR)), failed(ENOTCONN));
  });
}

TEST(SimulatedConnections, whose_end_is_closed_in_peace_come_to_their_end) {
  in_machine([](const os::System& s) {
    const Connection c = connection_at(s, 80);
    EXPECT_EQ(s.close(c.server), 0);
    EXPECT_EQ(receive(s, c.client), gave(0));
    EXPECT_EQ(send_text(s, c.client, "x"), failed(EPIPE));
    EXPECT_EQ(s.shutdown(c.client, SHUT_WR), 0);
  });
}

TEST(SimulatedConnections, take_time_where_the_line_is_long) {
  Faults faults;
  faults.latency_least_ns = faults.latency_most_ns = 1'000'000;
  faults.bytes_per_us = 1;
  in_machine(faults, [](const os::System& s) {
    const int listener = listener_at(s, 80);
    const int client = stream_socket(s);
    EXPECT_EQ(connect_to(s, client, 80), failed(EINPROGRESS));
    sleep_for(s, 10'000'000);
    const int server = static_cast<int>(accept_from(s, listener).result);
    ASSERT_GE(server, 0);
    EXPECT_EQ(send_text(s, client, std::string(64, 'x')), gave(64));
    EXPECT_EQ(s.shutdown(client, SHUT_WR), 0);
    EXPECT_EQ(receive(s, server), failed(EAGAIN)) << "it is on its way";
    sleep_for(s, 1'100'000);
    EXPECT_EQ(receive(s, server), gave(64)) << "the latency, and 64 us for 64 bytes";
    sleep_for(s, 10'000'000);
    EXPECT_EQ(receive(s, server), gave(0));
  });
}

// -- datagrams ------------------------------------------------------------------------------------

int datagram_socket(const os::System& s, std::uint16_t port) {
  const int fd = s.socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
  const sockaddr_in address = address_of(port);
  if (port != 0) {
    EXPECT_EQ(s.bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  }
  return fd;
}

Answer send_to(const os::System& s, int fd, std::size_t size, sockaddr_in* to) {
  static char bytes[70'000];
  return answer_of(s.sendto(fd, bytes, size, 0, reinterpret_cast<sockaddr*>(to),
                            to != nullptr ? sizeof(*to) : 0));
}

Answer receive_from(const os::System& s, int fd, sockaddr_in* from) {
  char bytes[64];
  socklen_t size = sizeof(sockaddr_in);
  return answer_of(s.recvfrom(fd, bytes, sizeof(bytes), 0, reinterpret_cast<sockaddr*>(from),
                              from != nullptr ? &size : nullptr));
}

TEST(SimulatedDatagrams, find_their_port) {
  in_machine([](const os::System& s) {
    const int one = datagram_socket(s, 90);
    const int other = datagram_socket(s, 91);
    sockaddr_in to = address_of(91);
    EXPECT_EQ(receive_from(s, other, nullptr), failed(EAGAIN));
    EXPECT_EQ(send_to(s, one, 10, &to), gave(10));
    sockaddr_in from{};
    EXPECT_EQ(receive_from(s, other, &from), gave(10));
    EXPECT_EQ(ntohs(from.sin_port), 90);
    EXPECT_EQ(send_to(s, one, 100, &to), gave(100));
    EXPECT_EQ(receive_from(s, other, nullptr), gave(64)) << "what does not fit is lost";
    to = address_of(92);
    EXPECT_EQ(send_to(s, one, 10, &to), gave(10)) << "no receiver, and no error";
    to.sin_family = AF_UNIX;
    EXPECT_EQ(send_to(s, one, 10, &to), failed(EAFNOSUPPORT));
    EXPECT_EQ(send_to(s, one, 65'508, nullptr), failed(EDESTADDRREQ));
    to = address_of(91);
    EXPECT_EQ(send_to(s, one, 65'508, &to), failed(EMSGSIZE));
  });
}

TEST(SimulatedDatagrams, of_several_pieces_have_a_message_header) {
  in_machine([](const os::System& s) {
    const int one = datagram_socket(s, 90);
    const int other = datagram_socket(s, 91);
    char text[] = "abcd";
    std::array<iovec, 2> pieces{iovec{text, 1}, iovec{text + 1, 3}};
    sockaddr_in peer = address_of(91);
    msghdr message{};
    message.msg_iov = pieces.data();
    message.msg_iovlen = pieces.size();
    message.msg_name = &peer;
    message.msg_namelen = sizeof(peer);
    EXPECT_EQ(answer_of(s.sendmsg(one, &message, 0)), gave(4));
    EXPECT_EQ(answer_of(s.recvmsg(other, &message, 0)), gave(4));
    EXPECT_EQ(ntohs(peer.sin_port), 90);
  });
}

TEST(SimulatedDatagrams, go_to_the_peer_of_a_connected_socket) {
  in_machine([](const os::System& s) {
    const int one = datagram_socket(s, 0);
    const int other = datagram_socket(s, 91);
    EXPECT_EQ(answer_of(s.getpeername(one, nullptr, nullptr)), failed(ENOTCONN));
    EXPECT_EQ(connect_to(s, one, 91), gave(0));
    EXPECT_EQ(connect_to(s, one, 91), gave(0));
    EXPECT_EQ(answer_of(s.getpeername(one, nullptr, nullptr)), gave(0));
    char text[8] = "hello";
    EXPECT_EQ(s.write(one, text, 5), 5);
    EXPECT_EQ(s.read(other, text, sizeof(text)), 5);
    EXPECT_EQ(answer_of(s.read(other, text, sizeof(text))), failed(EAGAIN));
  });
}

TEST(SimulatedDatagrams, of_a_socket_without_a_port_get_one) {
  in_machine([](const os::System& s) {
    const int one = datagram_socket(s, 0);
    const int other = datagram_socket(s, 91);
    sockaddr_in to = address_of(91);
    EXPECT_EQ(send_to(s, one, 1, &to), gave(1));
    sockaddr_in from{};
    EXPECT_EQ(receive_from(s, other, &from), gave(1));
    EXPECT_NE(ntohs(from.sin_port), 0);
    const int third = datagram_socket(s, 0);
    const sockaddr_in address = address_of(91);
    EXPECT_EQ(
        answer_of(s.bind(third, reinterpret_cast<const sockaddr*>(&address), sizeof(address))),
        failed(EADDRINUSE));
  });
}

TEST(SimulatedDatagrams, beyond_what_is_queued_are_lost) {
  in_machine([](const os::System& s) {
    const int one = datagram_socket(s, 90);
    const int other = datagram_socket(s, 91);
    sockaddr_in to = address_of(91);
    for (int i = 0; i < 70; ++i) EXPECT_EQ(send_to(s, one, 1, &to), gave(1));
    int received = 0;
    while (receive_from(s, other, nullptr) == gave(1)) ++received;
    EXPECT_EQ(received, 64);
  });
}

TEST(SimulatedDatagrams, are_taken_by_datagram_sockets_only) {
  in_machine([](const os::System& s) {
    const Connection c = connection_at(s, 80);
    EXPECT_EQ(send_to(s, c.client, 10, nullptr), gave(10));
    EXPECT_EQ(receive_from(s, c.server, nullptr), gave(10));
    EXPECT_EQ(World::current()->kernel().receive_from(*World::current()->kernel().find(c.server),
                                                      {}, nullptr),
              -EINVAL);
  });
}

}  // namespace
}  // namespace baton::sim::test
