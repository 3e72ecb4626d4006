// Ends: cancel, close with many operations pending, fork, handlers deleted early, reused descriptor
// numbers, failing connects, and operations that outlive their proactor.
#include <ace/Asynch_Acceptor.h>
#include <ace/Asynch_Connector.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <thread>

#include "base/tsan.hpp"
#include "echo.hpp"

namespace baton::ace::test {
namespace {

/// Counts its completions, by error.
class Counter : public ACE_Handler {
 public:
  void handle_read_stream(const ACE_Asynch_Read_Stream::Result& result) override {
    took(result.error());
  }
  void handle_accept(const ACE_Asynch_Accept::Result& result) override {
    EXPECT_EQ(0U, result.bytes_transferred());
    accepted = result.accept_handle();
    took(result.error());
  }
  void handle_connect(const ACE_Asynch_Connect::Result& result) override {
    connected = result.connect_handle();
    if (connected != ACE_INVALID_HANDLE) ::close(connected);
    took(result.error());
  }
  void took(u_long error) { ++(error == ECANCELED ? cancelled : error == 0 ? succeeded : failed); }
  [[nodiscard]] int all() const { return cancelled + succeeded + failed; }

  std::atomic<int> cancelled{0};
  std::atomic<int> succeeded{0};
  std::atomic<int> failed{0};
  std::atomic<int> accepted{-2};
  std::atomic<int> connected{-2};
};

class Ends : public AceTest {
 protected:
  Counter counter_;
};

/// Keeps the connection.
class Caller final : public Counter {
 public:
  void handle_connect(const ACE_Asynch_Connect::Result& result) override {
    connected = result.connect_handle();
  }
};

TEST_F(Ends, AConnectThatHasEndedIsNotCancelledAnyMore) {
  ACE_INET_Addr where;
  const int listener = listen_on_loopback(where);
  Caller caller;
  ACE_Asynch_Connect connect;
  ASSERT_EQ(0, connect.open(caller, ACE_INVALID_HANDLE, nullptr, ace()));
  ASSERT_EQ(0, connect.connect(ACE_INVALID_HANDLE, where, ACE_Addr::sap_any, 1));
  ASSERT_TRUE(drive([&] { return caller.connected >= 0; }));
  ACE_Asynch_Read_Stream reader;
  ASSERT_EQ(0, reader.open(counter_, caller.connected, nullptr, ace()));
  ACE_Message_Block block{10};
  ASSERT_EQ(0, reader.read(block, 1));
  EXPECT_EQ(1, connect.cancel()) << "none is pending";
  const int peer = ::accept(listener, nullptr, nullptr);
  ASSERT_EQ(1, ::write(peer, "a", 1));
  ASSERT_TRUE(drive([&] { return counter_.all() == 1; }));
  EXPECT_EQ(1, counter_.succeeded);
  for (const int each : {peer, listener, caller.connected.load()}) ::close(each);
}

TEST_F(Ends, PendingConnectsAreCancelled) {
  ACE_INET_Addr where;
  const int listener = listen_on_loopback(where);
  // The listener has no room for more connections than these, so the next one stays pending.
  ASSERT_EQ(0, ::listen(listener, 0));
  std::vector<int> others;
  for (int i = 0; i < 3; ++i) {
    others.push_back(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
    const auto* const address = static_cast<const sockaddr*>(where.get_addr());
    ::connect(others.back(), address, static_cast<socklen_t>(where.get_size()));
  }
  ACE_Asynch_Connect connect;
  ASSERT_EQ(0, connect.open(counter_, ACE_INVALID_HANDLE, nullptr, ace()));
  ASSERT_EQ(0, connect.connect(ACE_INVALID_HANDLE, where, ACE_Addr::sap_any, 1));
  EXPECT_EQ(0, connect.cancel());
  ASSERT_TRUE(drive([&] { return counter_.all() == 1; }));
  EXPECT_EQ(1, counter_.cancelled);
  EXPECT_EQ(1, connect.cancel());
  for (const int each : others) ::close(each);
  ::close(listener);
}

TEST_F(Ends, CancelledReadsCompleteOnceEach) {
  const SocketPair pair;
  ACE_Asynch_Read_Stream reader;
  ASSERT_EQ(0, reader.open(counter_, pair.first, nullptr, ace()));
  EXPECT_EQ(1, reader.cancel());
  ACE_Message_Block block(100);
  for (int i = 0; i < 10; ++i) ASSERT_EQ(0, reader.read(block, 10));
  EXPECT_EQ(0, reader.cancel());
  ASSERT_TRUE(drive([&] { return counter_.all() == 10; }));
  EXPECT_EQ(10, counter_.cancelled);
  EXPECT_EQ(1, reader.cancel());
  ACE_Time_Value wait{0, 0};
  EXPECT_EQ(0, ace()->handle_events(wait));
}

// The cancel has to reach another thread's lane, and no thread drives the proactor.
TEST_F(Ends, CancelSparesLaterStarts) {
  const SocketPair pair;
  ACE_Asynch_Read_Stream reader;
  ASSERT_EQ(0, reader.open(counter_, pair.first, nullptr, ace()));
  ACE_Message_Block block(10);
  ASSERT_EQ(0, reader.read(block, 10));
  EXPECT_EQ(0, reader.cancel());
  Counter second;
  ACE_Asynch_Read_Stream again;
  ASSERT_EQ(0, again.open(second, pair.first, nullptr, ace()));
  ACE_Message_Block first(10);
  ACE_Message_Block last(10);
  ASSERT_EQ(0, again.read(first, 1));
  ASSERT_EQ(0, again.read(last, 1));
  ASSERT_TRUE(drive([&] { return counter_.all() == 1; }));
  ASSERT_EQ(2, ::write(pair.second, "ab", 2));  // now, or the first read may win
  ASSERT_TRUE(drive([&] { return second.all() == 2; }));
  EXPECT_EQ(1, counter_.cancelled);
  EXPECT_EQ(2, second.succeeded);
  EXPECT_EQ("a", std::string(first.rd_ptr(), first.length()));
  EXPECT_EQ("b", std::string(last.rd_ptr(), last.length()));
}

/// Starts a read as soon as its own first one is complete.
class ReadsOn final : public ACE_Handler {
 public:
  void handle_read_stream(const ACE_Asynch_Read_Stream::Result&) override {
    if (completions++ > 0) return;
    EXPECT_EQ(0, reader.read(next, 1));
  }
  int completions = 0;
  ACE_Asynch_Read_Stream reader;
  ACE_Message_Block next{10};
};

TEST_F(Ends, StartsThatWaitForACancelKeepTheirOrder) {
  const SocketPair pair;
  ACE_Asynch_Read_Stream reader;
  ASSERT_EQ(0, reader.open(counter_, pair.first, nullptr, ace()));
  ReadsOn reads_on;
  ASSERT_EQ(0, reads_on.reader.open(reads_on, pair.first, nullptr, ace()));
  ACE_Message_Block block(10);
  ACE_Message_Block middle(10);
  ASSERT_EQ(0, reader.read(block, 10));
  EXPECT_EQ(0, reader.cancel());
  ASSERT_EQ(0, reads_on.reader.read(block, 10));
  EXPECT_EQ(0, reader.cancel());
  ASSERT_EQ(0, reader.read(middle, 1));
  ASSERT_TRUE(drive([&] { return counter_.all() == 1 && reads_on.completions == 1; }));
  ASSERT_EQ(2, ::write(pair.second, "ab", 2));
  ASSERT_TRUE(drive([&] { return counter_.all() == 2 && reads_on.completions == 2; }));
  EXPECT_EQ("a", std::string(middle.rd_ptr(), middle.length()));
  EXPECT_EQ("b", std::string(reads_on.next.rd_ptr(), reads_on.next.length()));
}

TEST_F(Ends, CancelledAcceptCompletesOnceWithoutAHandle) {
  ACE_INET_Addr where;
  const int listener = listen_on_loopback(where);
  {
    ACE_Asynch_Accept accept;
    ASSERT_EQ(0, accept.open(counter_, listener, nullptr, ace()));
    ACE_Message_Block block(100);
    ASSERT_EQ(0, accept.accept(block, 0, ACE_INVALID_HANDLE));
    EXPECT_EQ(0, accept.cancel());
    ASSERT_TRUE(drive([&] { return counter_.all() == 1; }));
    EXPECT_EQ(1, counter_.cancelled);
    EXPECT_EQ(ACE_INVALID_HANDLE, counter_.accepted);
    EXPECT_EQ(1, accept.cancel());
  }
  EXPECT_EQ(-1, ::close(listener));  // as ACE's, it owns the listener
}

TEST_F(Ends, AcceptNeedsRoomForTwoAddresses) {
  ACE_INET_Addr where;
  ACE_Asynch_Accept accept;
  ASSERT_EQ(0, accept.open(counter_, listen_on_loopback(where), nullptr, ace()));
  constexpr std::size_t both = 2 * sizeof(sockaddr_in);
  ACE_Message_Block block(both + 3);
  EXPECT_EQ(-1, accept.accept(block, 4, ACE_INVALID_HANDLE));
  EXPECT_EQ(ENOBUFS, errno);
  EXPECT_EQ(-1, accept.accept(block, SIZE_MAX - both + 1, ACE_INVALID_HANDLE));
  EXPECT_EQ(ENOBUFS, errno);
  ACE_Message_Block small(both - 1);
  EXPECT_EQ(-1, accept.accept(small, 0, ACE_INVALID_HANDLE));
  EXPECT_EQ(ENOBUFS, errno);
  ::close(accept.cancel() == 1 ? -1 : 0);
}

TEST_F(Ends, FailingConnectsLeakNothing) {
  ACE_INET_Addr nobody;
  ::close(listen_on_loopback(nobody));
  ACE_Asynch_Connect connect;
  ASSERT_EQ(0, connect.open(counter_, ACE_INVALID_HANDLE, nullptr, ace()));
  const std::size_t before = open_descriptors();
  const ACE_INET_Addr foreign{static_cast<u_short>(1), "192.0.2.1"};  // not an address of ours
  for (int i = 0; i < 32; ++i) {
    ASSERT_EQ(0, connect.connect(ACE_INVALID_HANDLE, nobody, ACE_Addr::sap_any, 1));
    ASSERT_EQ(0, connect.connect(ACE_INVALID_HANDLE, nobody, foreign, 1));
  }
  ASSERT_TRUE(drive([&] { return counter_.all() == 64; }));
  EXPECT_EQ(64, counter_.failed);
  EXPECT_EQ(before, open_descriptors());
}

TEST_F(Ends, ConnectHonoursTheLocalAddress) {
  ACE_INET_Addr where;
  const int listener = listen_on_loopback(where);
  ACE_INET_Addr local;
  ::close(listen_on_loopback(local));
  ACE_Asynch_Connect connect;
  ASSERT_EQ(0, connect.open(counter_, ACE_INVALID_HANDLE, nullptr, ace()));
  ASSERT_EQ(0, connect.connect(ACE_INVALID_HANDLE, where, local, 1));
  ASSERT_TRUE(drive([&] { return counter_.all() == 1; }));
  EXPECT_EQ(1, counter_.succeeded);
  sockaddr_in peer{};
  socklen_t size = sizeof(peer);
  const int accepted = ::accept(listener, reinterpret_cast<sockaddr*>(&peer), &size);
  EXPECT_EQ(local, ACE_INET_Addr(&peer, sizeof(peer)));
  ::close(accepted);
  ::close(listener);
}

TEST_F(Ends, CloseWithTenThousandPendingCompletesEachOnce) {
  constexpr int sockets = 100;
  constexpr int each = 100;
  std::vector<std::unique_ptr<SocketPair>> pairs;
  std::vector<std::unique_ptr<ACE_Asynch_Read_Stream>> readers;
  ACE_Message_Block block(100);
  for (int i = 0; i < sockets; ++i) {
    pairs.push_back(std::make_unique<SocketPair>());
    readers.push_back(std::make_unique<ACE_Asynch_Read_Stream>());
    ASSERT_EQ(0, readers.back()->open(counter_, pairs.back()->first, nullptr, ace()));
    for (int j = 0; j < each; ++j) ASSERT_EQ(0, readers.back()->read(block, 10));
  }
  // Threads are waiting or about to wait: close() makes them return.
  ACE_Proactor* const proactor = ace();
  std::vector<std::thread> threads;
  for (std::uint32_t i = 0; i < bridge().native().lanes(); ++i) {
    threads.emplace_back([proactor] { EXPECT_EQ(-1, proactor->proactor_run_event_loop()); });
  }
  EXPECT_EQ(0, implementation().close());
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(sockets * each, counter_.cancelled);
  EXPECT_EQ(-1, readers[0]->read(block, 10));
  EXPECT_EQ(ESHUTDOWN, errno);
}

TEST_F(Ends, OperationsMayOutliveTheirProactor) {
  ACE_INET_Addr where;
  ACE_Asynch_Acceptor<EchoServer> acceptor;
  ACE_Asynch_Connector<EchoClient> connector;
  ACE_Asynch_Read_Stream reader;
  const SocketPair pair;
  ASSERT_EQ(0, reader.open(counter_, pair.first, nullptr, ace()));
  ::close(listen_on_loopback(where));
  ASSERT_EQ(0, acceptor.open(where, 0, false, 8, 1, ace()));
  ASSERT_EQ(0, connector.open(false, ace()));
  destroy();
}

TEST_F(Ends, ChildOfForkOnlyCloses) {
  const SocketPair pair;
  ACE_Asynch_Read_Stream reader;
  ASSERT_EQ(0, reader.open(counter_, pair.first, nullptr, ace()));
  ACE_Message_Block block(100);
  ASSERT_EQ(0, reader.read(block, 10));
  const pid_t child = ::fork();
  if (child == 0) ::_exit(implementation().close() == 0 && counter_.all() == 0 ? 0 : 1);
  int status = -1;
  ASSERT_EQ(child, ::waitpid(child, &status, 0));
  EXPECT_EQ(0, status);
  ASSERT_EQ(1, ::write(pair.second, "x", 1));
  ASSERT_TRUE(drive([&] { return counter_.all() == 1; }));
  EXPECT_EQ(1, counter_.succeeded);
}

class CountedResult final : public ACE_POSIX_Asynch_Result {
 public:
  CountedResult(ACE_Handler& handler, int& ended)
      : ACE_POSIX_Asynch_Result(handler.proxy(), nullptr, ACE_INVALID_HANDLE, 0, 0, 0, 0),
        ended_(ended) {}
  ~CountedResult() override { ++ended_; }
  void complete(std::size_t, int, const void*, u_long) override {}

 private:
  int& ended_;
};

TEST_F(Ends, ResultThatIsRefusedInAChildStaysTheCallers) {
  const pid_t child = ::fork();
  if (child == 0) {
    int ended = 0;
    CountedResult* const result = new CountedResult(counter_, ended);
    const bool refused = implementation().post_completion(result) == -1;
    static_cast<void>(implementation().close());
    ::_exit(refused && ended == 0 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(child, ::waitpid(child, &status, 0));
  EXPECT_EQ(0, status);
}

TEST_F(Ends, AcceptorThatGoesCancelsWhatItHasPending) {
  ACE_INET_Addr where;
  const int listener = listen_on_loopback(where);
  ACE_Message_Block block(100);
  {
    ACE_Asynch_Accept accept;
    ASSERT_EQ(0, accept.open(counter_, listener, nullptr, ace()));
    ASSERT_EQ(0, accept.accept(block, 0, ACE_INVALID_HANDLE));
    ACE_Time_Value at_once{0, 0};
    EXPECT_EQ(0, ace()->handle_events(at_once));  // the engine has it now
  }
  ASSERT_TRUE(drive([&] { return counter_.all() == 1; }));
  EXPECT_EQ(1, counter_.cancelled);
}

// -- handlers that are deleted --------------------------------------------------------------------

class Suicidal final : public ACE_Handler {
 public:
  Suicidal(ACE_Proactor* with, int fildes, std::atomic<int>& deleted) : deleted_(deleted) {
    EXPECT_EQ(0, reader_.open(*this, fildes, nullptr, with));
    EXPECT_EQ(0, reader_.read(block_, 10));
  }
  ~Suicidal() override { ++deleted_; }
  void handle_read_stream(const ACE_Asynch_Read_Stream::Result&) override { delete this; }

 private:
  std::atomic<int>& deleted_;
  ACE_Asynch_Read_Stream reader_;
  ACE_Message_Block block_{100};
};

TEST_F(Ends, HandlerDeletesItselfInItsCallback) {
  const SocketPair pair;
  std::atomic<int> deleted{0};
  new Suicidal(ace(), pair.first, deleted);
  ASSERT_EQ(1, ::write(pair.second, "x", 1));
  ASSERT_TRUE(drive([&] { return deleted == 1; }));
}

TEST_F(Ends, HandlerIsDeletedWithAnOperationPending) {
  const SocketPair pair;
  std::atomic<int> deleted{0};
  run(2);
  for (int i = 0; i < 100; ++i) {
    // The handler goes with its block: nothing may touch the block once the operation is cancelled.
    auto* const handler = new Suicidal(ace(), pair.first, deleted);
    delete handler;
    EXPECT_NE(-1, implementation().cancel_aio(pair.first));
  }
  EXPECT_EQ(100, deleted);
  end();
}

// -- numbers that are used again ------------------------------------------------------------------

TEST_F(Ends, NumberIsUsedAgainWithAnOperationPending) {
  auto old = std::make_unique<SocketPair>();
  auto fresh = std::make_unique<SocketPair>();
  const int number = old->first;
  ACE_Asynch_Read_Stream reader;
  ASSERT_EQ(0, reader.open(counter_, number, nullptr, ace()));
  ACE_Message_Block stale(10);
  ASSERT_EQ(0, reader.read(stale, 10));
  ACE_Time_Value wait{0, 0};
  ASSERT_EQ(0, ace()->handle_events(wait));  // the engine has it
  // The program closes the number, and gets it for another socket.
  ASSERT_EQ(number, ::dup2(fresh->first, number));
  ::close(fresh->first);
  fresh->first = std::exchange(old->first, -1);

  Counter second;
  ACE_Asynch_Read_Stream again;
  ASSERT_EQ(0, again.open(second, number, nullptr, ace()));
  ACE_Message_Block block(10);
  ASSERT_EQ(0, again.read(block, 10));
  ASSERT_EQ(1, ::write(fresh->second, "x", 1));
  ASSERT_TRUE(drive([&] { return second.all() == 1 && counter_.all() == 1; }));
  EXPECT_EQ(1, second.succeeded);
  EXPECT_EQ(1U, block.length());
  EXPECT_EQ(1, counter_.cancelled);
  destroy();
}

TEST_F(Ends, NumberIsUsedAgainForAnotherKind) {
  auto pair = std::make_unique<SocketPair>();
  const int number = pair->first;
  ACE_Asynch_Read_Stream reader;
  ACE_Message_Block block(10);
  ASSERT_EQ(0, reader.open(counter_, number, nullptr, ace()));
  ASSERT_EQ(0, reader.read(block, 10));
  ASSERT_EQ(1, ::write(pair->second, "x", 1));
  ASSERT_TRUE(drive([&] { return counter_.all() == 1; }));
  int pipe[2];
  ASSERT_EQ(0, ::pipe(pipe));
  ASSERT_EQ(number, ::dup2(pipe[0], number));
  ACE_Asynch_Read_Stream of_pipe;
  ASSERT_EQ(0, of_pipe.open(counter_, number, nullptr, ace()));
  ASSERT_EQ(0, of_pipe.read(block, 5));
  ASSERT_EQ(1, ::write(pipe[1], "y", 1));
  ASSERT_TRUE(drive([&] { return counter_.all() == 2; }));
  EXPECT_EQ("xy", std::string(block.rd_ptr(), block.length()));
  ::close(pipe[0]);
  ::close(pipe[1]);
}

TEST_F(Ends, AcceptStaysPendingWithoutDescriptors) {
  ACE_INET_Addr where;
  const int listener = listen_on_loopback(where);
  ACE_Asynch_Accept accept;
  ASSERT_EQ(0, accept.open(counter_, listener, nullptr, ace()));
  ACE_Message_Block block(100);
  const int client = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  const rlimit before = limit;
  limit.rlim_cur = 3;  // no more than are open already; the ring looks at it when it starts
  ASSERT_EQ(0, ::setrlimit(RLIMIT_NOFILE, &limit));
  ASSERT_EQ(0, accept.accept(block, 0, ACE_INVALID_HANDLE));
  ASSERT_EQ(0, ::connect(client, static_cast<const sockaddr*>(where.get_addr()),
                         static_cast<socklen_t>(where.get_size())));
  for (int i = 0; i < 3; ++i) {
    ACE_Time_Value wait{0, 1'000};
    EXPECT_EQ(0, ace()->handle_events(wait));
  }
  ASSERT_EQ(0, ::setrlimit(RLIMIT_NOFILE, &before));
  ASSERT_TRUE(drive([&] { return counter_.all() == 1; }));
  EXPECT_EQ(1, counter_.succeeded);
  ::close(counter_.accepted);
  ::close(client);
}

// ThreadSanitizer is right that libACE frees what a thread uses, and the test is about that.
#ifndef BATON_TSAN
/// Must not be called: static objects of the program are gone by then.
class CalledTooLate final : public ACE_Handler {
 public:
  void handle_read_stream(const ACE_Asynch_Read_Stream::Result&) override { ::_exit(9); }
};

/// Ends the program when its turn comes.
class Exiting final : public ACE_Handler {
 public:
  explicit Exiting(bool exits) noexcept : exits_(exits) {}
  void handle_time_out(const ACE_Time_Value&, const void*) override {
    if (exits_) std::exit(3);
    came.add();
  }
  Count came;

 private:
  const bool exits_;
};

enum class From : std::uint8_t { alone, beside_a_loop, in_a_handler };

/// libACE owns the singleton, and deletes it while a thread may be in its event loop.
void end_with_the_singleton(From where) {
  ACE_Proactor::instance(new ACE_Proactor(new Proactor, true), true);
  ACE_Proactor& proactor = *ACE_Proactor::instance();
  // Not destroyed: exit() does not return to them.
  auto& sockets = *new SocketPair;
  auto& late = *new CalledTooLate;
  auto& block = *new ACE_Message_Block(8);
  auto& reader = *new ACE_Asynch_Read_Stream;
  EXPECT_EQ(0, reader.open(late, sockets.first, nullptr, &proactor));
  EXPECT_EQ(0, reader.read(block, 8));
  // Closing ACE's proactor before its timer thread has begun would wait for ever.
  auto& here = *new Exiting(false);
  proactor.schedule_timer(here, nullptr, ACE_Time_Value::zero);
  while (here.came.value() == 0) proactor.handle_events();
  if (where == From::alone) std::exit(3);
  std::thread{[&proactor] {
    proactor.proactor_run_event_loop();
    ::_exit(10);  // from the loop of a proactor that is freed
  }}.detach();
  proactor.schedule_timer(here, nullptr, ACE_Time_Value::zero);
  EXPECT_TRUE(here.came.reaches(2));
  if (where == From::beside_a_loop) std::exit(3);
  proactor.schedule_timer(*new Exiting(true), nullptr, ACE_Time_Value::zero);
  proactor.proactor_run_event_loop();
}

TEST(EndOfTheProgram, LeavesTheSingletonAlone) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  for (const From where : {From::alone, From::beside_a_loop, From::in_a_handler}) {
    EXPECT_EXIT(end_with_the_singleton(where), testing::ExitedWithCode(3), "");
  }
}
#endif

}  // namespace
}  // namespace baton::ace::test
