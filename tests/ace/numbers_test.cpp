// A descriptor's number that is closed, and used again for another file, while the bridge or a lane
// still has operations of the earlier file: they take nothing from the later one.
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

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
  /// The number names another socket now, which has this to read.
  void use_again(std::string_view text = "x") {
    SocketPair fresh;
    ASSERT_EQ(static_cast<ssize_t>(text.size()), ::write(fresh.second, text.data(), text.size()));
    if (fresh.first == number_) {
      fresh.first = -1;  // the number was closed, and is the lowest that is free
    } else {
      ASSERT_EQ(number_, ::dup2(fresh.first, number_));
    }
    peers_.push_back(std::exchange(fresh.second, -1));
  }
  /// poll and select wait for a number: an earlier operation may find what the next file has.
  static bool waits_by_number() { return is_set("wait=poll") || is_set("wait=select"); }
  static bool is_set(std::string_view what) {
    const std::string_view settings = std::getenv("BATON") != nullptr ? std::getenv("BATON") : "";
    return settings.find(what) != settings.npos;
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
  EXPECT_EQ(1, waits_by_number() ? counters[0].all() : counters[0].cancelled.load());
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
  const int answer = connect.cancel();
  ASSERT_TRUE(drive([&] { return connects.all() == 2; }));
  if (!waits_by_number()) {  // else the first may try to connect the second's socket
    EXPECT_EQ(0, answer);
    EXPECT_EQ(2, connects.cancelled);
  }
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
class NumbersInAHandler : public Numbers, public testing::WithParamInterface<bool> {
 protected:
  /// Does this in a handler, and waits until each of these has ended.
  void in_a_handler(const std::function<void()>& action, std::initializer_list<Endings*> ends) {
    struct Late final : Endings {
      void handle_read_stream(const ACE_Asynch_Read_Stream::Result& result) override {
        Endings::handle_read_stream(result);
        then();
      }
      std::function<void()> then;
    } first;
    const SocketPair other;
    ACE_Asynch_Read_Stream begin;
    ACE_Message_Block start(10);
    first.then = action;
    ASSERT_EQ(0, begin.open(first, other.first, nullptr, ace()));
    ASSERT_EQ(0, begin.read(start, 10));
    ASSERT_EQ(1, ::write(other.second, "x", 1));
    for (Endings* each : ends) ASSERT_TRUE(drive([&] { return each->all() == 1; }));
  }
};

TEST_P(NumbersInAHandler, AreUsedAgainRightAfterACancel) {
  Endings second;
  ACE_Asynch_Read_Stream reader;
  ACE_Message_Block block(10);
  in_a_handler(
      [&] {
        ASSERT_EQ(0, reader.open(second, number_, nullptr, ace()));
        ASSERT_EQ(0, reader.read(block, 10));
        const auto cancel = [&] {
          ASSERT_EQ(0, reader.cancel());
          use_again();
        };
        GetParam() ? std::thread{cancel}.join() : cancel();
      },
      {&second});
  EXPECT_EQ(1, second.cancelled);
  char taken = 0;
  EXPECT_EQ(1, ::recv(number_, &taken, 1, MSG_DONTWAIT));
}

// Without a cancel, they end when an operation is opened for the next file.
TEST_P(NumbersInAHandler, AreUsedAgainWithoutACancel) {
  Endings old;
  Endings fresh;
  ACE_Asynch_Read_Stream readers[2];
  ACE_Asynch_Write_Stream writer;
  ACE_Message_Block blocks[]{ACE_Message_Block{10}, ACE_Message_Block{10}};
  Endings written;
  ACE_Message_Block secret(10);
  ASSERT_EQ(0, secret.copy("secret", 6));
  in_a_handler(
      [&] {
        ASSERT_EQ(0, readers[0].open(old, number_, nullptr, ace()));
        ASSERT_EQ(0, readers[0].read(blocks[0], 10));
        ASSERT_EQ(0, writer.open(written, number_, nullptr, ace()));
        ASSERT_EQ(0, writer.write(secret, 6));
        const auto go_on = [&] {
          use_again("");
          ASSERT_EQ(0, readers[1].open(fresh, number_, nullptr, ace()));
          ASSERT_EQ(0, readers[1].read(blocks[1], 10));
          ASSERT_EQ(1, ::write(peers_.back(), "x", 1));
        };
        GetParam() ? std::thread{go_on}.join() : go_on();
      },
      {&old, &written, &fresh});
  EXPECT_EQ(1, old.cancelled);
  EXPECT_EQ(0, written.failed);
  EXPECT_EQ(1, fresh.succeeded);
  EXPECT_EQ(1U, blocks[1].length());
  char taken = 0;
  EXPECT_EQ(-1, ::recv(peers_.back(), &taken, 1, MSG_DONTWAIT));  // not the secret
}
INSTANTIATE_TEST_SUITE_P(Threads, NumbersInAHandler, testing::Bool(), [](const auto& each) {
  return std::string{each.param ? "ByAnotherThread" : "ByItself"};
});

// A handler starts the next read, and deletes itself because of what the last one has brought. It
// closes its socket without a cancel. Nothing is opened for the next file.
TEST_F(Numbers, AreUsedAgainByTheProgramWhenAHandlerHasGone) {
  class Session final : public ACE_Service_Handler {
   public:
    Session(int number, std::function<void()> then) : number_(number), then_(std::move(then)) {}
    ~Session() override { ::close(number_); }
    void begin(ACE_Proactor* ace) {
      ASSERT_EQ(0, reader_.open(*this, number_, nullptr, ace));
      ASSERT_EQ(0, reader_.read(*blocks_[0], 10));
    }
    void handle_read_stream(const ACE_Asynch_Read_Stream::Result&) override {
      ASSERT_EQ(0, reader_.read(*blocks_[1], 10));
      const std::function<void()> then = std::move(then_);
      delete this;
      then();
    }

   private:
    const int number_;
    std::function<void()> then_;
    // They belong to the operations, which the handler does not survive.
    std::shared_ptr<ACE_Message_Block> blocks_[2] = {kept(), kept()};
    ACE_Asynch_Read_Stream reader_;

    static std::shared_ptr<ACE_Message_Block> kept() {
      static std::vector<std::shared_ptr<ACE_Message_Block>> all;
      return all.emplace_back(std::make_shared<ACE_Message_Block>(10));
    }
  };
  bool gone = false;
  auto* const session = new Session(number_, [&] {
    use_again();
    gone = true;
  });
  session->begin(ace());
  ASSERT_EQ(1, ::write(pair_.second, "q", 1));
  ASSERT_TRUE(drive([&] { return gone; }));
  Endings none;
  bool posted = false;
  ASSERT_EQ(0, implementation().post_completion(new PostedCall(none, [&] { posted = true; })));
  ASSERT_TRUE(drive([&] { return posted; }));
  char taken = 0;
  EXPECT_EQ(1, ::recv(number_, &taken, 1, MSG_DONTWAIT));
}

// The engine may have begun the later writes when the handler of the first one runs.
TEST_F(Numbers, AreUsedAgainBehindAWrite) {
  struct First final : Endings {
    void handle_write_stream(const ACE_Asynch_Write_Stream::Result& result) override {
      Endings::handle_write_stream(result);
      if (all() == 1) then();
    }
    std::function<void()> then;
  } written;
  Endings fresh;
  ACE_Asynch_Write_Stream writer;
  ACE_Asynch_Read_Stream reader;
  ACE_Message_Block block(10);
  ACE_Message_Block secrets[]{ACE_Message_Block{10}, ACE_Message_Block{10}, ACE_Message_Block{10}};
  written.then = [&] {
    use_again("");
    ASSERT_EQ(0, reader.open(fresh, number_, nullptr, ace()));
    ASSERT_EQ(0, reader.read(block, 10));
    ASSERT_EQ(1, ::write(peers_.back(), "x", 1));
  };
  ASSERT_EQ(0, writer.open(written, number_, nullptr, ace()));
  for (ACE_Message_Block& each : secrets) {
    ASSERT_EQ(0, each.copy("secret", 6));
    ASSERT_EQ(0, writer.write(each, 6));
  }
  ASSERT_TRUE(drive([&] { return written.all() == 3 && fresh.all() == 1; }));
  EXPECT_EQ(0, written.failed);
  EXPECT_EQ(1U, block.length());
  // A thread of the engine's own may be trying the next write while the number changes hands, which
  // no cancel has announced (docs/guide/ace.md, hints).
  if (is_set("engine=io_uring") && is_set("mode=dedicated")) return;
  char taken = 0;
  EXPECT_EQ(-1, ::recv(peers_.back(), &taken, 1, MSG_DONTWAIT));
}

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
    use_again("");
  }
  end();
}

}  // namespace
}  // namespace baton::ace::test
