// Accept and connect on every address family (P-18, B-03). Refused ones are completions on every
// engine (rule 1).
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>

#include "operations.hpp"

namespace baton::conformance {
namespace {

class Connection : public Operations {
 protected:
  static std::string unique(const char* name) {
    return "@baton." + std::to_string(::getpid()) + "." + name;
  }
  Handle* socket_for(const Endpoint& endpoint) {
    Fd fd = ::socket(static_cast<const sockaddr*>(endpoint.data())->sa_family,
                     SOCK_STREAM | SOCK_CLOEXEC, 0);
    return adopt(fd);
  }
  Probe& accepting(Handle* handle, Endpoint* peer) {
    Probe& probe = plain(OperationKind::accept, handle);
    probe.set_endpoint(peer);
    return probe;
  }
  Probe& connecting(Handle* handle, Endpoint& to) {
    Probe& probe = plain(OperationKind::connect, handle);
    probe.set_endpoint(&to);
    return probe;
  }
};
BATON_CONFORMANCE_SOCKET_SUITE(Connection);

TEST_P(Connection, accept_and_connect_over_every_family) {
  for (Endpoint endpoint : {Endpoint::loopback(0), Endpoint::loopback_v6(0),
                            Endpoint::unix_path(unique("listener")).value()}) {
    Fd listening = listener(endpoint);
    Handle* const acceptor = adopt(listening, HandleKind::listener);
    Endpoint peer;
    Probe& accept = accepting(acceptor, &peer);
    start(accept);
    Handle* const client = socket_for(endpoint);
    Probe& connect = connecting(client, endpoint);
    start(connect);
    run([&] { return accept.done() && connect.done(); });
    ASSERT_FALSE(connect.failed()) << connect.error().message();
    ASSERT_FALSE(accept.failed()) << accept.error().message();
    EXPECT_EQ(peer.family(), endpoint.family());
    EXPECT_EQ(peer, bound_to(client->native()));
    // Of the length that the system reports: a client without a bound address has no name.
    if (peer.family() == AddressFamily::unix_domain) {
      EXPECT_EQ(peer.to_string(), "unix:");
    }
    Fd accepted = accept.accepted();
    EXPECT_NE(::fcntl(accepted.get(), F_GETFD) & FD_CLOEXEC, 0);
    // Connected: bytes go through.
    send_all(accepted.get(), "hello");
    std::string& into = memory(5);
    Probe& read = reading(client, into, Operation::exactly);
    finish(read);
    EXPECT_EQ(into, "hello");
    finish_close(client);
    finish_close(acceptor);
  }
}

TEST_P(Connection, accept_reports_the_name_of_a_unix_client) {
  Endpoint endpoint = Endpoint::unix_path(unique("listener")).value();
  Fd listening = listener(endpoint);
  Handle* const acceptor = adopt(listening, HandleKind::listener);
  Endpoint name = Endpoint::unix_path(unique("client")).value();
  Endpoint peer = Endpoint::loopback(1);  // what stood there before
  Probe& accept = accepting(acceptor, &peer);
  start(accept);
  Handle* const client = socket_for(endpoint);
  ASSERT_EQ(::bind(client->native(), static_cast<const sockaddr*>(name.data()), name.size()), 0);
  Probe& connect = connecting(client, endpoint);
  start(connect);
  run([&] { return accept.done() && connect.done(); });
  ASSERT_FALSE(connect.failed()) << connect.error().message();
  ASSERT_FALSE(accept.failed()) << accept.error().message();
  EXPECT_EQ(peer, name);
  EXPECT_EQ(peer.to_string(), name.to_string());
  Fd{accept.accepted()}.reset();
  finish_close(client);
  finish_close(acceptor);
}

TEST_P(Connection, every_pending_accept_takes_one_connection) {
  Endpoint endpoint = Endpoint::loopback(0);
  Fd listening = listener(endpoint);
  Handle* const acceptor = adopt(listening, HandleKind::listener);
  std::vector<Probe*> accepts;
  for (int i = 0; i < 4; ++i) {
    accepts.push_back(&accepting(acceptor, nullptr));
    start(*accepts.back());
  }
  const auto accepted = [&] {
    int count = 0;
    for (const Probe* accept : accepts) count += accept->done() ? 1 : 0;
    return count;
  };
  Fd clients[3];
  for (int i = 0; i < 3; ++i) {
    clients[i] = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ASSERT_EQ(
        ::connect(clients[i].get(), static_cast<const sockaddr*>(endpoint.data()), endpoint.size()),
        0);
    run([&] { return accepted() == i + 1; });
  }
  finish_close(acceptor);
  EXPECT_EQ(accepted(), 4);
  int cancelled = 0;
  for (const Probe* accept : accepts) {
    if (accept->error() == std::errc::operation_canceled) {
      ++cancelled;
    } else {
      const Fd close{accept->accepted()};
    }
  }
  EXPECT_EQ(cancelled, 1);
}

TEST_P(Connection, a_refused_connection_is_a_completion) {
  for (Endpoint endpoint : {Endpoint::loopback(0), Endpoint::loopback_v6(0)}) {
    const Fd bound = unheard(endpoint);
    Handle* const socket = socket_for(endpoint);
    for (int i = 0; i < 3; ++i) {  // a socket may try again
      Probe& connect = connecting(socket, endpoint);
      finish(connect);
      EXPECT_EQ(connect.error(), std::errc::connection_refused) << connect.error().message();
    }
  }
  Endpoint nowhere = Endpoint::unix_path(unique("nowhere")).value();
  Probe& refused = connecting(socket_for(nowhere), nowhere);
  finish(refused);
  EXPECT_EQ(refused.error(), std::errc::connection_refused);
  Endpoint missing = Endpoint::unix_path("/nonexistent/baton").value();
  Probe& none = connecting(socket_for(missing), missing);
  inside([&] { start(none); });
  finish(none);
  EXPECT_EQ(none.error(), std::errc::no_such_file_or_directory);
}

// The queue of the listener is full when it has one connection. Further ones are pending.
TEST_P(Connection, a_pending_connect_can_be_cancelled_and_closed) {
  Endpoint endpoint = Endpoint::loopback(0);
  const Fd listening = listener(endpoint, 0);
  Probe& first = connecting(socket_for(endpoint), endpoint);
  start(first);
  finish(first);
  EXPECT_FALSE(first.failed());
  // It may be in the queue later than its connect is complete.
  pollfd queue{listening.get(), POLLIN, 0};
  ASSERT_EQ(::poll(&queue, 1, -1), 1);
  Probe& cancelled = connecting(socket_for(endpoint), endpoint);
  Probe& closed = connecting(socket_for(endpoint), endpoint);
  for (Probe* const connect : {&cancelled, &closed}) start(*connect);
  proactor().cancel(cancelled);
  finish_close(closed.handle());
  for (Probe* const connect : {&cancelled, &closed}) {
    finish(*connect);
    EXPECT_EQ(connect->error(), std::errc::operation_canceled) << connect->error().message();
  }
}

}  // namespace
}  // namespace baton::conformance
