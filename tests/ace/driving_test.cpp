// Driving: the results of handle_events, posted results, timers, wake-ups and the end of the event
// loop.
#include <ace/Countdown_Time.h>
#include <arpa/inet.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <future>
#include <set>
#include <thread>

#include "support.hpp"

namespace baton::ace::test {
namespace {

using namespace std::chrono_literals;

/// A user's own result, as in ACE's examples. It counts its completion and notes the thread.
class OwnResult final : public ACE_POSIX_Asynch_Result {
 public:
  struct Seen {
    std::mutex mutex;
    std::vector<int> order;
    std::atomic<int> alive{0};
    Count count;
    Count entered;
    std::function<void(int)> during;
  };
  OwnResult(ACE_Handler& handler, Seen& seen, int number)
      : ACE_POSIX_Asynch_Result(handler.proxy(), nullptr, ACE_INVALID_HANDLE, 0, 0, 0,
                                ACE_SIGRTMIN),
        seen_(seen),
        number_(number) {
    ++seen_.alive;
  }
  ~OwnResult() override { --seen_.alive; }
  void complete(std::size_t bytes, int success, const void*, u_long error) override {
    EXPECT_EQ(bytes, static_cast<std::size_t>(number_));
    EXPECT_EQ(success, number_ % 2 == 0 ? 1 : 0);
    EXPECT_EQ(error, number_ % 2 == 0 ? 0U : 5U);
    if (seen_.during) seen_.during(number_);
    {
      const std::lock_guard guard{seen_.mutex};
      seen_.order.push_back(number_);
    }
    seen_.count.add();
  }

 private:
  Seen& seen_;
  int number_;
};

class Driving : public AceTest {
 protected:
  int post(int number) {
    auto* const result = new OwnResult(handler_, seen_, number);
    result->set_bytes_transferred(static_cast<std::size_t>(number));
    result->set_error(number % 2 == 0 ? 0 : 5);
    const int answer = result->post_completion(ace()->implementation());
    if (answer != 0) delete result;
    return answer;
  }
  ~Driving() override {
    end();
    destroy();  // before what its completions use
  }

  ACE_Handler handler_;
  OwnResult::Seen seen_;
};

TEST_F(Driving, NothingToDoAnswersZeroAndCountsTheTimeDown) {
  ACE_Time_Value wait{0, 0};
  EXPECT_EQ(0, ace()->handle_events(wait));
  wait.set(0, 20'000);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(0, ace()->handle_events(wait));
  EXPECT_GE(std::chrono::steady_clock::now() - begin, 20ms);
  EXPECT_EQ(ACE_Time_Value::zero, wait);
}

// A program may drive from any thread, also from threads that end before others continue.
TEST_F(Driving, AThreadThatHasLeftBindsNothing) {
  std::promise<void> driven;
  std::promise<void> over;
  std::thread first{[&] {
    ACE_Time_Value wait{0, 0};
    EXPECT_EQ(0, ace()->handle_events(wait));
    driven.set_value();
    over.get_future().wait();
  }};
  driven.get_future().wait();
  ASSERT_EQ(0, post(1));
  ACE_Time_Value wait{patience.count()};
  EXPECT_NO_THROW(EXPECT_EQ(1, ace()->handle_events(wait)));
  over.set_value();
  first.join();
}

TEST_F(Driving, NegativeTimeIsRefused) {
  ACE_Time_Value wait{-1, 0};
  EXPECT_EQ(-1, ace()->handle_events(wait));
  EXPECT_EQ(EINVAL, errno);
}

TEST_F(Driving, OneCallDispatchesOnePostedResult) {
  for (int i = 0; i < 5; ++i) ASSERT_EQ(0, post(i));
  for (int i = 0; i < 5; ++i) {
    ACE_Time_Value wait{patience.count()};
    EXPECT_EQ(1, ace()->handle_events(wait));
    EXPECT_GT(wait, ACE_Time_Value::zero);
    EXPECT_EQ(i + 1, seen_.count.value());
  }
  ACE_Time_Value wait{0, 0};
  EXPECT_EQ(0, ace()->handle_events(wait));
  EXPECT_EQ((std::vector<int>{0, 1, 2, 3, 4}), seen_.order);
  EXPECT_EQ(0, seen_.alive);
}

TEST_F(Driving, PostedResultsReachAsManyThreadsAsThereAre) {
  run(2);
  // Each result holds its thread until the other one has a thread as well.
  seen_.during = [this](int) {
    seen_.entered.add();
    EXPECT_TRUE(seen_.entered.reaches(2));
  };
  ASSERT_EQ(0, post(0));
  ASSERT_EQ(0, post(1));
  EXPECT_TRUE(seen_.count.reaches(2));
}

TEST_F(Driving, ManyPostedByManyThreadsAllComplete) {
  run(4);
  constexpr int each = 2'500;
  std::vector<std::thread> posters;
  for (int t = 0; t < 4; ++t) {
    posters.emplace_back([this, t] {
      for (int i = 0; i < each; ++i) ASSERT_EQ(0, post(t * each + i));
    });
  }
  for (std::thread& poster : posters) poster.join();
  EXPECT_TRUE(seen_.count.reaches(4 * each));
  end();
  EXPECT_EQ(static_cast<std::size_t>(4 * each),
            std::set<int>(seen_.order.begin(), seen_.order.end()).size());
  EXPECT_EQ(0, seen_.alive);
}

TEST_F(Driving, EventLoopEndsWithOneThreadAndWithEight) {
  for (const unsigned threads : {1U, 8U}) {
    for (int round = 0; round < 20; ++round) {
      run(threads);
      end();  // hangs when a wake-up is lost
    }
  }
}

TEST_F(Driving, TimedLoopEndsByItself) {
  ACE_Time_Value wait{0, 20'000};
  EXPECT_EQ(0, ace()->proactor_run_event_loop(wait));
}

TEST_F(Driving, WaitWithoutEventsLastsToItsEnd) {
  ACE_Time_Value wait{0, 20'000};
  EXPECT_EQ(0, ace()->handle_events(wait));
  EXPECT_EQ(ACE_Time_Value::zero, wait);
}

TEST_F(Driving, ClosedAnswersShutdown) {
  EXPECT_EQ(0, implementation().close());
  EXPECT_EQ(-1, post(0));
  EXPECT_EQ(0, seen_.alive);
  ACE_Time_Value wait{0, 0};
  EXPECT_EQ(-1, ace()->handle_events(wait));
  EXPECT_EQ(ESHUTDOWN, errno);
  EXPECT_EQ(-1, implementation().start_aio(nullptr, ACE_POSIX_Proactor::ACE_OPCODE_READ));
  EXPECT_EQ(0, implementation().close());
}

TEST_F(Driving, PostedResultsThatWereNotTakenAreDeleted) {
  for (int i = 0; i < 100; ++i) ASSERT_EQ(0, post(i));
  EXPECT_EQ(0, implementation().close());
  EXPECT_EQ(0, seen_.alive);
  EXPECT_EQ(0, seen_.count.value());
}

// A signal without SA_RESTART ends the system's wait, and not the call.
TEST_F(Driving, ASignalDoesNotEndTheCall) {
  static std::atomic<int> signals{0};
  struct sigaction before{};
  struct sigaction count{};
  count.sa_handler = [](int) { signals.fetch_add(1); };
  ASSERT_EQ(0, ::sigaction(SIGUSR1, &count, &before));
  std::atomic<bool> ended{false};
  std::promise<pthread_t> driving;
  std::thread driver{[&] {
    driving.set_value(::pthread_self());
    ACE_Time_Value wait{patience.count()};
    EXPECT_EQ(1, ace()->handle_events(wait));
    ended = true;
  }};
  const pthread_t thread = driving.get_future().get();
  // More are sent than are counted: ThreadSanitizer keeps one that comes just before a system call
  // it does not know until that call ends, and the next signal ends it.
  while (signals < 100 && !ended) {
    ASSERT_EQ(0, ::pthread_kill(thread, SIGUSR1));
    std::this_thread::yield();
  }
  EXPECT_FALSE(ended);
  ASSERT_EQ(0, post(0));
  driver.join();
  ASSERT_EQ(0, ::sigaction(SIGUSR1, &before, nullptr));
}

// -- options --------------------------------------------------------------------------------------

/// The completions that each call of handle_events has dispatched.
class Dispatched final : public ACE_Handler {
 public:
  void handle_read_stream(const ACE_Asynch_Read_Stream::Result& result) override {
    EXPECT_EQ(1U, result.bytes_transferred());
    ++now;
  }
  void handle_write_stream(const ACE_Asynch_Write_Stream::Result& result) override {
    EXPECT_EQ(5U, result.bytes_transferred());
    ++now;
  }
  /// False: nothing came in time.
  bool next(Proactor& proactor) {
    now = 0;
    ACE_Time_Value wait{patience.count()};
    if (proactor.handle_events(wait) != 1) return false;
    all += now;
    return true;
  }
  int now = 0;
  int all = 0;
};

TEST(Batch, IsTheMostThatACallDispatches) {
  for (const int batch : {1, 3}) {
    Proactor proactor{Config::from_environment(), {.batch = static_cast<std::size_t>(batch)}};
    Dispatched dispatched;
    std::vector<std::unique_ptr<SocketPair>> pairs;
    std::vector<std::unique_ptr<ACE_Message_Block>> blocks;
    for (int i = 0; i < 20; ++i) {
      pairs.push_back(std::make_unique<SocketPair>());
      blocks.push_back(std::make_unique<ACE_Message_Block>(10));
      ASSERT_EQ(1, ::write(pairs.back()->second, "x", 1));
      const std::unique_ptr<ACE_Asynch_Read_Stream_Impl> reader{
          proactor.create_asynch_read_stream()};
      ASSERT_EQ(0, reader->open(dispatched.proxy(), pairs.back()->first, nullptr, nullptr));
      ASSERT_EQ(0, reader->read(*blocks.back(), 10, nullptr, 0, 0));
    }
    while (dispatched.all < 20) {
      ASSERT_TRUE(dispatched.next(proactor));
      EXPECT_GE(dispatched.now, 1);
      EXPECT_LE(dispatched.now, batch);
    }
  }
}

TEST(Lazy, NothingStartsOutsideOfHandleEvents) {
  Proactor proactor{Config::from_environment(), {.lazy = true}};
  Dispatched dispatched;
  const SocketPair pair;
  const std::unique_ptr<ACE_Asynch_Write_Stream_Impl> writer{proactor.create_asynch_write_stream()};
  ASSERT_EQ(0, writer->open(dispatched.proxy(), pair.first, nullptr, nullptr));
  char got[20];
  for (int round = 0; round < 3; ++round) {  // the first one also adopts the descriptor
    ACE_Message_Block block(10);
    block.copy("hello", 5);
    ASSERT_EQ(0, writer->write(block, 5, nullptr, 0, 0));
    EXPECT_EQ(-1, ::recv(pair.second, got, sizeof(got), MSG_DONTWAIT));
    EXPECT_EQ(EAGAIN, errno);
    ASSERT_TRUE(dispatched.next(proactor));
    EXPECT_EQ(1, dispatched.now);
    EXPECT_EQ(5, ::recv(pair.second, got, sizeof(got), MSG_DONTWAIT));
  }
}

/// Keeps the error of each read.
class Errors final : public ACE_Handler {
 public:
  void handle_read_stream(const ACE_Asynch_Read_Stream::Result& result) override {
    errors.push_back(result.error());
  }
  /// Handles events until there are so many errors. False: out of time.
  bool reach(Proactor& proactor, std::size_t count) {
    while (errors.size() < count) {
      ACE_Time_Value wait{patience.count()};
      if (proactor.handle_events(wait) != 1) return false;
    }
    return true;
  }
  std::vector<u_long> errors;
};

TEST(Lazy, WaitingStartsCanBeCancelled) {
  Proactor proactor{Config::from_environment(), {.lazy = true}};
  Errors errors;
  const SocketPair pair;
  ACE_Message_Block block(10);
  const std::unique_ptr<ACE_Asynch_Read_Stream_Impl> reader{proactor.create_asynch_read_stream()};
  ASSERT_EQ(0, reader->open(errors.proxy(), pair.first, nullptr, nullptr));
  for (int i = 0; i < 3; ++i) ASSERT_EQ(0, reader->read(block, 10, nullptr, 0, 0));
  EXPECT_EQ(0, reader->cancel());
  ASSERT_TRUE(errors.reach(proactor, 3));
  EXPECT_EQ(std::vector<u_long>(3, ECANCELED), errors.errors);
  EXPECT_EQ(1, reader->cancel());
}

TEST(Lazy, WaitingStartsTakeNothingFromTheNextFile) {
  Proactor proactor{Config::from_environment(), {.lazy = true}};
  Errors before;
  Errors after;
  SocketPair pair;
  ACE_Message_Block block(10);
  const std::unique_ptr<ACE_Asynch_Read_Stream_Impl> first{proactor.create_asynch_read_stream()};
  ASSERT_EQ(0, first->open(before.proxy(), pair.first, nullptr, nullptr));
  ASSERT_EQ(0, first->read(block, 10, nullptr, 0, 0));
  const SocketPair next;
  ASSERT_EQ(pair.first, ::dup2(next.first, pair.first));
  ACE_Message_Block other(10);
  const std::unique_ptr<ACE_Asynch_Read_Stream_Impl> second{proactor.create_asynch_read_stream()};
  ASSERT_EQ(0, second->open(after.proxy(), pair.first, nullptr, nullptr));
  ASSERT_EQ(0, second->read(other, 10, nullptr, 0, 0));
  ASSERT_EQ(1, ::write(next.second, "x", 1));
  ASSERT_TRUE(after.reach(proactor, 1));
  EXPECT_EQ(0U, after.errors[0]);
  EXPECT_EQ(1U, other.length());
  ASSERT_TRUE(before.reach(proactor, 1));
  EXPECT_EQ(static_cast<u_long>(ECANCELED), before.errors[0]);
}

// No operation is opened for the next file before the event loop runs.
TEST(Lazy, WaitingStartsCompareTheirFile) {
  Proactor proactor{Config::from_environment(), {.lazy = true}};
  Errors errors;
  const SocketPair pair;
  ACE_Message_Block block(10);
  const std::unique_ptr<ACE_Asynch_Read_Stream_Impl> reader{proactor.create_asynch_read_stream()};
  ASSERT_EQ(0, reader->open(errors.proxy(), pair.first, nullptr, nullptr));
  ASSERT_EQ(0, reader->read(block, 10, nullptr, 0, 0));
  const SocketPair next;
  ASSERT_EQ(pair.first, ::dup2(next.first, pair.first));
  ASSERT_EQ(1, ::write(next.second, "x", 1));
  ASSERT_TRUE(errors.reach(proactor, 1));
  EXPECT_EQ(static_cast<u_long>(ECANCELED), errors.errors[0]);
  ASSERT_EQ(0, reader->read(block, 10, nullptr, 0, 0));
  ASSERT_TRUE(errors.reach(proactor, 2));
  EXPECT_EQ(0U, errors.errors[1]);
  EXPECT_EQ(1U, block.length());
}

/// Counts its accepts, and closes the connections.
class Accepts final : public ACE_Handler {
 public:
  void handle_accept(const ACE_Asynch_Accept::Result& result) override {
    errors.push_back(result.error());
    if (result.success() != 0) ::close(result.accept_handle());
  }
  std::vector<u_long> errors;
};

// A socket that had an operation before it listened. Its accepts wait until it is adopted anew.
TEST_F(Driving, AcceptsOnASocketThatHadAnOperationBeforeAllWait) {
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  Errors reads;
  ACE_Asynch_Read_Stream reader;
  ACE_Message_Block block(10);
  ASSERT_EQ(0, reader.open(reads, listener, nullptr, ace()));
  ASSERT_EQ(0, reader.read(block, 10));
  ASSERT_TRUE(drive([&] { return reads.errors.size() == 1; }));
  ASSERT_EQ(0, ::listen(listener, 5));
  sockaddr_in address{};
  socklen_t size = sizeof(address);
  ASSERT_EQ(0, ::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  Accepts accepts;
  ACE_Asynch_Accept accept;
  ACE_Message_Block blocks[3]{ACE_Message_Block{300}, ACE_Message_Block{300},
                              ACE_Message_Block{300}};
  ASSERT_EQ(0, accept.open(accepts, listener, nullptr, ace()));
  for (ACE_Message_Block& each : blocks) ASSERT_EQ(0, accept.accept(each, 0));
  std::vector<int> clients;
  for (std::size_t i = 1; i <= 3; ++i) {
    clients.push_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(0, ::connect(clients.back(), reinterpret_cast<sockaddr*>(&address), size));
    ASSERT_TRUE(drive([&] { return accepts.errors.size() >= i; }));
  }
  EXPECT_EQ(std::vector<u_long>(3, 0), accepts.errors);
  for (const int each : clients) ::close(each);
}

// -- timers ---------------------------------------------------------------------------------------

/// Each call schedules two more until there are enough.
class Ticks final : public ACE_Handler {
 public:
  Ticks(ACE_Proactor* with, long enough) : ACE_Handler(with), enough_(enough) {}
  void begin() { schedule(); }
  void handle_time_out(const ACE_Time_Value&, const void* act) override {
    EXPECT_EQ(this, act);
    calls_.add();
    schedule();
    schedule();
  }
  Count calls_;

 private:
  void schedule() {
    if (scheduled_.fetch_add(1) >= enough_) return;
    EXPECT_NE(-1, proactor()->schedule_timer(*this, this, ACE_Time_Value::zero));
  }
  const long enough_;
  std::atomic<long> scheduled_{0};
};

TEST_F(Driving, EightThreadsScheduleAHundredThousandTimers) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  constexpr long enough = 10'000;
#else
  constexpr long enough = 100'000;
#endif
  Ticks ticks{ace(), enough};
  run(8);
  for (int i = 0; i < 8; ++i) ticks.begin();
  EXPECT_TRUE(ticks.calls_.reaches(enough));
  end();
  EXPECT_EQ(enough, ticks.calls_.value());
  destroy();
}

TEST_F(Driving, StopsInTheMidstOfTimers) {
  Ticks ticks{ace(), 1'000'000'000};
  run(8);
  for (int i = 0; i < 8; ++i) ticks.begin();
  EXPECT_TRUE(ticks.calls_.reaches(1'000));
  end();
  destroy();
}

TEST_F(Driving, ClosesInTheMidstOfTimers) {
  Ticks ticks{ace(), 1'000'000'000};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([this] { EXPECT_EQ(-1, ace()->proactor_run_event_loop()); });
  }
  for (int i = 0; i < 8; ++i) ticks.begin();
  EXPECT_TRUE(ticks.calls_.reaches(1'000));
  EXPECT_EQ(0, implementation().close());
  const long calls = ticks.calls_.value();
  for (std::thread& each : threads) each.join();
  destroy();
  EXPECT_EQ(calls, ticks.calls_.value());
}

TEST_F(Driving, CancelledTimerDoesNotFire) {
  Ticks ticks{ace(), 0};
  const long id = ace()->schedule_timer(ticks, nullptr, ACE_Time_Value{3'600});
  ASSERT_NE(-1, id);
  EXPECT_EQ(1, ace()->cancel_timer(id));
  destroy();
}

}  // namespace
}  // namespace baton::ace::test
