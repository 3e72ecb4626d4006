// Unusual things that programs do: handlers that throw, delete themselves or fork; several
// proactors; calls in the wrong order; closing during traffic; more threads than lanes.
#include <ace/Asynch_Acceptor.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <stdexcept>
#include <system_error>

#include "support.hpp"

namespace baton::ace::test {
namespace {

/// A handler whose completions run a function of the test's.
class Calls final : public ACE_Handler {
 public:
  void handle_read_stream(const ACE_Asynch_Read_Stream::Result& result) override {
    errors.push_back(result.error());
    if (function) function();
  }
  void handle_write_stream(const ACE_Asynch_Write_Stream::Result& result) override {
    errors.push_back(result.error());
    if (function) function();
  }
  void handle_read_dgram(const ACE_Asynch_Read_Dgram::Result& result) override {
    errors.push_back(result.error());
  }
  void handle_accept(const ACE_Asynch_Accept::Result& result) override {
    errors.push_back(result.error());
    if (result.success() != 0) ::close(result.accept_handle());
  }
  void handle_connect(const ACE_Asynch_Connect::Result& result) override {
    errors.push_back(result.error());
  }
  std::function<void()> function;
  std::vector<u_long> errors;
};

class Misuse : public AceTest {
 protected:
  ~Misuse() override {
    end();
    destroy();  // before what its completions use
  }
  int post(std::function<void()> function) {
    auto* const result = new PostedCall(calls_, std::move(function));
    const int answer = implementation().post_completion(result);
    if (answer != 0) delete result;
    return answer;
  }
  /// Handles events until the condition holds; counts the exceptions on the way.
  int drive_and_count_exceptions(const std::function<bool()>& condition) {
    int thrown = 0;
    for (;;) {
      try {
        EXPECT_TRUE(drive(condition));
        return thrown;
      } catch (const std::runtime_error&) {
        ++thrown;
      }
    }
  }

  const SocketPair pair_;
  Calls calls_;
  ACE_Message_Block block_{100};
};

// -- handlers that throw --------------------------------------------------------------------------

TEST_F(Misuse, ExceptionOfAHandlerReachesTheCallerAndAllGoesOn) {
  ACE_Asynch_Read_Stream reader;
  ASSERT_EQ(0, reader.open(calls_, pair_.first, nullptr, ace()));
  calls_.function = [] { throw std::runtime_error("of a handler"); };
  for (std::size_t round = 1; round <= 3; ++round) {
    ASSERT_EQ(0, reader.read(block_, 1));
    ASSERT_EQ(1, ::write(pair_.second, "x", 1));
    EXPECT_EQ(1, drive_and_count_exceptions([&] { return calls_.errors.size() == round; }));
  }
  int posted = 0;
  for (int i = 0; i < 4; ++i) {
    ASSERT_EQ(0, post([&posted, i] {
                ++posted;
                if (i % 2 == 0) throw std::runtime_error("of a posted result");
              }));
  }
  EXPECT_EQ(2, drive_and_count_exceptions([&] { return posted == 4; }));
}

TEST_F(Misuse, LackOfMemoryInAHandlerIsItsOwnException) {
  ASSERT_EQ(0, post([] { throw std::bad_alloc(); }));
  ACE_Time_Value wait{patience.count()};
  EXPECT_THROW(ace()->handle_events(wait), std::bad_alloc);
}

// The end of the other proactor completes the read, in the same thread.
TEST_F(Misuse, ExceptionAfterTheCloseOfAnotherProactorReachesTheCaller) {
  for (const bool with_traffic : {false, true}) {
    Proactor other{Config::from_environment(), Options::from_environment().value()};
    const std::unique_ptr<ACE_Asynch_Read_Stream_Impl> reader{other.create_asynch_read_stream()};
    ASSERT_EQ(0, reader->open(calls_.proxy(), pair_.first, nullptr, nullptr));
    if (with_traffic) {
      ASSERT_EQ(0, reader->read(block_, 1, nullptr, 0, 0));
    }
    calls_.errors.clear();
    ASSERT_EQ(0, post([&] {
                EXPECT_EQ(0, other.close());
                // As Baton itself throws it.
                throw std::system_error(make_error_code(errc::wrong_thread));
              }));
    ACE_Time_Value wait{patience.count()};
    EXPECT_THROW(ace()->handle_events(wait), std::system_error);
    EXPECT_EQ(with_traffic ? 1U : 0U, calls_.errors.size());
  }
}

// Some of these wait behind a cancel or for the end of an earlier file. They end together.
TEST_F(Misuse, EachOfSeveralHandlersMayThrow) {
  ACE_Asynch_Read_Stream reader;
  ASSERT_EQ(0, reader.open(calls_, pair_.first, nullptr, ace()));
  calls_.function = [] { throw std::runtime_error("of a handler"); };
  ASSERT_EQ(0, reader.read(block_, 1));
  EXPECT_EQ(0, reader.cancel());
  for (int i = 0; i < 3; ++i) ASSERT_EQ(0, reader.read(block_, 1));
  EXPECT_EQ(0, reader.cancel());
  const int thrown = drive_and_count_exceptions([&] { return calls_.errors.size() == 4; });
  EXPECT_GE(thrown, 1);
  for (const u_long error : calls_.errors) EXPECT_EQ(static_cast<u_long>(ECANCELED), error);
  // In order again.
  calls_.function = nullptr;
  ASSERT_EQ(0, reader.read(block_, 1));
  ASSERT_EQ(1, ::write(pair_.second, "x", 1));
  EXPECT_TRUE(drive([&] { return calls_.errors.size() == 5; }));
  EXPECT_EQ(0U, calls_.errors.back());
}

// -- handlers that end something ------------------------------------------------------------------

/// Has a read and a write pending, and deletes itself in the first completion.
class Fleeting final : public ACE_Handler {
 public:
  Fleeting(ACE_Proactor* with, int fildes, Count& deleted, ACE_Message_Block& in,
           ACE_Message_Block& out)
      : deleted_(deleted) {
    EXPECT_EQ(0, reader_.open(*this, fildes, nullptr, with));
    EXPECT_EQ(0, writer_.open(*this, fildes, nullptr, with));
    EXPECT_EQ(0, reader_.read(in, 1));
    EXPECT_EQ(0, writer_.write(out, out.length()));
  }
  ~Fleeting() override { deleted_.add(); }
  void handle_read_stream(const ACE_Asynch_Read_Stream::Result&) override { delete this; }
  void handle_write_stream(const ACE_Asynch_Write_Stream::Result&) override { delete this; }

 private:
  Count& deleted_;
  ACE_Asynch_Read_Stream reader_;
  ACE_Asynch_Write_Stream writer_;
};

TEST_F(Misuse, HandlerDeletesItselfWithAnotherOperationPending) {
  Count deleted;
  constexpr std::size_t size = 4 << 20;  // more than the socket holds: the write stays pending
  ACE_Message_Block out(size);
  out.wr_ptr(size);
  new Fleeting(ace(), pair_.first, deleted, block_, out);
  ASSERT_EQ(1, ::write(pair_.second, "x", 1));
  ASSERT_TRUE(drive([&] { return deleted.value() == 1; }));
  EXPECT_EQ(0, implementation().cancel_aio(pair_.first));
  EXPECT_EQ(0, implementation().close());
}

TEST_F(Misuse, HandlerForksAndTheChildCloses) {
  int status = -1;
  ASSERT_EQ(0, post([&] {
              const pid_t child = ::fork();
              if (child == 0) ::_exit(implementation().close());
              ASSERT_EQ(child, ::waitpid(child, &status, 0));
            }));
  EXPECT_TRUE(drive([&] { return status != -1; }));
  EXPECT_EQ(0, status);
}

TEST_F(Misuse, HandlerClosesItsProactor) {
  ACE_Asynch_Read_Stream reader;
  ASSERT_EQ(0, reader.open(calls_, pair_.first, nullptr, ace()));
  ASSERT_EQ(0, reader.read(block_, 1));
  ASSERT_EQ(0, post([&] { EXPECT_EQ(0, implementation().close()); }));
  ACE_Time_Value wait{patience.count()};
  EXPECT_EQ(1, ace()->handle_events(wait));
  EXPECT_EQ(-1, ace()->handle_events(wait));
  EXPECT_EQ(ESHUTDOWN, errno);
  destroy();
  EXPECT_EQ(std::vector<u_long>{ECANCELED}, calls_.errors);
}

// Outside of handle_events: the handler is called by close() itself.
TEST_F(Misuse, HandlerClosesItsProactorThatIsClosed) {
  ACE_Asynch_Read_Stream reader;
  ASSERT_EQ(0, reader.open(calls_, pair_.first, nullptr, ace()));
  ASSERT_EQ(0, reader.read(block_, 1));
  calls_.function = [&] { EXPECT_EQ(0, implementation().close()); };
  EXPECT_EQ(0, implementation().close());
  EXPECT_EQ(std::vector<u_long>{ECANCELED}, calls_.errors);
}

TEST_F(Misuse, HandlerDeletesItsProactorThatIsClosed) {
  auto* const other = new Proactor{Config::from_environment(), Options::from_environment().value()};
  std::unique_ptr<ACE_Asynch_Read_Stream_Impl> reader{other->create_asynch_read_stream()};
  ASSERT_EQ(0, reader->open(calls_.proxy(), pair_.first, nullptr, nullptr));
  ASSERT_EQ(0, reader->read(block_, 1, nullptr, 0, 0));
  reader.reset();
  calls_.function = [&] { delete other; };
  EXPECT_EQ(0, other->close());
  EXPECT_EQ(std::vector<u_long>{ECANCELED}, calls_.errors);
}

TEST_F(Misuse, HandlerDeletesItsProactor) {
  ACE_Asynch_Read_Stream reader;
  ASSERT_EQ(0, reader.open(calls_, pair_.first, nullptr, ace()));
  ASSERT_EQ(0, reader.read(block_, 1));
  ASSERT_EQ(0, post([&] { destroy(); }));
  ACE_Time_Value wait{patience.count()};
  EXPECT_EQ(1, implementation().handle_events(wait));
  EXPECT_EQ(std::vector<u_long>{ECANCELED}, calls_.errors);
}

// -- the wrong order ------------------------------------------------------------------------------

TEST_F(Misuse, CallsInTheWrongOrderAreErrors) {
  ACE_Asynch_Read_Stream reader;
  EXPECT_EQ(-1, reader.cancel());
  EXPECT_EQ(-1, reader.read(block_, 1));
  EXPECT_EQ(-1, implementation().cancel_aio(ACE_INVALID_HANDLE));
  EXPECT_EQ(EBADF, errno);
  EXPECT_EQ(-1, implementation().post_completion(nullptr));
  EXPECT_EQ(EINVAL, errno);
  std::unique_ptr<ACE_Asynch_Accept_Impl> accept{implementation().create_asynch_accept()};
  EXPECT_EQ(-1, accept->accept(block_, 0, ACE_INVALID_HANDLE, nullptr, 0, 0, AF_INET));
  EXPECT_EQ(EINVAL, errno);
}

// It was let go and adopted anew without an end.
TEST_F(Misuse, AcceptOnASocketThatCannotListenIsAnError) {
  const int datagrams = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  ACE_Message_Block block(100);
  ACE_Asynch_Accept accept;
  ASSERT_EQ(0, accept.open(calls_, datagrams, nullptr, ace()));
  EXPECT_EQ(-1, accept.accept(block, 0, ACE_INVALID_HANDLE));
  EXPECT_EQ(EOPNOTSUPP, errno);
  // Known as a socket of datagrams from here on, so that the accept waits until it is let go.
  ACE_Asynch_Read_Dgram reader;
  ASSERT_EQ(0, reader.open(calls_, datagrams, nullptr, ace()));
  std::size_t size = 10;
  ASSERT_EQ(0, reader.recv(&block_, size, 0));
  EXPECT_EQ(0, reader.cancel());
  ASSERT_TRUE(drive([&] { return calls_.errors.size() == 1; }));
  if (accept.accept(block, 0, ACE_INVALID_HANDLE) == 0) {
    ASSERT_TRUE(drive([&] { return calls_.errors.size() == 2; }));
    EXPECT_EQ(u_long{EOPNOTSUPP}, calls_.errors.back());
  }
  int both[2];
  ASSERT_EQ(0, ::pipe(both));
  ACE_Asynch_Accept of_pipe;
  ASSERT_EQ(0, of_pipe.open(calls_, both[0], nullptr, ace()));
  EXPECT_EQ(-1, of_pipe.accept(block, 0, ACE_INVALID_HANDLE));
  EXPECT_EQ(ENOTSOCK, errno);
  ::close(both[1]);
}

TEST_F(Misuse, SocketThatFailedToAcceptStillConnects) {
  ACE_INET_Addr where;
  const int listener = listen_on_loopback(where);
  const int fildes = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ACE_Asynch_Accept accept;
  ASSERT_EQ(0, accept.open(calls_, fildes, nullptr, ace()));
  ASSERT_EQ(0, accept.accept(block_, 0, ACE_INVALID_HANDLE));
  ASSERT_TRUE(drive([&] { return calls_.errors.size() == 1; }));
  EXPECT_EQ(u_long{EINVAL}, calls_.errors.back());
  ACE_Asynch_Connect connect;
  ASSERT_EQ(0, connect.open(calls_, ACE_INVALID_HANDLE, nullptr, ace()));
  ASSERT_EQ(0, connect.connect(fildes, where, static_cast<const ACE_Addr&>(ACE_Addr::sap_any), 0));
  ASSERT_TRUE(drive([&] { return calls_.errors.size() == 2; }));
  EXPECT_EQ(0U, calls_.errors.back());
  ::close(listener);
}

TEST_F(Misuse, OperationOfTheOtherSortCancelsNothing) {
  ACE_INET_Addr where;
  const int listener = listen_on_loopback(where);
  SocketPair pair;
  ACE_Asynch_Accept accept;
  ACE_Asynch_Accept of_pair;
  ACE_Asynch_Read_Stream reader;
  ACE_Asynch_Read_Stream of_listener;
  ACE_Message_Block block(100);
  ASSERT_EQ(0, accept.open(calls_, listener, nullptr, ace()));
  ASSERT_EQ(0, of_listener.open(calls_, listener, nullptr, ace()));
  ASSERT_EQ(0, reader.open(calls_, pair.first, nullptr, ace()));
  ASSERT_EQ(0, of_pair.open(calls_, std::exchange(pair.first, -1), nullptr, ace()));
  ASSERT_EQ(0, accept.accept(block, 0, ACE_INVALID_HANDLE));
  ASSERT_EQ(0, reader.read(block_, 1));
  // Refused by the start, or by a completion (BATON_ACE=lazy).
  const auto is_refused = [&](int answer) {
    const std::size_t before = calls_.errors.size();
    if (answer == -1) return errno == EINVAL;
    return drive([&] { return calls_.errors.size() == before + 1; }) &&
           calls_.errors.back() == EINVAL;
  };
  EXPECT_TRUE(is_refused(of_listener.read(block, 1)));
  EXPECT_TRUE(is_refused(of_pair.accept(block, 0, ACE_INVALID_HANDLE)));
  const std::size_t before = calls_.errors.size();
  ASSERT_EQ(1, ::write(pair.second, "x", 1));
  ASSERT_TRUE(drive([&] { return calls_.errors.size() == before + 1; }));
  EXPECT_EQ(0U, calls_.errors.back());
  const int client = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(0, ::connect(client, static_cast<const sockaddr*>(where.get_addr()),
                         static_cast<socklen_t>(where.get_size())));
  ASSERT_TRUE(drive([&] { return calls_.errors.size() == before + 2; }));
  EXPECT_EQ(0U, calls_.errors.back());
  ::close(client);
}

TEST_F(Misuse, BlocksWithPointersPastEachOtherAreEmpty) {
  const SocketPair pair;
  ACE_Message_Block past_the_end(100);
  past_the_end.size(10);
  past_the_end.wr_ptr(20);
  ACE_Message_Block crossed(100);
  crossed.wr_ptr(10);
  crossed.rd_ptr(20);
  ACE_Asynch_Read_Stream reader;
  ACE_Asynch_Write_Stream writer;
  ACE_Asynch_Read_File file;
  ACE_Asynch_Write_File out;
  ACE_Asynch_Read_Dgram datagrams;
  ACE_Asynch_Write_Dgram sender;
  const int zero = ::open("/dev/zero", O_RDWR | O_CLOEXEC);
  ASSERT_EQ(0, reader.open(calls_, pair.first, nullptr, ace()));
  ASSERT_EQ(0, writer.open(calls_, pair.first, nullptr, ace()));
  ASSERT_EQ(0, file.open(calls_, zero, nullptr, ace()));
  ASSERT_EQ(0, out.open(calls_, zero, nullptr, ace()));
  ASSERT_EQ(0, datagrams.open(calls_, pair.first, nullptr, ace()));
  ASSERT_EQ(0, sender.open(calls_, pair.first, nullptr, ace()));
  std::size_t size = 10;
  const auto refused = [](ssize_t answer, int error) { return answer == -1 && errno == error; };
  EXPECT_TRUE(refused(reader.read(past_the_end, 10), ENOSPC));
  EXPECT_TRUE(refused(file.read(past_the_end, 10), ENOSPC));
  EXPECT_TRUE(refused(datagrams.recv(&past_the_end, size, 0), ENOSPC));
  EXPECT_TRUE(refused(writer.write(crossed, 10), EINVAL));
  EXPECT_TRUE(refused(out.write(crossed, 10), EINVAL));
  EXPECT_TRUE(refused(sender.send(&crossed, size, 0, ACE_Addr::sap_any), EINVAL));
  // In a chain only the piece itself is left out.
  ACE_Message_Block first(100);
  first.copy("abc", 3);
  first.cont(&crossed);
  EXPECT_EQ(0, sender.send(&first, size, 0, ACE_Addr::sap_any));
  first.cont(nullptr);
  ASSERT_TRUE(drive([&] { return first.length() == 0; }));
  char got[10];
  EXPECT_EQ(3, ::read(pair.second, got, sizeof(got)));
  ::close(zero);
}

TEST_F(Misuse, AfterCloseEverythingIsAnError) {
  ACE_Asynch_Read_Stream reader;
  ASSERT_EQ(0, reader.open(calls_, pair_.first, nullptr, ace()));
  ASSERT_EQ(0, implementation().close());
  EXPECT_EQ(-1, reader.read(block_, 1));
  EXPECT_EQ(ESHUTDOWN, errno);
  EXPECT_EQ(-1, reader.cancel());
  EXPECT_EQ(ACE_INVALID_HANDLE, implementation().get_handle());
  const Attachment attached{bridge()};
  ACE_Asynch_Connect connect;
  ASSERT_EQ(0, connect.open(calls_, ACE_INVALID_HANDLE, nullptr, ace()));
  const ACE_INET_Addr where{static_cast<u_short>(1), INADDR_LOOPBACK};
  const std::size_t before = open_descriptors();
  EXPECT_EQ(-1, connect.connect(ACE_INVALID_HANDLE, where, ACE_Addr::sap_any, 1));
  EXPECT_EQ(ESHUTDOWN, errno);
  EXPECT_EQ(before, open_descriptors());
}

TEST_F(Misuse, AcceptorThatNeverAcceptedClosesItsListener) {
  ACE_INET_Addr where;
  const int listener = listen_on_loopback(where);
  {
    ACE_Asynch_Accept accept;
    ASSERT_EQ(0, accept.open(calls_, listener, nullptr, ace()));
  }
  EXPECT_EQ(-1, ::close(listener));
}

// The program has closed the listener, and another file has its number now.
TEST_F(Misuse, AcceptorClosesNoOtherFile) {
  ACE_INET_Addr where;
  const int listener = listen_on_loopback(where);
  {
    ACE_Asynch_Accept accept;
    ASSERT_EQ(0, accept.open(calls_, listener, nullptr, ace()));
    ASSERT_EQ(listener, ::dup2(pair_.second, listener));
  }
  EXPECT_EQ(0, ::close(listener));
}

// No handler is left to close the socket of this result.
TEST_F(Misuse, ConnectThatFailsAtOnceForADeletedHandlerLeaksNothing) {
  auto handler = std::make_unique<Calls>();
  const std::size_t before = open_descriptors();
  ACE_Asynch_Connect connect;
  ASSERT_EQ(0, connect.open(*handler, ACE_INVALID_HANDLE, nullptr, ace()));
  const ACE_INET_Addr where{static_cast<u_short>(1), INADDR_LOOPBACK};
  const ACE_INET_Addr foreign{static_cast<u_short>(1), "192.0.2.1"};  // not an address of ours
  ASSERT_EQ(0, connect.connect(ACE_INVALID_HANDLE, where, foreign, 1));
  handler.reset();
  ACE_Time_Value wait{patience.count()};
  EXPECT_EQ(1, ace()->handle_events(wait));
  EXPECT_EQ(before, open_descriptors());
}

// The call begins before there is anything to dispatch.
TEST_F(Misuse, LongestTimeIsForEver) {
  ASSERT_NE(-1, ace()->schedule_timer(calls_, nullptr, ACE_Time_Value{0, 20'000}));
  ACE_Time_Value wait = ACE_Time_Value::max_time;
  EXPECT_EQ(1, ace()->handle_events(wait));
}

// -- several proactors, many threads --------------------------------------------------------------

TEST_F(Misuse, TwoProactorsInOneThreadAndAcross) {
  Proactor second_bridge{Config::from_environment(), Options::from_environment().value()};
  TimerQueue second_timers;
  ACE_Proactor second{&second_bridge, false, &second_timers};
  Calls writer_calls;
  ACE_Asynch_Read_Stream reader;
  ACE_Asynch_Write_Stream writer;
  ASSERT_EQ(0, reader.open(calls_, pair_.first, nullptr, ace()));
  ASSERT_EQ(0, writer.open(writer_calls, pair_.second, nullptr, &second));
  ACE_Message_Block out(10);
  out.copy("ab", 2);
  ASSERT_EQ(0, reader.read(block_, 10));
  // A handler of the first drives the second.
  bool nested = false;
  ASSERT_EQ(0, post([&] {
              ASSERT_EQ(0, writer.write(out, 2));
              ACE_Time_Value wait{patience.count()};
              EXPECT_EQ(1, second.handle_events(wait));
              nested = true;
            }));
  ASSERT_TRUE(drive([&] { return nested && calls_.errors.size() == 1; }));
  EXPECT_EQ(1U, writer_calls.errors.size());
  EXPECT_EQ("ab", std::string(block_.rd_ptr(), block_.length()));
  // One descriptor in both.
  ACE_Asynch_Write_Stream back;
  ASSERT_EQ(0, back.open(writer_calls, pair_.first, nullptr, &second));
  ASSERT_EQ(0, reader.read(block_, 10));
  out.copy("cd", 2);
  ASSERT_EQ(0, back.write(out, 2));
  ACE_Time_Value wait{patience.count()};
  EXPECT_EQ(1, second.handle_events(wait));
  ASSERT_EQ(1, ::write(pair_.second, "e", 1));
  EXPECT_TRUE(drive([&] { return calls_.errors.size() == 2; }));
}

TEST_F(Misuse, MoreAttachedThreadsThanLanesLeaveTheEventLoop) {
  for (int round = 0; round < 10; ++round) {
    std::vector<std::thread> threads;
    Count inside;
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([&] {
        const Attachment attached{bridge()};
        inside.add();
        EXPECT_NE(-1, ace()->proactor_run_event_loop());
      });
    }
    ASSERT_TRUE(inside.reaches(8));
    ASSERT_EQ(0, ace()->proactor_end_event_loop());
    for (std::thread& each : threads) each.join();
    ace()->proactor_reset_event_loop();
  }
}

TEST_F(Misuse, AttachedThreadMayClose) {
  const Attachment attached{bridge()};
  const Attachment again{bridge()};
  ACE_Asynch_Read_Stream reader;
  ASSERT_EQ(0, reader.open(calls_, pair_.first, nullptr, ace()));
  ASSERT_EQ(0, reader.read(block_, 1));
  ACE_Time_Value wait{0, 0};
  EXPECT_EQ(0, ace()->handle_events(wait));
  EXPECT_EQ(0, implementation().close());
  EXPECT_EQ(std::vector<u_long>{ECANCELED}, calls_.errors);
}

/// Reads and writes one byte after the other, until an error.
class Chatter final : public ACE_Handler {
 public:
  void begin(ACE_Proactor* with, int fildes) {
    ASSERT_EQ(0, reader_.open(*this, fildes, nullptr, with));
    ASSERT_EQ(0, writer_.open(*this, fildes, nullptr, with));
    read();
    write();
  }
  void handle_read_stream(const ACE_Asynch_Read_Stream::Result& result) override {
    completions.add();
    pending.fetch_sub(1);
    if (result.success() && result.bytes_transferred() > 0) read();
  }
  void handle_write_stream(const ACE_Asynch_Write_Stream::Result& result) override {
    completions.add();
    pending.fetch_sub(1);
    if (result.success()) write();
  }
  Count completions;
  std::atomic<int> pending{0};

 private:
  void read() {
    in_.reset();
    pending.fetch_add(1);
    if (reader_.read(in_, 1) != 0) pending.fetch_sub(1);
  }
  void write() {
    out_.reset();
    out_.wr_ptr(1);
    pending.fetch_add(1);
    if (writer_.write(out_, 1) != 0) pending.fetch_sub(1);
  }
  ACE_Asynch_Read_Stream reader_;
  ACE_Asynch_Write_Stream writer_;
  ACE_Message_Block in_{1};
  ACE_Message_Block out_{1};
};

class MisuseByThreads : public Misuse, public testing::WithParamInterface<unsigned> {
 protected:
  static constexpr int pairs = 4;
  void begin() {
    for (int i = 0; i < pairs; ++i) {
      sockets_.push_back(std::make_unique<SocketPair>());
      for (const int fildes : {sockets_.back()->first, sockets_.back()->second}) {
        chatters_.push_back(std::make_unique<Chatter>());
        chatters_.back()->begin(ace(), fildes);
      }
    }
    for (unsigned i = 0; i < GetParam(); ++i) {
      threads_.emplace_back([this] {
        const Attachment attached{bridge()};
        while (ace()->proactor_run_event_loop() == 0 && !over_) {
        }
      });
    }
    for (const auto& each : chatters_) ASSERT_TRUE(each->completions.reaches(100));
  }
  void join() {
    for (std::thread& each : threads_) each.join();
    for (const auto& each : chatters_) EXPECT_EQ(0, each->pending.load());
  }
  std::vector<std::unique_ptr<SocketPair>> sockets_;
  std::vector<std::unique_ptr<Chatter>> chatters_;
  std::vector<std::thread> threads_;
  std::atomic<bool> over_{false};
};

TEST_P(MisuseByThreads, CloseInTheMidstOfTraffic) {
  begin();
  EXPECT_EQ(0, implementation().close());
  join();
}

TEST_P(MisuseByThreads, CancelsAndPostsFromOtherThreadsInTheMidstOfTraffic) {
  begin();
  std::vector<std::thread> others;
  Count posted;
  for (int t = 0; t < 4; ++t) {
    others.emplace_back([&, t] {
      for (int i = 0; i < 100; ++i) {
        EXPECT_EQ(0, post([&] { posted.add(); }));
        const SocketPair& pair = *sockets_[static_cast<std::size_t>(t % pairs)];
        EXPECT_NE(-1, implementation().cancel_aio(i % 2 == 0 ? pair.first : pair.second));
      }
    });
  }
  for (std::thread& each : others) each.join();
  EXPECT_TRUE(posted.reaches(400));
  EXPECT_EQ(0, implementation().close());
  join();
}

INSTANTIATE_TEST_SUITE_P(Threads, MisuseByThreads, testing::Values(1U, 8U),
                         [](const auto& one) { return std::to_string(one.param); });

}  // namespace
}  // namespace baton::ace::test
