// Streams, accept and connect, as a program with many connections uses them.
#include <sys/resource.h>

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

INSTANTIATE_TEST_SUITE_P(Scales, Streams,
                         testing::Values(Scale{1, 1, 200'000}, Scale{1, 4, 200'000},
                                         Scale{100, 4, 20'000}, Scale{1'000, 2, 4'000}),
                         [](const auto& one) {
                           return std::to_string(one.param.clients) + "clients" +
                                  std::to_string(one.param.threads) + "threads";
                         });

}  // namespace
}  // namespace baton::ace::test
