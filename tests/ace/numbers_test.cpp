// A descriptor's number that is closed, and used again for another file, while the bridge or a lane
// still has operations of the earlier file: they take nothing from the later one.
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "os/system.hpp"
#include "support.hpp"

namespace baton::ace::test {
namespace {

/// Counts how its operations end.
class Endings : public ACE_Service_Handler {
 public:
  std::atomic<int> succeeded{0};
  std::atomic<int> cancelled{0};
  std::atomic<int> failed{0};

  [[nodiscard]] int all() const { return succeeded + cancelled + failed; }
  void handle_read_stream(const ACE_Asynch_Read_Stream::Result& result) override { count(result); }
  void handle_write_stream(const ACE_Asynch_Write_Stream::Result& result) override {
    count(result);
  }
  void handle_connect(const ACE_Asynch_Connect::Result& result) override { count(result); }

 private:
  void count(const ACE_Asynch_Result& result) {
    if (result.success()) {
      ++succeeded;
    } else {
      ++(result.error() == ECANCELED ? cancelled : failed);
    }
  }
};

/// The number of a socket pair's first end, and the files that it names one after the other.
class Numbers : public AceTest {
 protected:
  using AceTest::AceTest;
  /// The number names another socket now. Its other end has something to read.
  void use_again() {
    SocketPair fresh;
    ASSERT_EQ(1, ::write(fresh.second, "x", 1));
    ASSERT_EQ(number_, ::dup2(fresh.first, number_));
    peers_.push_back(std::exchange(fresh.second, -1));
  }
  static int listening_socket() {
    const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(0, ::listen(listener, 1));
    return listener;
  }
  static int connected(const ACE_INET_Addr& where) {
    const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(0, ::connect(socket, static_cast<const sockaddr*>(where.get_addr()),
                           static_cast<socklen_t>(where.get_size())));
    return socket;
  }
  ~Numbers() override {
    destroy();
    for (const int each : peers_) ::close(each);
  }

  const SocketPair pair_;
  const int number_ = pair_.first;
  std::vector<int> peers_;
};

// The second file's read waits until the engine has forgotten the first file. By then the number
// names the third.
TEST_F(Numbers, AreUsedTwiceAgainBeforeTheFirstIsForgotten) {
  Endings counters[3];
  ACE_Asynch_Read_Stream readers[3];
  ACE_Message_Block blocks[3]{ACE_Message_Block{10}, ACE_Message_Block{10}, ACE_Message_Block{10}};
  for (int i = 0; i < 3; ++i) {
    if (i > 0) use_again();
    ASSERT_EQ(0, readers[i].open(counters[i], number_, nullptr, ace()));
    ASSERT_EQ(0, readers[i].read(blocks[i], 10));
  }
  ASSERT_TRUE(
      drive([&] { return counters[0].all() + counters[1].all() + counters[2].all() == 3; }));
  // poll and select wait for a number: the first read may find what the second file has.
  const char* const settings = std::getenv("BATON");
  const bool by_number = settings != nullptr && std::strstr(settings, "wait=poll") != nullptr;
  EXPECT_EQ(1, by_number ? counters[0].all() : counters[0].cancelled.load());
  EXPECT_EQ(1, counters[1].cancelled);
  EXPECT_EQ(1, counters[2].succeeded);
  EXPECT_EQ(1U, blocks[2].length());
}

/// Each operation waits for the end of the first file, is closed without a cancel, and the number
/// names the third file when the event loop runs.
class NumbersThatWait : public Numbers {
 protected:
  NumbersThatWait() {
    ACE_Asynch_Read_Stream reader;
    ACE_Message_Block block(10);
    EXPECT_EQ(0, reader.open(first_, number_, nullptr, ace()));
    EXPECT_EQ(0, reader.read(block, 10));
    EXPECT_EQ(1, ::write(pair_.second, "x", 1));
    EXPECT_TRUE(drive([&] { return first_.all() == 1; }));
    SocketPair second;
    EXPECT_EQ(number_, ::dup2(second.first, number_));
    peers_.push_back(std::exchange(second.second, -1));
  }
  void expect_that_the_third_file_is_read() {
    Endings third;
    ACE_Asynch_Read_Stream reader;
    ACE_Message_Block block(10);
    ASSERT_EQ(0, reader.open(third, number_, nullptr, ace()));
    ASSERT_EQ(0, reader.read(block, 10));
    ASSERT_TRUE(drive([&] { return third.all() == 1; }));
    EXPECT_EQ(1, third.succeeded);
    EXPECT_EQ(1U, block.length());
  }

  Endings first_;
  Endings second_;
  ACE_Message_Block block_{10};
};

TEST_F(NumbersThatWait, ReadNothingFromTheThirdFile) {
  ACE_Asynch_Read_Stream reader;
  ASSERT_EQ(0, reader.open(second_, number_, nullptr, ace()));
  ASSERT_EQ(0, reader.read(block_, 10));
  use_again();
  ASSERT_TRUE(drive([&] { return second_.all() == 1; }));
  EXPECT_EQ(1, second_.cancelled);
  expect_that_the_third_file_is_read();
}

TEST_F(NumbersThatWait, WriteNothingToTheThirdFile) {
  ACE_Asynch_Write_Stream writer;
  ASSERT_EQ(0, block_.copy("secret", 6));
  ASSERT_EQ(0, writer.open(second_, number_, nullptr, ace()));
  ASSERT_EQ(0, writer.write(block_, 6));
  use_again();
  ASSERT_TRUE(drive([&] { return second_.all() == 1; }));
  EXPECT_EQ(1, second_.cancelled);
  char byte = 0;
  EXPECT_EQ(-1, ::recv(peers_.back(), &byte, 1, MSG_DONTWAIT));
  expect_that_the_third_file_is_read();
}

// The program uses the number for the third file without opening an operation for it.
TEST_F(NumbersThatWait, StartForTheThirdFileInItsOrder) {
  ACE_Asynch_Read_Stream reader;
  ACE_Message_Block block(10);
  ASSERT_EQ(0, reader.open(second_, number_, nullptr, ace()));
  ASSERT_EQ(0, reader.read(block_, 10));
  use_again();
  ASSERT_EQ(0, reader.read(block, 10));
  ASSERT_TRUE(drive([&] { return second_.all() == 2; }));
  EXPECT_EQ(1, second_.cancelled);
  EXPECT_EQ(1, second_.succeeded);
  EXPECT_EQ(0U, block_.length());
  EXPECT_EQ(1U, block.length());
}

// The accept object of a listener that the program has closed leaves the next file alone.
TEST_F(Numbers, OfAListenerAreUsedAgain) {
  const int listener = listening_socket();
  Endings accepts;
  Endings reads;
  auto accept = std::make_unique<ACE_Asynch_Accept>();
  ASSERT_EQ(0, accept->open(accepts, listener, nullptr, ace()));
  ::close(listener);
  ASSERT_EQ(listener, ::dup2(number_, listener));
  ACE_Asynch_Read_Stream reader;
  ACE_Message_Block block(10);
  ASSERT_EQ(0, reader.open(reads, listener, nullptr, ace()));
  ASSERT_EQ(0, reader.read(block, 10));
  accept.reset();
  ASSERT_EQ(1, ::write(pair_.second, "o", 1));
  ASSERT_TRUE(drive([&] { return reads.all() == 1; }));
  EXPECT_EQ(1, reads.succeeded);
  ::close(listener);
}

// The connect object of a socket that the program has closed leaves the next file alone.
TEST_F(Numbers, OfAConnectAreUsedAgain) {
  ACE_INET_Addr where;
  const int listener = listen_on_loopback(where);
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  Endings connects;
  Endings reads;
  auto connect = std::make_unique<ACE_Asynch_Connect>();
  ASSERT_EQ(0, connect->open(connects, ACE_INVALID_HANDLE, nullptr, ace()));
  ASSERT_EQ(0, connect->connect(socket, where, ACE_Addr::sap_any, 1));
  ::close(socket);
  ASSERT_EQ(socket, ::dup2(number_, socket));
  ACE_Asynch_Read_Stream reader;
  ACE_Message_Block block(10);
  ASSERT_EQ(0, reader.open(reads, socket, nullptr, ace()));
  ASSERT_EQ(0, reader.read(block, 10));
  connect.reset();
  ASSERT_EQ(1, ::write(pair_.second, "o", 1));
  ASSERT_TRUE(drive([&] { return reads.all() == 1; }));
  EXPECT_EQ(1, reads.succeeded);
  ::close(listener);
  ::close(socket);
}

// The end of the earlier connect does not make the object forget the later one with its number.
TEST_F(Numbers, OfAConnectAreUsedAgainByItsObject) {
  ACE_INET_Addr where;
  const int listener = listen_on_loopback(where);
  ASSERT_EQ(0, ::listen(listener, 0));
  const int waiting = connected(where);  // nobody accepts, so that later connects stay pending
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int next = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  Endings connects;
  ACE_Asynch_Connect connect;
  ASSERT_EQ(0, connect.open(connects, ACE_INVALID_HANDLE, nullptr, ace()));
  ASSERT_EQ(0, connect.connect(socket, where, ACE_Addr::sap_any, 1));
  ASSERT_EQ(socket, ::dup2(next, socket));
  ASSERT_EQ(0, connect.connect(socket, where, ACE_Addr::sap_any, 1));
  ASSERT_TRUE(drive([&] { return connects.all() == 1; }));
  EXPECT_EQ(0, connect.cancel());
  ASSERT_TRUE(drive([&] { return connects.all() == 2; }));
  EXPECT_EQ(2, connects.cancelled);
  for (const int each : {listener, waiting, socket, next}) ::close(each);
}

// A listener gets a number whose earlier read has yet to be delivered.
TEST_F(Numbers, AreUsedAgainByAListener) {
  Endings reads;
  Endings accepts;
  ACE_Asynch_Read_Stream reader;
  ACE_Message_Block block(10);
  ASSERT_EQ(0, reader.open(reads, number_, nullptr, ace()));
  ASSERT_EQ(0, reader.read(block, 10));
  ASSERT_EQ(0, reader.cancel());
  const int listener = listening_socket();
  ASSERT_EQ(number_, ::dup2(listener, number_));
  ::close(listener);
  ACE_Asynch_Accept accept;
  ACE_Message_Block addresses(300);
  ASSERT_EQ(0, accept.open(accepts, number_, nullptr, ace()));
  EXPECT_EQ(0, accept.accept(addresses, 0)) << std::strerror(errno);
  ASSERT_TRUE(drive([&] { return reads.all() == 1; }));
  EXPECT_EQ(1, reads.cancelled);
}

// No thread has looked at the read when it is cancelled, and the number used again.
TEST_F(Numbers, AreUsedAgainRightAfterACancel) {
  Endings counter;
  ACE_Asynch_Read_Stream reader;
  ACE_Message_Block block(10);
  ASSERT_EQ(0, reader.open(counter, number_, nullptr, ace()));
  ASSERT_EQ(0, reader.read(block, 10));
  ASSERT_EQ(0, reader.cancel());
  use_again();
  ASSERT_TRUE(drive([&] { return counter.all() == 1; }));
  EXPECT_EQ(1, counter.cancelled);
  char taken = 0;
  EXPECT_EQ(1, ::recv(number_, &taken, 1, MSG_DONTWAIT));
}

// The engine may submit what a handler starts when the handler has returned.
class NumbersInAHandler : public Numbers, public testing::WithParamInterface<bool> {};

TEST_P(NumbersInAHandler, AreUsedAgainRightAfterACancel) {
  struct Late final : Endings {
    void handle_read_stream(const ACE_Asynch_Read_Stream::Result& result) override {
      Endings::handle_read_stream(result);
      then();
    }
    std::function<void()> then;
  } first;
  Endings second;
  const SocketPair other;
  ACE_Asynch_Read_Stream begin;
  ACE_Asynch_Read_Stream reader;
  ACE_Message_Block start(10);
  ACE_Message_Block block(10);
  first.then = [&] {
    ASSERT_EQ(0, reader.open(second, number_, nullptr, ace()));
    ASSERT_EQ(0, reader.read(block, 10));
    const auto cancel = [&] {
      ASSERT_EQ(0, reader.cancel());
      use_again();
    };
    GetParam() ? std::thread{cancel}.join() : cancel();
  };
  ASSERT_EQ(0, begin.open(first, other.first, nullptr, ace()));
  ASSERT_EQ(0, begin.read(start, 10));
  ASSERT_EQ(1, ::write(other.second, "x", 1));
  ASSERT_TRUE(drive([&] { return second.all() == 1; }));
  EXPECT_EQ(1, second.cancelled);
  char taken = 0;
  EXPECT_EQ(1, ::recv(number_, &taken, 1, MSG_DONTWAIT));
}
INSTANTIATE_TEST_SUITE_P(Threads, NumbersInAHandler, testing::Bool(), [](const auto& each) {
  return std::string{each.param ? "ByAnotherThread" : "ByItself"};
});

/// Holds a recv until the number names another file.
struct Gate {
  std::atomic<bool> armed{false};
  std::atomic<bool> reached{false};
  std::atomic<bool> opened{false};
} gate;

const os::System& gated_system() {
  static const os::System table = [] {
    os::System made = os::real_system();
    made.recv = [](int fildes, void* buffer, std::size_t size, int flags) {
      if (gate.armed.exchange(false)) {
        gate.reached = true;
        // The cancel waits for this call, so the gate may stay closed.
        for (int i = 0; i < 200 && !gate.opened; ++i) {
          std::this_thread::sleep_for(std::chrono::milliseconds{1});
        }
      }
      return os::real_system().recv(fildes, buffer, size, flags);
    };
    return made;
  }();
  return table;
}

class NumbersThatAreRead : public Numbers {
 protected:
  static Config gated() {
    Config config;
    config.system = &gated_system();
    return config;
  }
  NumbersThatAreRead() : Numbers(gated()) {}
};

// The thread in the event loop knows that there is something to read, and is about to read.
TEST_F(NumbersThatAreRead, AreUsedAgainByAnotherThread) {
  Endings counter;
  ACE_Asynch_Read_Stream reader;
  ACE_Message_Block block(10);
  run();
  gate.reached = gate.opened = false;
  gate.armed = true;
  ASSERT_EQ(0, reader.open(counter, number_, nullptr, ace()));
  ASSERT_EQ(0, reader.read(block, 10));
  ASSERT_EQ(1, ::write(pair_.second, "o", 1));
  while (!gate.reached && counter.all() == 0) std::this_thread::yield();
  EXPECT_NE(-1, reader.cancel());
  use_again();
  gate.opened = true;
  while (counter.all() == 0) std::this_thread::yield();
  char taken = 0;
  EXPECT_EQ(1, ::recv(number_, &taken, 1, MSG_DONTWAIT));
  end();
}

// At any point on the way of a read to the thread that performs it.
TEST_F(Numbers, AreUsedAgainManyTimesByAnotherThread) {
  constexpr int times = 300;
  Endings counter;
  ACE_Message_Block block(10);
  run();
  for (int i = 0; i < times; ++i) {
    ACE_Asynch_Read_Stream reader;
    ASSERT_EQ(0, reader.open(counter, number_, nullptr, ace()));
    ASSERT_EQ(0, reader.read(block, 10));
    for (int turns = 0; turns < i % 100; ++turns) std::this_thread::yield();
    ASSERT_NE(-1, reader.cancel());
    use_again();
    while (counter.all() == i) std::this_thread::yield();
    char taken = 0;
    ASSERT_EQ(1, ::recv(number_, &taken, 1, MSG_DONTWAIT)) << i;
    ::close(std::exchange(peers_.back(), -1));
    peers_.pop_back();
    SocketPair silent;
    ASSERT_EQ(number_, ::dup2(silent.first, number_));
    peers_.push_back(std::exchange(silent.second, -1));
  }
  end();
}

}  // namespace
}  // namespace baton::ace::test
