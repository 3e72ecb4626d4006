// Handlers that are deleted while an operation is pending: nobody else closes the sockets of its
// results, and its message blocks may be gone.
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <new>

#include "support.hpp"

namespace baton::ace::test {
namespace {

class DeletedHandlers : public AceTest {
 protected:
  ~DeletedHandlers() override { ::close(listener_); }

  /// The peer of this connection has closed it.
  static bool has_ended(int fildes) {
    pollfd one{fildes, POLLIN, 0};
    const std::chrono::milliseconds limit{patience};
    char byte = 0;
    return ::poll(&one, 1, static_cast<int>(limit.count())) == 1 && ::read(fildes, &byte, 1) == 0;
  }
  /// One completion, of which no handler hears.
  void dispatch_one() {
    ACE_Time_Value wait{patience.count()};
    EXPECT_EQ(1, ace()->handle_events(wait));
  }

  ACE_INET_Addr where_;
  const int listener_ = listen_on_loopback(where_);
  std::unique_ptr<ACE_Handler> handler_ = std::make_unique<ACE_Handler>();
};

TEST_F(DeletedHandlers, AcceptedSocketIsClosed) {
  ACE_Asynch_Accept accept;
  ASSERT_EQ(0, accept.open(*handler_, ::dup(listener_), nullptr, ace()));
  ACE_Message_Block block(200);
  ASSERT_EQ(0, accept.accept(block, 0));
  handler_.reset();
  const int client = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(0, ::connect(client, static_cast<const sockaddr*>(where_.get_addr()),
                         static_cast<socklen_t>(where_.get_size())));
  dispatch_one();
  EXPECT_TRUE(has_ended(client));
  ::close(client);
}

TEST_F(DeletedHandlers, ConnectedSocketIsClosed) {
  ACE_Asynch_Connect connect;
  ASSERT_EQ(0, connect.open(*handler_, ACE_INVALID_HANDLE, nullptr, ace()));
  ASSERT_EQ(0, connect.connect(ACE_INVALID_HANDLE, where_, ACE_Addr::sap_any, 1));
  handler_.reset();
  dispatch_one();
  const int peer = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
  EXPECT_TRUE(has_ended(peer));
  ::close(peer);
}

// The program may look at its block without the handler.
TEST_F(DeletedHandlers, BytesThatArriveAreInTheBlock) {
  const SocketPair pair;
  ACE_Message_Block block(100);
  ACE_Asynch_Read_Stream reader;
  ASSERT_EQ(0, reader.open(*handler_, pair.first, nullptr, ace()));
  ASSERT_EQ(0, reader.read(block, 100));
  handler_.reset();
  ASSERT_EQ(5, ::write(pair.second, "hello", 5));
  dispatch_one();
  EXPECT_EQ("hello", std::string(block.rd_ptr(), block.length()));
}

/// A message block that nothing may touch after its end.
class VanishingBlock {
 public:
  VanishingBlock() {
    EXPECT_NE(MAP_FAILED, page_);
    block_ = ::new (page_) ACE_Message_Block(200);
  }
  ~VanishingBlock() { ::munmap(page_, size); }
  VanishingBlock(const VanishingBlock&) = delete;
  VanishingBlock& operator=(const VanishingBlock&) = delete;

  ACE_Message_Block& operator*() { return *block_; }
  void vanish() {
    block_->~ACE_Message_Block();
    EXPECT_EQ(0, ::mprotect(page_, size, PROT_NONE));
  }

 private:
  static constexpr std::size_t size = 4'096;
  void* const page_ =
      ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ACE_Message_Block* block_ = nullptr;
};

// A cancelled operation has transferred nothing, so its block is left alone.
TEST_F(DeletedHandlers, BlocksMayBeGoneWhenACancelledReadEnds) {
  const SocketPair pair;
  VanishingBlock block;
  ACE_Asynch_Read_Stream reader;
  ASSERT_EQ(0, reader.open(*handler_, pair.first, nullptr, ace()));
  ASSERT_EQ(0, reader.read(*block, 100));
  EXPECT_EQ(0, reader.cancel());
  handler_.reset();
  block.vanish();
  dispatch_one();
}

TEST_F(DeletedHandlers, BlocksMayBeGoneWhenACancelledAcceptEnds) {
  VanishingBlock block;
  ACE_Asynch_Accept accept;
  ASSERT_EQ(0, accept.open(*handler_, ::dup(listener_), nullptr, ace()));
  ASSERT_EQ(0, accept.accept(*block, 0));
  EXPECT_EQ(0, accept.cancel());
  handler_.reset();
  block.vanish();
  dispatch_one();
}

TEST_F(DeletedHandlers, BlocksMayBeGoneWhenACancelledDatagramEnds) {
  const int socket = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  VanishingBlock block;
  ACE_Asynch_Read_Dgram reader;
  ASSERT_EQ(0, reader.open(*handler_, socket, nullptr, ace()));
  std::size_t bytes = 0;
  ASSERT_EQ(0, reader.recv(&*block, bytes, 0, PF_INET));
  EXPECT_EQ(0, reader.cancel());
  handler_.reset();
  block.vanish();
  dispatch_one();
  ::close(socket);
}

TEST_F(DeletedHandlers, BlocksMayBeGoneWhenADatagramThatWaitsForRoomEnds) {
  int both[2];
  ASSERT_EQ(0, ::socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, both));
  while (::send(both[0], "full", 4, MSG_DONTWAIT) == 4) continue;
  VanishingBlock block;
  ASSERT_EQ(0, (*block).copy("x", 1));
  ACE_Asynch_Write_Dgram writer;
  ASSERT_EQ(0, writer.open(*handler_, both[0], nullptr, ace()));
  std::size_t bytes = 0;
  ASSERT_EQ(0, writer.send(&*block, bytes, 0, ACE_Addr::sap_any));
  EXPECT_EQ(0, writer.cancel());
  handler_.reset();
  block.vanish();
  dispatch_one();
  for (const int each : both) ::close(each);
}

// A read of a file waits only if the file is none.
TEST_F(DeletedHandlers, BlocksMayBeGoneWhenAReadOfAPipeEnds) {
  int both[2];
  ASSERT_EQ(0, ::pipe2(both, O_CLOEXEC));
  VanishingBlock block;
  ACE_Asynch_Read_File reader;
  ASSERT_EQ(0, reader.open(*handler_, both[0], nullptr, ace()));
  ASSERT_EQ(0, reader.read(*block, 100, 0, 0));
  EXPECT_EQ(0, reader.cancel());
  handler_.reset();
  block.vanish();
  dispatch_one();
  for (const int each : both) ::close(each);
}

}  // namespace
}  // namespace baton::ace::test
