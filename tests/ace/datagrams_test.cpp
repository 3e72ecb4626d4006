// Datagrams.
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <cstring>

#include "transfers.hpp"

namespace baton::ace::test {
namespace {

class Datagrams : public Transfers {
 protected:
  Datagrams() {
    EXPECT_EQ(0, reader_.open(taker_, here_, nullptr, ace()));
    EXPECT_EQ(0, writer_.open(taker_, there_, nullptr, ace()));
  }
  ~Datagrams() override {
    ::close(here_);
    ::close(there_);
  }

  ACE_INET_Addr here_address_;
  ACE_INET_Addr there_address_;
  const int here_ = bound_to_loopback(SOCK_DGRAM, here_address_);
  const int there_ = bound_to_loopback(SOCK_DGRAM, there_address_);
  ACE_Asynch_Read_Dgram reader_;
  ACE_Asynch_Write_Dgram writer_;
  std::size_t bytes_ = 0;
};

TEST_F(Datagrams, GoToAnAddressAndTellWhereTheyCameFrom) {
  ACE_Message_Block in(100);
  ACE_Message_Block out(100);
  out.copy("hello", 5);
  ASSERT_EQ(0, reader_.recv(&in, bytes_, 0, PF_INET, &act_));
  ASSERT_EQ(0, writer_.send(&out, bytes_, 0, here_address_));
  ASSERT_TRUE(drive([&] { return taker_.read.count == 1 && taker_.written.count == 1; }));
  EXPECT_EQ(5U, taker_.read.bytes);
  EXPECT_EQ(0, std::memcmp(in.rd_ptr(), "hello", 5));
  EXPECT_EQ(there_address_, taker_.sender);
  EXPECT_EQ(&act_, taker_.read.act);
  EXPECT_EQ(0U, out.length());
}

TEST_F(Datagrams, ResultsCarryTheGivenArguments) {
  ACE_Message_Block in(100);
  ACE_Message_Block out(100);
  out.copy("hello", 5);
  ASSERT_EQ(0, reader_.recv(&in, bytes_, 0, PF_INET, &act_, 3, SIGRTMIN + 2));
  ASSERT_EQ(0, writer_.send(&out, bytes_, 0, here_address_, &taker_, 4, SIGRTMIN + 3));
  ASSERT_TRUE(drive([&] { return taker_.read.count == 1 && taker_.written.count == 1; }));
  EXPECT_EQ(&act_, taker_.read.act);
  EXPECT_EQ(3, taker_.read.priority);
  EXPECT_EQ(SIGRTMIN + 2, taker_.read.signal_number);
  EXPECT_EQ(&taker_, taker_.written.act);
  EXPECT_EQ(4, taker_.written.priority);
  EXPECT_EQ(SIGRTMIN + 3, taker_.written.signal_number);
}

TEST_F(Datagrams, ChainsAreOneDatagram) {
  ACE_Message_Block in_first(3);
  ACE_Message_Block in_second(100);
  in_first.cont(&in_second);
  ACE_Message_Block out_first(10);
  ACE_Message_Block out_second(10);
  out_first.copy("abcd", 4);
  out_second.copy("efghi", 5);
  out_first.cont(&out_second);
  ASSERT_EQ(0, reader_.recv(&in_first, bytes_, 0, PF_INET));
  ASSERT_EQ(0, writer_.send(&out_first, bytes_, 0, here_address_));
  ASSERT_TRUE(drive([&] { return taker_.read.count == 1 && taker_.written.count == 1; }));
  EXPECT_EQ(9U, taker_.read.bytes);
  EXPECT_EQ("abc", std::string(in_first.rd_ptr(), in_first.length()));
  EXPECT_EQ("defghi", std::string(in_second.rd_ptr(), in_second.length()));
  EXPECT_EQ(0U, out_first.length());
  EXPECT_EQ(0U, out_second.length());
  in_first.cont(nullptr);
  out_first.cont(nullptr);
}

TEST_F(Datagrams, ChainsMayBeginWithAnEmptyBlock) {
  ACE_Message_Block in(100);
  ACE_Message_Block nothing(10);
  ACE_Message_Block out(10);
  out.copy("hello", 5);
  nothing.cont(&out);
  ASSERT_EQ(0, reader_.recv(&in, bytes_, 0, PF_INET));
  ASSERT_EQ(0, writer_.send(&nothing, bytes_, 0, here_address_)) << std::strerror(errno);
  ASSERT_TRUE(drive([&] { return taker_.read.count == 1 && taker_.written.count == 1; }));
  EXPECT_EQ(5U, taker_.written.bytes);
  EXPECT_EQ("hello", std::string(in.rd_ptr(), in.length()));
  EXPECT_EQ(0U, nothing.length());
  EXPECT_EQ(0U, out.length());
  nothing.cont(nullptr);
}

TEST_F(Datagrams, BothWaysAtOnce) {
  ACE_Asynch_Read_Dgram back;
  ACE_Asynch_Write_Dgram forth;
  ASSERT_EQ(0, back.open(taker_, there_, nullptr, ace()));
  ASSERT_EQ(0, forth.open(taker_, here_, nullptr, ace()));
  constexpr int rounds = 50;
  for (int i = 1; i <= rounds; ++i) {
    ACE_Message_Block in(10);
    ACE_Message_Block in_back(10);
    ACE_Message_Block out(10);
    ACE_Message_Block out_back(10);
    out.copy("1", 1);
    out_back.copy("2", 1);
    ASSERT_EQ(0, reader_.recv(&in, bytes_, 0, PF_INET));
    ASSERT_EQ(0, back.recv(&in_back, bytes_, 0, PF_INET));
    ASSERT_EQ(0, writer_.send(&out, bytes_, 0, here_address_));
    ASSERT_EQ(0, forth.send(&out_back, bytes_, 0, there_address_));
    ASSERT_TRUE(drive([&] { return taker_.read.count == 2 * i && taker_.written.count == 2 * i; }));
    EXPECT_EQ('1', *in.rd_ptr());
    EXPECT_EQ('2', *in_back.rd_ptr());
  }
}

// Baton's datagrams have no flags, on any engine. Two flags ask for what is so already.
TEST_F(Datagrams, FlagsThatWouldChangeSomethingAreRefused) {
  ACE_Message_Block in(10);
  ACE_Message_Block out(10);
  out.copy("x", 1);
  for (const int flags : std::vector<int>{MSG_PEEK, MSG_OOB, MSG_TRUNC, MSG_PEEK | MSG_DONTWAIT}) {
    EXPECT_EQ(-1, reader_.recv(&in, bytes_, flags, PF_INET));
    EXPECT_EQ(EOPNOTSUPP, errno);
  }
  for (const int flags : std::vector<int>{MSG_OOB, MSG_CONFIRM, MSG_MORE, MSG_OOB | MSG_NOSIGNAL}) {
    EXPECT_EQ(-1, writer_.send(&out, bytes_, flags, here_address_));
    EXPECT_EQ(EOPNOTSUPP, errno);
  }
  constexpr int harmless = MSG_DONTWAIT | MSG_NOSIGNAL;
  ASSERT_EQ(0, reader_.recv(&in, bytes_, harmless, PF_INET));
  ASSERT_EQ(0, writer_.send(&out, bytes_, harmless, here_address_));
  ASSERT_TRUE(drive([&] { return taker_.read.count == 1 && taker_.written.count == 1; }));
  EXPECT_EQ(1U, in.length());  // what was refused has taken nothing
}

TEST_F(Datagrams, BadInputIsRefusedWithAnError) {
  ACE_Message_Block block(10);
  EXPECT_EQ(-1, writer_.send(&block, bytes_, 0, here_address_));
  EXPECT_EQ(EINVAL, errno);
  block.wr_ptr(block.space());
  EXPECT_EQ(-1, reader_.recv(&block, bytes_, 0, PF_INET));
  EXPECT_EQ(ENOSPC, errno);
}

}  // namespace
}  // namespace baton::ace::test
