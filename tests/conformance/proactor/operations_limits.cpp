// Rule 8: limits everywhere, with a clear error and nothing lost (P-17).
#include <deque>
#include <utility>
#include <vector>

#include "baton/acceptor.hpp"
#include "baton/stream_socket.hpp"
#include "operations.hpp"

namespace baton::conformance {
namespace {

class Limits : public Operations {
 protected:
  /// Reads on connections of their own, which stay idle until their peers send.
  std::vector<Probe*> idle_reads(int count) {
    std::vector<Probe*> reads;
    for (int i = 0; i < count; ++i) {
      Pair& pair = pairs.emplace_back(unix_pair());
      reads.push_back(&reading(adopt(pair.ours), memory(8)));
    }
    return reads;
  }
  static bool all_done(const std::vector<Probe*>& probes) {
    for (const Probe* probe : probes) {
      if (!probe->done()) return false;
    }
    return true;
  }
  std::deque<Pair> pairs;
};
BATON_CONFORMANCE_SOCKET_SUITE(Limits);

TEST_P(Limits, beyond_started_max_operations_are_deferred) {
  use([](Config& config) { sockets(config).started_max = 2; });
  const std::vector<Probe*> reads = idle_reads(10);
  for (Probe* read : reads) start(*read);
  run_for(1ms);
  Statistics statistics = proactor().statistics();
  EXPECT_EQ(statistics.deferred, 8U);
  EXPECT_EQ(statistics.started, reads.size() + 1);  // and the timer
  EXPECT_EQ(statistics.pending, reads.size());
  for (std::size_t i = 0; i < reads.size(); ++i) {
    EXPECT_EQ(reads[i]->state(), i < 2 ? OperationState::started : OperationState::deferred);
  }
  for (const Pair& pair : pairs) send_all(pair.peer.get(), "data");
  run([&] { return all_done(reads); });
  for (const Probe* read : reads) EXPECT_EQ(read->bytes(), 4U);
  statistics = proactor().statistics();
  EXPECT_EQ(statistics.pending, 0U);
  EXPECT_EQ(statistics.deferred, 8U);
}

TEST_P(Limits, beyond_operations_max_a_start_is_refused_and_nothing_lost) {
  use([](Config& config) {
    sockets(config).operations_max = 6;
    sockets(config).started_max = 4;
  });
  const std::vector<Probe*> reads = idle_reads(8);
  for (std::size_t i = 0; i < 6; ++i) start(*reads[i]);
  EXPECT_EQ(try_start(*reads[6]), errc::limit_reached);
  inside([&] { EXPECT_EQ(try_start(*reads[7]), errc::limit_reached); });
  EXPECT_FALSE(reads[6]->is_pending());
  EXPECT_FALSE(reads[7]->is_pending());
  EXPECT_EQ(proactor().statistics().refused_limit, 2U);
  // Cancel and close need no room; timers and posts neither.
  proactor().cancel(*reads[0]);
  finish(*reads[0]);
  run_for(1ms);
  inside([&] { start(*reads[7]); });
  EXPECT_EQ(try_start(*reads[6]), errc::limit_reached);
  finish_close(reads[1]->handle());
  EXPECT_EQ(reads[1]->error(), std::errc::operation_canceled);
  start(*reads[6]);
  for (const Pair& pair : pairs) ::send(pair.peer.get(), "data", 4, MSG_NOSIGNAL);
  run([&] { return all_done(reads); });
  for (std::size_t i = 2; i < reads.size(); ++i) EXPECT_EQ(reads[i]->bytes(), 4U);
}

// Only the cancels may make room while the leader waits.
TEST_P(Limits, a_cancel_makes_room_for_deferred_operations) {
  use([](Config& config) { sockets(config).started_max = 2; });
  const std::vector<Probe*> reads = idle_reads(2);
  for (Probe* read : reads) start(*read);
  run_for(1ms);
  Pair pair = unix_pair();
  Probe& write = writing(adopt(pair.ours), memory("data"));
  start(write);
  for (Probe* read : reads) proactor().cancel(*read);
  run([&] { return all_done(reads) && write.done(); });
  EXPECT_EQ(write.bytes(), 4U);
}

TEST_P(Limits, the_table_of_handles_is_bounded) {
  use([](Config& config) { config.handles_max = 3; });
  Pair sockets[3] = {unix_pair(), unix_pair(), unix_pair()};
  Handle* handles[3];
  for (int i = 0; i < 3; ++i) handles[i] = adopt(sockets[i].ours);
  EXPECT_EQ(proactor().adopt(sockets[0].peer.get(), HandleKind::stream_socket).error(),
            errc::no_free_handles);
  send_all(sockets[0].peer.get(), "still the caller's");
  EXPECT_EQ(proactor().statistics().handles, 3U);
  const std::uint32_t generation = handles[1]->generation();
  finish_close(handles[1]);
  Handle* const again = adopt(sockets[0].peer);
  EXPECT_EQ(again, handles[1]);
  EXPECT_NE(again->generation(), generation);
}

// The accepted connection could not be adopted, and the server's loop would end.
TEST_P(Limits, an_accept_backs_off_while_there_is_no_room_for_a_handle) {
  use([](Config& config) { config.handles_max = 2; });
  Endpoint address = Endpoint::loopback(0);
  Fd socket = listener(address);
  Probe& accept = plain(OperationKind::accept, adopt(socket, HandleKind::listener));
  Pair other = unix_pair();
  Handle* const last = adopt(other.ours);
  start(accept);
  Fd client = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(::connect(client.get(), static_cast<sockaddr*>(address.data()), address.size()), 0);
  run([&] { return proactor().statistics().accept_backoffs > 0; });
  EXPECT_TRUE(accept.is_pending());
  finish_close(last);
  Fd second = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(::connect(second.get(), static_cast<sockaddr*>(address.data()), address.size()), 0);
  finish(accept);
  ASSERT_FALSE(accept.failed());
  const Fd accepted = accept.accepted();
  // The first has waited, and was not closed for want of a place.
  send_all(accepted.get(), "x");
  char received = 0;
  EXPECT_EQ(::recv(client.get(), &received, 1, 0), 1);
}

// An engine that has given the accept to the kernel gets a connection all the same. It was closed.
TEST_P(Limits, an_accept_in_flight_loses_no_connection_when_the_table_fills) {
  use([](Config& config) { config.handles_max = 2; });
  Endpoint address = Endpoint::loopback(0);
  Fd socket = listener(address);
  Probe& accept = plain(OperationKind::accept, adopt(socket, HandleKind::listener));
  start(accept);
  run_for(1ms);
  Pair other = unix_pair();
  Handle* const last = adopt(other.ours);
  Fd client = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(::connect(client.get(), static_cast<sockaddr*>(address.data()), address.size()), 0);
  run([&] { return accept.done() || proactor().statistics().accept_backoffs > 0; });
  finish_close(last);
  if (!accept.done()) finish(accept);
  auto accepted = Acceptor::take(proactor(), accept);
  ASSERT_TRUE(accepted.has_value()) << accepted.error().message();
  send_all(accepted->native(), "x");
  char received = 0;
  EXPECT_EQ(::recv(client.get(), &received, 1, 0), 1);
}

// Each accept has seen the last free place. Their connections find a place, and the next accept
// backs off.
TEST_P(Limits, accepts_that_complete_together_find_places) {
  constexpr std::size_t together = 4;
  use([](Config& config) { config.handles_max = together + 1; });
  Endpoint addresses[together];
  std::deque<Fd> sockets;
  std::vector<Probe*> accepts;
  std::deque<Fd> clients;
  const auto connect = [&](Endpoint& to) {
    clients.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(::connect(clients.back().get(), static_cast<sockaddr*>(to.data()), to.size()), 0);
  };
  for (Endpoint& address : addresses) {
    address = Endpoint::loopback(0);
    sockets.push_back(listener(address));
    accepts.push_back(&plain(OperationKind::accept, adopt(sockets.back(), HandleKind::listener)));
    start(*accepts.back());
    connect(address);
  }
  run([&] { return all_done(accepts); });
  std::vector<StreamSocket> taken;
  for (Probe* const accept : accepts) {
    auto socket = Acceptor::take(proactor(), *accept);
    ASSERT_TRUE(socket.has_value()) << socket.error().message();
    taken.push_back(std::move(*socket));
  }
  EXPECT_EQ(proactor().statistics().handles, 2 * together);
  EXPECT_EQ(proactor().adopt(clients[0].get(), HandleKind::stream_socket).error(),
            errc::no_free_handles);
  Probe& rests = plain(OperationKind::accept, accepts[0]->handle());
  start(rests);
  connect(addresses[0]);
  run([&] { return proactor().statistics().accept_backoffs > 0; });
  EXPECT_TRUE(rests.is_pending());
  taken.clear();
  finish(rests);
  EXPECT_TRUE(Acceptor::take(proactor(), rests).has_value());
}

}  // namespace
}  // namespace baton::conformance
