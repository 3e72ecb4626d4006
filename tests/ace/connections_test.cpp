// Connections of both address families, the arguments and results of validate_connection, and a
// proactor driven by a reactor.
#include <ace/Asynch_Acceptor.h>
#include <ace/Asynch_Connector.h>
#include <ace/Dev_Poll_Reactor.h>
#include <ace/Reactor.h>
#include <ace/Select_Reactor.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <memory>
#include <utility>

#include "support.hpp"

namespace baton::ace::test {
namespace {

using Addresses = std::pair<ACE_INET_Addr, ACE_INET_Addr>;  // remote, local

/// The callbacks of one side; everything happens in the thread of the test.
struct Side {
  std::vector<Addresses> validated;
  std::vector<Addresses> passed;
  int opened = 0;
  bool accepts = true;
};

/// A connection that notes its addresses and ends as soon as it is open.
class Visit final : public ACE_Service_Handler {
 public:
  explicit Visit(Side& side) : side_(side) {}
  void addresses(const ACE_INET_Addr& remote, const ACE_INET_Addr& local) override {
    side_.passed.emplace_back(remote, local);
  }
  void open(ACE_HANDLE handle, ACE_Message_Block&) override {
    ++side_.opened;
    ::close(handle);
    delete this;
  }

 private:
  Side& side_;
};

class Host final : public ACE_Asynch_Acceptor<ACE_Service_Handler> {
 public:
  explicit Host(Side& side) : side_(side) {}
  ACE_Service_Handler* make_handler() override { return new Visit(side_); }
  int validate_connection(const ACE_Asynch_Accept::Result& result, const ACE_INET_Addr& remote,
                          const ACE_INET_Addr& local) override {
    if (result.success()) {
      side_.validated.emplace_back(remote, local);
      // As accept(2) makes it.
      EXPECT_EQ(0, ::fcntl(result.accept_handle(), F_GETFD));
      EXPECT_EQ(0, ::fcntl(result.accept_handle(), F_GETFL) & O_NONBLOCK);
    }
    return side_.accepts ? 0 : -1;
  }

 private:
  Side& side_;
};

class Guest final : public ACE_Asynch_Connector<ACE_Service_Handler> {
 public:
  explicit Guest(Side& side) : side_(side) {}
  ACE_Service_Handler* make_handler() override { return new Visit(side_); }
  int validate_connection(const ACE_Asynch_Connect::Result& result, const ACE_INET_Addr& remote,
                          const ACE_INET_Addr& local) override {
    EXPECT_TRUE(result.success());
    side_.validated.emplace_back(remote, local);
    int reuse = 0;
    socklen_t size = sizeof(reuse);
    EXPECT_EQ(0, ::getsockopt(result.connect_handle(), SOL_SOCKET, SO_REUSEADDR, &reuse, &size));
    EXPECT_NE(0, reuse);
    return side_.accepts ? 0 : -1;
  }

 private:
  Side& side_;
};

class Connections : public AceTest, public testing::WithParamInterface<const char*> {
 protected:
  Connections() {
    const bool six = GetParam()[0] == ':';
    ACE_INET_Addr any_port{static_cast<u_short>(0), GetParam(), six ? AF_INET6 : AF_INET};
    EXPECT_EQ(0, host_.open(any_port, 0, true, 16, 1, ace(), true, 1, 1));
    EXPECT_EQ(0, guest_.open(true, ace(), true));
    sockaddr_storage address{};
    socklen_t size = sizeof(address);
    EXPECT_EQ(0, ::getsockname(host_.get_handle(), reinterpret_cast<sockaddr*>(&address), &size));
    where_.set(reinterpret_cast<sockaddr_in*>(&address), static_cast<int>(size));
  }
  ~Connections() override {
    // The acceptor frees the message block of each accept that completes, and no others.
    host_.cancel();
    implementation().close();
  }

  Side server_;
  Side client_;
  Host host_{server_};
  Guest guest_{client_};
  ACE_INET_Addr where_;
};

TEST_P(Connections, BothSidesLearnBothAddresses) {
  ASSERT_EQ(0, guest_.connect(where_));
  ASSERT_TRUE(drive([&] { return server_.opened == 1 && client_.opened == 1; }));
  ASSERT_EQ(1U, server_.validated.size());
  ASSERT_EQ(1U, client_.validated.size());
  const auto& [remote, local] = client_.validated.front();
  EXPECT_EQ(where_, remote);
  EXPECT_EQ(remote, server_.validated.front().second);
  EXPECT_EQ(local, server_.validated.front().first);
  EXPECT_EQ(client_.validated, client_.passed);
  EXPECT_EQ(server_.validated, server_.passed);
}

TEST_P(Connections, RefusedOnesAreClosedAndTheNextIsAccepted) {
  server_.accepts = client_.accepts = false;
  std::size_t before = 0;  // from the first on: an engine may open something of its own for that
  for (std::size_t round = 1; round <= 3; ++round) {
    ASSERT_EQ(0, guest_.connect(where_));
    ASSERT_TRUE(drive(
        [&] { return server_.validated.size() == round && client_.validated.size() == round; }));
    if (round == 1) before = open_descriptors();
    EXPECT_EQ(before, open_descriptors());
  }
  EXPECT_EQ(0, server_.opened + client_.opened);
  server_.accepts = client_.accepts = true;
  ASSERT_EQ(0, guest_.connect(where_));
  ASSERT_TRUE(drive([&] { return server_.opened == 1 && client_.opened == 1; }));
}

INSTANTIATE_TEST_SUITE_P(Families, Connections, testing::Values("127.0.0.1", "::1"),
                         [](const auto& one) {
                           return std::string(one.param[0] == ':' ? "IPv6" : "IPv4");
                         });

/// One accept, by an operation that its owner destroys before the end.
class OneAccept final : public ACE_Handler {
 public:
  OneAccept(int listener, ACE_Proactor* ace) {
    EXPECT_EQ(0, accept->open(*this, listener, nullptr, ace));
    EXPECT_EQ(0, accept->accept(block_, 0));
  }
  void handle_accept(const ACE_Asynch_Accept::Result& result) override {
    ++(result.success() ? accepted : failed);
    if (result.success()) ::close(result.accept_handle());
  }
  std::unique_ptr<ACE_Asynch_Accept> accept = std::make_unique<ACE_Asynch_Accept>();
  int accepted = 0;
  int failed = 0;

 private:
  ACE_Message_Block block_{200};
};

class Listeners : public AceTest {};

// In per_thread mode the accept is in the lane's mailbox when its listener is closed.
TEST_F(Listeners, AnAcceptTakesNoConnectionOfTheNextOneWithItsNumber) {
  ACE_INET_Addr where;
  OneAccept first{listen_on_loopback(where), ace()};
  first.accept.reset();
  OneAccept second{listen_on_loopback(where), ace()};
  const int client = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(0, ::connect(client, static_cast<const sockaddr*>(where.get_addr()),
                         static_cast<socklen_t>(where.get_size())));
  EXPECT_TRUE(drive([&] { return first.failed + first.accepted == 1 && second.accepted == 1; }));
  EXPECT_EQ(1, first.failed);
  ::close(client);
}

/// The outcome of one accept or connect.
class OneEnd final : public ACE_Handler {
 public:
  void handle_accept(const ACE_Asynch_Accept::Result& result) override {
    handle = result.accept_handle();
    take(result);
  }
  void handle_connect(const ACE_Asynch_Connect::Result& result) override {
    handle = result.connect_handle();
    take(result);
  }
  bool ended = false;
  ACE_HANDLE handle = ACE_INVALID_HANDLE;
  u_long error = 0;
  const void* act = nullptr;
  int priority = 0;
  int signal_number = 0;

 private:
  void take(const ACE_Asynch_Result& result) {
    ended = true;
    error = result.error();
    act = result.act();
    priority = result.priority();
    signal_number = result.signal_number();
  }
};

class Connectors : public AceTest {};

TEST_F(Connectors, AConnectThatFailsAtOnceLeavesTheProgramsSocketOpen) {
  OneEnd one;
  ACE_Asynch_Connect connect;
  ASSERT_EQ(0, connect.open(one, ACE_INVALID_HANDLE, nullptr, ace()));
  const ACE_INET_Addr where{static_cast<u_short>(1), INADDR_LOOPBACK};
  const ACE_INET_Addr foreign{static_cast<u_short>(1), "192.0.2.1"};  // not an address of ours
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(0, connect.connect(socket, where, foreign, 1));
  ASSERT_TRUE(drive([&] { return one.ended; }));
  EXPECT_EQ(static_cast<u_long>(EADDRNOTAVAIL), one.error);
  EXPECT_EQ(socket, one.handle);
  EXPECT_EQ(0, ::close(socket));
}

TEST_F(Connectors, ResultsOfBothSidesCarryTheGivenArguments) {
  OneEnd host;
  OneEnd guest;
  ACE_INET_Addr where;
  ACE_Message_Block block(200);
  ACE_Asynch_Accept accept;
  ACE_Asynch_Connect connect;
  ASSERT_EQ(0, accept.open(host, listen_on_loopback(where), nullptr, ace()));
  ASSERT_EQ(0, accept.accept(block, 0, ACE_INVALID_HANDLE, &host, 3, SIGRTMIN + 2));
  ASSERT_EQ(0, connect.open(guest, ACE_INVALID_HANDLE, nullptr, ace()));
  ASSERT_EQ(
      0, connect.connect(ACE_INVALID_HANDLE, where, ACE_Addr::sap_any, 1, &guest, 4, SIGRTMIN + 3));
  ASSERT_TRUE(drive([&] { return host.ended && guest.ended; }));
  EXPECT_EQ(&host, host.act);
  EXPECT_EQ(3, host.priority);
  EXPECT_EQ(SIGRTMIN + 2, host.signal_number);
  EXPECT_EQ(&guest, guest.act);
  EXPECT_EQ(4, guest.priority);
  EXPECT_EQ(SIGRTMIN + 3, guest.signal_number);
  EXPECT_NE(0, ::fcntl(guest.handle, F_GETFL) & O_NONBLOCK);  // as ACE's own leaves it
  ::close(host.handle);
  ::close(guest.handle);
}

// -- a proactor in a reactor's loop ---------------------------------------------------------------

/// Handles the proactor's events whenever the reactor says that there may be some.
class InReactor final : public ACE_Event_Handler {
 public:
  explicit InReactor(ACE_Proactor& proactor) : proactor_(proactor) {}
  ACE_HANDLE get_handle() const override { return proactor_.get_handle(); }
  int handle_input(ACE_HANDLE) override {
    for (;;) {
      ACE_Time_Value none{0, 0};
      const int answer = proactor_.handle_events(none);
      if (answer != 1) return answer;
    }
  }

 private:
  ACE_Proactor& proactor_;
};

/// Reads one byte after the other.
class ByteReader final : public ACE_Handler {
 public:
  void read() {
    block_.reset();
    EXPECT_EQ(0, stream.read(block_, 1));
  }
  void handle_read_stream(const ACE_Asynch_Read_Stream::Result& result) override {
    if (!result.success() || result.bytes_transferred() != 1) return;
    text.push_back(*block_.rd_ptr());
    read();
  }
  std::string text;
  ACE_Asynch_Read_Stream stream;

 private:
  ACE_Message_Block block_{10};
};

class InsideReactor : public AceTest, public testing::WithParamInterface<bool> {};

TEST_P(InsideReactor, CompletionsComeByTheReactorsLoop) {
  const ProcessorConfig& processor = bridge().native().config().processors.front();
  if (processor.mode == Mode::dedicated || processor.wait == "poll" ||
      bridge().native().lanes() > 1) {
    // A reactor has nothing to wait for here, and the proactor says so.
    EXPECT_EQ(ACE_INVALID_HANDLE, ace()->get_handle());
    return;
  }
  ACE_Reactor_Impl* implementation = nullptr;
  if (GetParam()) {
    implementation = new ACE_Dev_Poll_Reactor;
  } else {
    implementation = new ACE_Select_Reactor;
  }
  ACE_Reactor reactor{implementation, true};
  reactor.restart(true);  // io_uring interrupts its wait
  InReactor in_reactor{*ace()};
  ASSERT_NE(ACE_INVALID_HANDLE, in_reactor.get_handle());
  ASSERT_EQ(0, reactor.register_handler(&in_reactor, ACE_Event_Handler::READ_MASK));
  const SocketPair pair;
  ByteReader reader;
  ASSERT_EQ(0, reader.stream.open(reader, pair.first, nullptr, ace()));
  reader.read();
  ASSERT_EQ(0, in_reactor.handle_input(ACE_INVALID_HANDLE));  // started outside of it
  std::string sent;
  for (int i = 0; i < 50; ++i) sent.push_back(static_cast<char>('A' + i % 26));
  Count wanted;
  // Another thread, so that most completions find the reactor asleep.
  const std::jthread writer{[&] {
    for (std::size_t i = 0; i < sent.size(); ++i) {
      EXPECT_TRUE(wanted.reaches(static_cast<long>(i + 1)));
      EXPECT_EQ(1, ::write(pair.second, &sent[i], 1));
    }
  }};
  for (std::size_t i = 1; i <= sent.size(); ++i) {
    wanted.add();
    while (reader.text.size() < i) {
      ACE_Time_Value wait{patience.count()};
      ASSERT_GT(reactor.handle_events(wait), 0);
    }
  }
  EXPECT_EQ(sent, reader.text);
  reactor.remove_handler(&in_reactor, ACE_Event_Handler::READ_MASK | ACE_Event_Handler::DONT_CALL);
  bridge().close();
}

INSTANTIATE_TEST_SUITE_P(Reactors, InsideReactor, testing::Values(false, true),
                         [](const auto& one) { return one.param ? "DevPoll" : "Select"; });

}  // namespace
}  // namespace baton::ace::test
