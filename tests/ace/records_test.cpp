// Sockets of SOCK_SEQPACKET: a stream of records, which has an order, an end and a listener.
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "support.hpp"

namespace baton::ace::test {
namespace {

class Counted final : public ACE_Handler {
 public:
  void handle_read_stream(const ACE_Asynch_Read_Stream::Result& result) override {
    bytes = result.bytes_transferred();
    ++reads;
  }
  void handle_write_stream(const ACE_Asynch_Write_Stream::Result& result) override {
    EXPECT_EQ(0U, result.error());
    ++writes;
  }
  void handle_accept(const ACE_Asynch_Accept::Result& result) override {
    accepted = result.accept_handle();
    ++accepts;
  }
  int reads = 0;
  int writes = 0;
  int accepts = 0;
  int accepted = -1;
  std::size_t bytes = 0;
};

class Records : public AceTest {
 protected:
  Records() {
    int ends[2];
    EXPECT_EQ(0, ::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends));
    ours_ = ends[0];
    peer_ = ends[1];
  }
  ~Records() override {
    ::close(ours_);
    ::close(peer_);
  }
  static std::string record(int number) { return "record " + std::to_string(number); }

  Counted counted_;
  int ours_ = -1;
  int peer_ = -1;
};

TEST_F(Records, AreReadInTheOrderOfTheReads) {
  ACE_Asynch_Read_Stream reader;
  ASSERT_EQ(0, reader.open(counted_, ours_, nullptr, ace()));
  std::vector<std::unique_ptr<ACE_Message_Block>> blocks;
  constexpr int count = 20;
  for (int i = 0; i < count; ++i) {
    blocks.push_back(std::make_unique<ACE_Message_Block>(100));
    ASSERT_EQ(0, reader.read(*blocks.back(), 100));
  }
  for (int i = 0; i < count; ++i) {
    const std::string data = record(i);
    ASSERT_EQ(static_cast<ssize_t>(data.size()), ::send(peer_, data.data(), data.size(), 0));
  }
  ASSERT_TRUE(drive([&] { return counted_.reads == count; }));
  for (int i = 0; i < count; ++i) {
    const ACE_Message_Block& block = *blocks[static_cast<std::size_t>(i)];
    EXPECT_EQ(record(i), std::string(block.rd_ptr(), block.length()));
  }
}

// More than the socket holds.
TEST_F(Records, AreWrittenInTheOrderOfTheWrites) {
  ACE_Asynch_Write_Stream writer;
  ASSERT_EQ(0, writer.open(counted_, ours_, nullptr, ace()));
  std::vector<std::unique_ptr<ACE_Message_Block>> blocks;
  constexpr int count = 500;
  constexpr std::size_t size = 2'000;
  for (int i = 0; i < count; ++i) {
    blocks.push_back(std::make_unique<ACE_Message_Block>(size));
    blocks.back()->copy(record(i).c_str());
    blocks.back()->wr_ptr(size - blocks.back()->length());
    ASSERT_EQ(0, writer.write(*blocks.back(), size));
  }
  int next = 0;
  ASSERT_TRUE(drive([&] {
    char data[size + 1];
    while (::recv(peer_, data, sizeof(data), MSG_DONTWAIT) == static_cast<ssize_t>(size)) {
      EXPECT_EQ(record(next), std::string(data));
      ++next;
    }
    return next == count && counted_.writes == count;
  }));
}

TEST_F(Records, ComeThroughConnectionsThatAreAccepted) {
  const int listener = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  sockaddr_un where{};
  where.sun_family = AF_UNIX;
  auto* const address = reinterpret_cast<sockaddr*>(&where);
  ASSERT_EQ(0, ::bind(listener, address, sizeof(sa_family_t)));  // the system finds a name
  ASSERT_EQ(0, ::listen(listener, 5));
  socklen_t size = sizeof(where);
  ASSERT_EQ(0, ::getsockname(listener, address, &size));
  ACE_Asynch_Accept accept;
  ASSERT_EQ(0, accept.open(counted_, listener, nullptr, ace()));
  ACE_Message_Block addresses(200);
  ASSERT_EQ(0, accept.accept(addresses, 0));
  const int client = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  ASSERT_EQ(0, ::connect(client, address, size));
  ASSERT_TRUE(drive([&] { return counted_.accepts == 1; }));
  ASSERT_NE(ACE_INVALID_HANDLE, counted_.accepted);

  ACE_Asynch_Read_Stream reader;
  ASSERT_EQ(0, reader.open(counted_, counted_.accepted, nullptr, ace()));
  ACE_Message_Block block(100);
  ASSERT_EQ(0, reader.read(block, 100));
  ASSERT_EQ(5, ::send(client, "hello", 5, 0));
  ASSERT_TRUE(drive([&] { return counted_.reads == 1; }));
  EXPECT_EQ(5U, counted_.bytes);
  ::close(client);
  ASSERT_EQ(0, reader.read(block, 95));
  ASSERT_TRUE(drive([&] { return counted_.reads == 2; }));
  EXPECT_EQ(0U, counted_.bytes);
  ::close(counted_.accepted);
}

}  // namespace
}  // namespace baton::ace::test
