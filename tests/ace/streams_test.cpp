// Streams, accept and connect, as a program with many connections uses them.
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <utility>

#include "echo.hpp"

namespace baton::ace::test {
namespace {

struct Scale {
  long clients;
  unsigned threads;
  std::size_t bytes;
};

class Streams : public AceTest, public testing::WithParamInterface<Scale> {};

TEST_P(Streams, EchoInFullDuplexIsRightToTheByte) {
  const auto [clients, threads, bytes] = GetParam();
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, 8'192);
  ::setrlimit(RLIMIT_NOFILE, &limit);

  EchoClient::Totals totals;
  totals.bytes = bytes;
  EchoClient::totals = &totals;
  ACE_INET_Addr where;
  const int probe = listen_on_loopback(where);  // a port that is free
  ::close(probe);
  {
    ACE_Asynch_Acceptor<EchoServer> acceptor;
    ACE_Asynch_Connector<EchoClient> connector;
    ASSERT_EQ(0, acceptor.open(where, 0, false, 1'024, 1, ace(), false, 1, 8));
    ASSERT_EQ(0, connector.open(false, ace()));
    run(threads);
    for (long i = 0; i < clients; ++i) ASSERT_EQ(0, connector.connect(where));
    EXPECT_TRUE(totals.done.reaches(clients));
    end();
    // The acceptor frees the message block of each accept that completes, and no others.
    EXPECT_EQ(0, acceptor.cancel());
    EXPECT_EQ(0, implementation().close());
  }
  destroy();
  EXPECT_EQ(clients, totals.right.load());
}

class ClosedStreams : public AceTest {};

struct CancelledReader : ACE_Handler {
  Count ended;
  void handle_read_stream(const ACE_Asynch_Read_Stream::Result& result) override {
    EXPECT_EQ(ECANCELED, static_cast<int>(result.error()));
    ended.add();
  }
};

/// poll and select keep a file open while they wait. No other event follows that would end the
/// wait.
TEST_F(ClosedStreams, ThePeerSeesTheEndAfterACancel) {
  static_cast<void>(bridge());  // ACE's own has no such waits
  run(2);
  for (int round = 0; round < 20; ++round) {
    SocketPair pair;
    CancelledReader reader;
    ACE_Message_Block block(8);
    ACE_Asynch_Read_Stream read;
    ASSERT_EQ(0, read.open(reader, pair.first, nullptr, ace()));
    ASSERT_EQ(0, read.read(block, 8));
    // The event loop begins to wait: it may do so later, and then there is nothing to see.
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
    EXPECT_EQ(0, read.cancel());
    ASSERT_TRUE(reader.ended.reaches(1));
    ::close(std::exchange(pair.first, -1));
    pollfd peer{.fd = pair.second, .events = POLLIN, .revents = 0};
    const std::chrono::milliseconds longest = patience;
    ASSERT_EQ(1, ::poll(&peer, 1, static_cast<int>(longest.count())));
    char byte = 0;
    EXPECT_EQ(0, ::read(pair.second, &byte, 1));
  }
  end();
}

INSTANTIATE_TEST_SUITE_P(Scales, Streams,
                         testing::Values(Scale{1, 1, 200'000}, Scale{1, 4, 200'000},
                                         Scale{100, 4, 20'000}, Scale{1'000, 2, 4'000}),
                         [](const auto& one) {
                           return std::to_string(one.param.clients) + "clients" +
                                  std::to_string(one.param.threads) + "threads";
                         });

}  // namespace
}  // namespace baton::ace::test
