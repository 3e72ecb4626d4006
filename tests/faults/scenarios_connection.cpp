// Accepting, connecting, datagrams.
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <optional>
#include <span>

#include "baton/acceptor.hpp"
#include "baton/buffer_pool.hpp"
#include "baton/connector.hpp"
#include "baton/datagram_socket.hpp"
#include "baton/stream_socket.hpp"
#include "world.hpp"

namespace baton::faults {
namespace {

struct Listening {
  explicit Listening(World& world) {
    auto made = Acceptor::listen(world.proactor(), Endpoint::loopback(0));
    if (!world.take(made)) return;
    acceptor = std::move(*made);
    auto found = acceptor.local_endpoint();
    if (world.take(found)) where = *found;
  }
  [[nodiscard]] bool is_open() const { return where.port() != 0; }
  Acceptor acceptor;
  Endpoint where;
};

/// An accept and a connect, and the sockets that come of them. Takes each once, whatever happens.
struct Meeting {
  explicit Meeting(World& in) : world(in), connector(in.proactor()), accepting(in), connecting(in) {
    accepting.then(
        [](Account& account) {
          auto& self = *static_cast<Meeting*>(account.of);
          if (account.error) return;
          auto socket = Acceptor::take(self.world.proactor(), account.operation);
          if (self.world.take(socket)) self.server = std::move(*socket);
        },
        this);
    connecting.then(
        [](Account& account) {
          auto& self = *static_cast<Meeting*>(account.of);
          auto socket = self.connector.take(account.operation);
          if (!socket) return;
          self.client = std::move(*socket);
          self.connected = true;
        },
        this);
  }
  void begin(Listening& listening) {
    where = listening.where;
    world.start(accepting,
                [&](auto& op, auto handler) { return listening.acceptor.accept(op, handler); });
    connect();
  }
  void connect() {
    connected = false;
    world.start(connecting,
                [&](auto& op, auto handler) { return connector.connect(op, where, handler); });
  }
  /// The server had no descriptor for this one, and closed it (contract.md, rule 11).
  [[nodiscard]] bool turned_away() const {
    if (!connected) return false;
    pollfd look{.fd = client.native(), .events = POLLIN, .revents = 0};
    return ::poll(&look, 1, 0) == 1;
  }

  World& world;
  Endpoint where;
  std::atomic<bool> connected{false};
  Connector connector;
  StreamSocket server;
  StreamSocket client;
  Account accepting, connecting;  // last: their handlers use the others
};

/// Waits until all are connected; a refused client connects again.
bool settle(World& world, std::span<std::optional<Meeting>> meetings) {
  const auto away = [&](const auto& each) { return each && each->turned_away(); };
  const auto somebody_is_away = [&] { return std::ranges::any_of(meetings, away); };
  while (world.until([&] { return world.quiet() || somebody_is_away(); })) {
    if (world.quiet()) break;
    for (auto& each : meetings) {
      if (away(each)) each->connect();
    }
  }
  return world.settle();
}

void meet(World& world) {
  const Text<16> text;
  char buffer[16] = {};
  Account reading(world), writing(world);
  std::optional<Meeting> one;
  Meeting& meeting = one.emplace(world);
  Listening listening(world);
  if (!listening.is_open()) return;
  meeting.begin(listening);
  if (!settle(world, {&one, 1})) return;
  world.check(meeting.server.is_open() && meeting.client.is_open(), "both have their socket");
  world.start(reading, [&](auto& op, auto handler) {
    return meeting.server.read_exactly(op, buffer, handler);
  });
  world.start(writing, [&](auto& op, auto handler) {
    return meeting.client.write_all(op, text.all(), handler);
  });
  world.settle();
  EXPECT_TRUE(is_sent(buffer, reading.bytes));
}

void accept_burst(World& world) {
  std::array<std::optional<Meeting>, 4> meetings;
  Listening listening(world);
  if (!listening.is_open()) return;
  for (auto& meeting : meetings) meeting.emplace(world).begin(listening);
  if (!settle(world, meetings)) return;
  for (auto& meeting : meetings) {
    world.check(meeting->server.is_open() && meeting->client.is_open(), "all are connected");
  }
}

void accept_is_cancelled(World& world) {
  Account first(world, std::make_error_code(std::errc::operation_canceled));
  Account second(world, std::make_error_code(std::errc::operation_canceled));
  Listening listening(world);
  if (!listening.is_open()) return;
  for (Account* account : {&first, &second}) {
    world.start(*account,
                [&](auto& op, auto handler) { return listening.acceptor.accept(op, handler); });
  }
  listening.acceptor.cancel();
  world.settle();
  world.check(
      first.error == std::errc::operation_canceled && second.error == std::errc::operation_canceled,
      "both were cancelled");
}

// A port without a listener.
void connect_is_refused(World& world) {
  Meeting meeting(world);
  meeting.connecting.expected = std::make_error_code(std::errc::connection_refused);
  Endpoint nowhere;
  {
    const Listening listening(world);
    nowhere = listening.where;
  }
  if (!world.until([&] { return world.proactor().statistics().handles == 0; })) return;
  meeting.where = nowhere;
  world.start(meeting.connecting, [&](auto& op, auto handler) {
    return meeting.connector.connect(op, meeting.where, handler);
  });
  world.settle();
  world.check(meeting.connecting.error == std::errc::connection_refused, "it was refused");
}

void datagrams(World& world) {
  const Text<50> text;
  char buffer[2][50] = {};
  Endpoint from[2];
  Endpoint to;
  Account sending(world), sending_more(world), receiving(world), receiving_more(world);
  auto left = DatagramSocket::bind(world.proactor(), Endpoint::loopback(0));
  if (!world.take(left)) return;
  auto right = DatagramSocket::bind(world.proactor(), Endpoint::loopback(0));
  if (!world.take(right)) return;
  auto where = right->local_endpoint();
  if (!world.take(where)) return;
  to = *where;
  world.start(receiving, [&](auto& op, auto handler) {
    return right->receive_from(op, buffer[0], from[0], handler);
  });
  world.start(receiving_more, [&](auto& op, auto handler) {
    return right->receive_from(op, buffer[1], from[1], handler);
  });
  for (Account* account : {&sending, &sending_more}) {
    world.start(*account,
                [&](auto& op, auto handler) { return left->send_to(op, text.all(), to, handler); });
  }
  world.settle();
  world.check(receiving.bytes == 50 && receiving_more.bytes == 50, "datagrams keep their size");
  EXPECT_TRUE(is_sent(buffer[0], receiving.bytes) && is_sent(buffer[1], receiving_more.bytes));
}

// A block that was taken for a datagram goes back when there is no memory for the peer's address.
// The sender needs none.
void datagram_into_a_pool(World& world) {
  BufferPool pool{64, 2};
  Endpoint from;
  Account receiving(world);
  auto socket = DatagramSocket::bind(world.proactor(), Endpoint::loopback(0));
  if (!world.take(socket)) return;
  auto where = socket->local_endpoint();
  if (!world.take(where)) return;
  world.start(receiving, [&](Operation& operation, auto handler) {
    operation.prepare(OperationKind::read_datagram, socket->handle());
    operation.set_pool(&pool);
    operation.set_endpoint(&from);
    operation.set_handler(handler);
    return world.proactor().start(operation);
  });
  const int sender = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  EXPECT_EQ(
      ::sendto(sender, "data", 4, 0, static_cast<const sockaddr*>(where->data()), where->size()),
      4);
  ::close(sender);
  world.settle();
  if (!receiving.done()) return;
  EXPECT_EQ(pool.available(), receiving.ok() ? 1U : 2U);
  if (receiving.ok()) pool.give(receiving.operation.buffer().data);
}

void datagrams_in_pieces(World& world) {
  const Text<30> text;
  char buffer[30] = {};
  const std::array from{text.part(0, 10), text.part(10, 20)};
  const std::array to{MutableBuffer{buffer, 1}, MutableBuffer{buffer + 1, 29}};
  Account sending(world), receiving(world);
  auto left = DatagramSocket::bind(world.proactor(), Endpoint::loopback(0));
  if (!world.take(left)) return;
  auto right = DatagramSocket::bind(world.proactor(), Endpoint::loopback(0));
  if (!world.take(right)) return;
  auto where = right->local_endpoint();
  if (!world.take(where) || !world.take(left->connect(*where))) return;
  world.start(receiving,
              [&](auto& op, auto handler) { return right->read_vectored(op, to, handler); });
  world.start(sending,
              [&](auto& op, auto handler) { return left->write_vectored(op, from, handler); });
  world.settle();
  world.check(receiving.bytes == 30, "the datagram came as a whole");
  EXPECT_TRUE(is_sent(buffer, receiving.bytes));
}

void socket_options(World& world) {
  Listening listening(world);
  if (!listening.is_open()) return;
  std::optional<Meeting> one;
  Meeting& meeting = one.emplace(world);
  meeting.begin(listening);
  if (!settle(world, {&one, 1})) return;
  if (!world.take(meeting.client.set_option(option::NoDelay{true}))) return;
  auto set = meeting.client.get_option<option::NoDelay>();
  if (!world.take(set)) return;
  world.check(set->enabled, "the option was set");
  auto peer = meeting.client.remote_endpoint();
  if (world.take(peer)) world.check(*peer == listening.where, "the peer is the listener");
}

}  // namespace

void add_connections(std::vector<Scenario>& list) {
  list.insert(list.end(), {{"meet", meet},
                           {"accept_burst", accept_burst, 2},
                           {"accept_is_cancelled", accept_is_cancelled},
                           {"connect_is_refused", connect_is_refused},
                           {"datagrams", datagrams},
                           {"datagrams_in_pieces", datagrams_in_pieces},
                           {"datagram_into_a_pool", datagram_into_a_pool},
                           {"socket_options", socket_options}});
}

}  // namespace baton::faults
