// Descriptors whose blocking mode changes between two operations: by fcntl, or because the same
// FIFO is opened anew under the same number. They never block the event loop.
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "support.hpp"

namespace baton::ace::test {
namespace {

/// Counts its operations and their bytes.
class Transferred final : public ACE_Handler {
 public:
  void handle_read_stream(const ACE_Asynch_Read_Stream::Result& result) override { took(result); }
  void handle_write_stream(const ACE_Asynch_Write_Stream::Result& result) override { took(result); }
  void handle_accept(const ACE_Asynch_Accept::Result& result) override {
    if (result.success() != 0) ::close(result.accept_handle());
    count.add();
  }
  Count count;
  std::atomic<std::size_t> bytes{0};

 private:
  void took(const ACE_Asynch_Result& result) {
    bytes += result.bytes_transferred();
    count.add();
  }
};

class Modes : public AceTest {
 protected:
  /// The event loop goes on.
  void expect_that_nothing_waits() {
    Count posted;
    ASSERT_EQ(
        0, implementation().post_completion(new PostedCall(transferred_, [&] { posted.add(); })));
    EXPECT_TRUE(posted.reaches(1));
  }
  Transferred transferred_;
};

class Pipes : public Modes {
 protected:
  /// More than a pipe holds.
  static constexpr std::size_t many = 200'000;

  Pipes() {
    EXPECT_NE(nullptr, ::mkdtemp(folder_.data()));
    fifo_ = folder_ + "/fifo";
    EXPECT_EQ(0, ::mkfifo(fifo_.c_str(), 0600));
    other_end_ = ::open(fifo_.c_str(), O_RDWR | O_CLOEXEC);
  }
  ~Pipes() override {
    end();
    destroy();
    ::close(number_);
    ::close(other_end_);
    std::filesystem::remove_all(folder_);
  }
  /// The number names the FIFO.
  void open_fifo(int flags) {
    const int fresh = ::open(fifo_.c_str(), flags | O_CLOEXEC);
    ASSERT_GE(fresh, 0);
    ASSERT_EQ(number_, ::dup2(fresh, number_));
    ::close(fresh);
  }
  void write_some() {
    ACE_Asynch_Write_Stream writer;
    ASSERT_EQ(0, writer.open(transferred_, number_, nullptr, ace()));
    ACE_Message_Block block(1);
    block.copy("x", 1);
    ASSERT_EQ(0, writer.write(block, 1));
    ASSERT_TRUE(transferred_.count.reaches(1));
    char got = 0;
    ASSERT_EQ(1, ::read(other_end_, &got, 1));
  }
  void write_many() {
    ACE_Asynch_Write_Stream writer;
    ASSERT_EQ(0, writer.open(transferred_, number_, nullptr, ace()));
    ACE_Message_Block block(many);
    block.wr_ptr(many);
    Count started;
    std::thread starter{[&] {
      EXPECT_EQ(0, writer.write(block, many));
      started.add();
    }};
    // Neither the start nor the event loop waits for a byte to be read.
    EXPECT_TRUE(started.reaches(1));
    expect_that_nothing_waits();
    std::vector<char> got(many);
    for (std::size_t all = 0; all < many;) {
      const ssize_t now = ::read(other_end_, got.data(), many - all);
      ASSERT_GT(now, 0);
      all += static_cast<std::size_t>(now);
    }
    starter.join();
    EXPECT_TRUE(transferred_.count.reaches(2));
    EXPECT_EQ(1 + many, transferred_.bytes);
  }

  const int number_ = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  std::string folder_ = std::filesystem::temp_directory_path() / "baton-ace-XXXXXX";
  std::string fifo_;
  int other_end_ = -1;
};

TEST_F(Pipes, AFifoIsOpenedAnewInBlockingMode) {
  run(1);
  open_fifo(O_WRONLY | O_NONBLOCK);
  write_some();
  open_fifo(O_WRONLY);
  write_many();
}

TEST_F(Pipes, AFifoIsOpenedAnewForTheOtherDirection) {
  run(1);
  open_fifo(O_RDONLY | O_NONBLOCK);
  ASSERT_EQ(1, ::write(other_end_, "x", 1));
  ACE_Asynch_Read_Stream reader;
  ACE_Message_Block block(10);
  ASSERT_EQ(0, reader.open(transferred_, number_, nullptr, ace()));
  ASSERT_EQ(0, reader.read(block, 10));
  ASSERT_TRUE(transferred_.count.reaches(1));
  open_fifo(O_WRONLY);
  write_many();
}

// The inode is the same, but no longer the file that the engine watches.
TEST_F(Pipes, AFifoIsOpenedAnewWhileAReadIsPending) {
  run(1);
  Transferred later;
  ACE_Asynch_Read_Stream readers[2];
  ACE_Message_Block blocks[2]{ACE_Message_Block{10}, ACE_Message_Block{10}};
  open_fifo(O_RDONLY);
  ASSERT_EQ(0, readers[0].open(transferred_, number_, nullptr, ace()));
  ASSERT_EQ(0, readers[0].read(blocks[0], 10));
  open_fifo(O_RDONLY);
  ASSERT_EQ(0, readers[1].open(later, number_, nullptr, ace()));
  ASSERT_EQ(0, readers[1].read(blocks[1], 10));
  ASSERT_TRUE(transferred_.count.reaches(1));
  EXPECT_EQ(0U, transferred_.bytes);
  ASSERT_EQ(1, ::write(other_end_, "x", 1));
  ASSERT_TRUE(later.count.reaches(1));
  EXPECT_EQ(1U, later.bytes);
  end();
}

TEST_F(Pipes, AreMadeBlockingBetweenTwoWrites) {
  run(1);
  open_fifo(O_WRONLY | O_NONBLOCK);
  write_some();
  ASSERT_EQ(0, ::fcntl(number_, F_SETFL, 0));
  write_many();
}

TEST_F(Modes, AListenerIsMadeBlockingBetweenTwoAccepts) {
  run(1);
  ACE_INET_Addr where;
  const int listener = listen_on_loopback(where);
  ASSERT_EQ(0, ::fcntl(listener, F_SETFL, O_NONBLOCK));
  std::vector<int> clients;
  const auto call = [&] {
    clients.push_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(0, ::connect(clients.back(), static_cast<const sockaddr*>(where.get_addr()),
                           static_cast<socklen_t>(where.get_size())));
  };
  ACE_Asynch_Accept accept;
  ACE_Message_Block blocks[3]{ACE_Message_Block{300}, ACE_Message_Block{300},
                              ACE_Message_Block{300}};
  ASSERT_EQ(0, accept.open(transferred_, listener, nullptr, ace()));
  ASSERT_EQ(0, accept.accept(blocks[0], 0));
  call();
  ASSERT_TRUE(transferred_.count.reaches(1));
  ASSERT_EQ(0, ::fcntl(listener, F_SETFL, 0));
  // One connection for two accepts: the second one waits.
  for (const int i : {1, 2}) ASSERT_EQ(0, accept.accept(blocks[i], 0));
  call();
  EXPECT_TRUE(transferred_.count.reaches(2));
  expect_that_nothing_waits();
  call();
  EXPECT_TRUE(transferred_.count.reaches(3));
  for (const int each : clients) ::close(each);
  end();
}

}  // namespace
}  // namespace baton::ace::test
