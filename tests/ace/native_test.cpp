// Baton's own objects beside ACE's in one event loop (Proactor::native).
#include <array>
#include <cerrno>
#include <new>
#include <stdexcept>
#include <system_error>

#include "baton/baton.hpp"
#include "support.hpp"

namespace baton::ace::test {
namespace {

class Native : public AceTest {
 protected:
  [[nodiscard]] baton::Proactor& native() { return bridge().native(); }
};

/// Answers each byte until its peer ends.
Task<void> play(StreamSocket socket, bool begins, const std::atomic<bool>& over) {
  std::array<std::byte, 1> ball{};
  if (begins) static_cast<void>(co_await socket.write_all(ball));
  while (!over) {
    const auto got = co_await socket.read(ball);
    if (!got || *got == 0) co_return;
    static_cast<void>(co_await socket.write_all(ball));
  }
}

// Their handlers follow each other without end, and ACE has nothing to do.
TEST_F(Native, BusySocketsDoNotHoldACallBeyondItsTime) {
  std::atomic<bool> over{false};
  auto pair = StreamSocket::pair(native());
  ASSERT_TRUE(pair);
  native().spawn(play(std::move(pair->first), true, over));
  native().spawn(play(std::move(pair->second), false, over));
  for (const suseconds_t time : {0, 1, 20'000}) {
    ACE_Time_Value wait{0, time};
    EXPECT_EQ(0, ace()->handle_events(wait));
    EXPECT_EQ(ACE_Time_Value::zero, wait);
  }
  ACE_Time_Value wait{0, 20'000};
  EXPECT_EQ(0, ace()->proactor_run_event_loop(wait));
  over = true;
  destroy();  // before what the handlers use
}

TEST_F(Native, PostedWorkThatPostsItselfDoesNotHoldACallBeyondItsTime) {
  bool over = false;
  std::function<void()> again = [&] {
    if (over) return;
    EXPECT_FALSE(native().post([&] { again(); }));
  };
  again();
  for (const suseconds_t time : {0, 1, 20'000}) {
    ACE_Time_Value wait{0, time};
    EXPECT_EQ(0, ace()->handle_events(wait));
    EXPECT_EQ(ACE_Time_Value::zero, wait);
  }
  over = true;
  destroy();  // before what the handlers use
}

// A program that only polls reaches everything that is due.
TEST_F(Native, ACallWithoutTimeGoesBeyondTheHandlersOfBatonsObjects) {
  for (int i = 0; i < 500; ++i) ASSERT_FALSE(native().post([] {}));
  ACE_Handler handler;
  int posted = 0;
  ASSERT_EQ(0, implementation().post_completion(new PostedCall(handler, [&] { ++posted; })));
  ACE_Time_Value wait{0, 0};
  EXPECT_EQ(1, ace()->handle_events(wait));
  EXPECT_EQ(1, posted);
}

/// What the next calls of handle_events throw.
template <class Exception>
bool throws(ACE_Proactor& proactor) {
  try {
    for (int i = 0; i < 1'000; ++i) {
      ACE_Time_Value wait{0, 10'000};
      if (proactor.handle_events(wait) == -1) return false;
    }
    return false;
  } catch (const Exception&) {
    return true;
  }
}

TEST_F(Native, ExceptionsOfBatonsHandlersReachTheCaller) {
  ASSERT_FALSE(native().post([] { throw std::runtime_error("of a handler"); }));
  EXPECT_TRUE(throws<std::runtime_error>(*ace()));
  ASSERT_FALSE(native().post([] { throw std::system_error(EIO, std::system_category()); }));
  EXPECT_TRUE(throws<std::system_error>(*ace()));
  // As Baton itself throws it, but not as DrivingRefused.
  ASSERT_FALSE(native().post([] { throw std::system_error(make_error_code(errc::wrong_thread)); }));
  EXPECT_TRUE(throws<std::system_error>(*ace()));
  ASSERT_FALSE(native().post([] { throw std::bad_alloc(); }));
  EXPECT_TRUE(throws<std::bad_alloc>(*ace()));
  ASSERT_FALSE(native().post([] { throw 5; }));
  EXPECT_TRUE(throws<int>(*ace()));
}

// -- Baton's own loop -----------------------------------------------------------------------------

/// Counts its timers and wake-ups.
class TimerTicks final : public ACE_Handler {
 public:
  void handle_time_out(const ACE_Time_Value&, const void*) override { times.add(); }
  Count times;
};

/// A thread in the loop of the proactor underneath.
class OwnLoop {
 public:
  explicit OwnLoop(baton::Proactor& proactor)
      : proactor_(proactor), thread_([&proactor] { proactor.run(); }) {}
  ~OwnLoop() {
    proactor_.stop();
    thread_.join();
    proactor_.restart();
  }
  OwnLoop(const OwnLoop&) = delete;
  OwnLoop& operator=(const OwnLoop&) = delete;

 private:
  baton::Proactor& proactor_;
  std::thread thread_;
};

TEST_F(Native, ItsOwnLoopDeliversTimersAndPostedResults) {
  TimerTicks ticks;
  const OwnLoop loop{native()};
  for (int i = 0; i < 20; ++i) {
    ASSERT_NE(-1, ace()->schedule_timer(ticks, nullptr, ACE_Time_Value{0, 100 * i}));
  }
  EXPECT_TRUE(ticks.times.reaches(20));
  Count posted;
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(0, implementation().post_completion(new PostedCall(ticks, [&] { posted.add(); })));
  }
  EXPECT_TRUE(posted.reaches(20));
}

// It rests meanwhile, and runs nothing but what the test posts.
TEST_F(Native, ItsOwnLoopKeepsWakeUpsForTheNextCallOfAce) {
  {
    const OwnLoop loop{native()};
    ASSERT_EQ(0, ace()->implementation()->post_wakeup_completions(1));
    const std::uint64_t before = native().statistics().completed;
    constexpr int rounds = 100;
    Count count;
    for (int i = 1; i <= rounds; ++i) {
      ASSERT_FALSE(native().post([&] { count.add(); }));
      ASSERT_TRUE(count.reaches(i));
    }
    EXPECT_LE(native().statistics().completed - before, rounds + native().lanes());
  }
  ACE_Time_Value wait{patience.count()};
  EXPECT_EQ(1, ace()->handle_events(wait));
}

// In per_thread mode each of the two threads needs a lane.
TEST_F(Native, ItsOwnLoopLeavesWakeUpsToThreadsOfAce) {
  const OwnLoop loop{native()};
  for (int round = 0; round < 50; ++round) {
    std::thread thread{[this] { EXPECT_NE(-1, ace()->proactor_run_event_loop()); }};
    // Some of these find the thread in handle_events.
    for (int turns = 0; turns < 20 * round; ++turns) std::this_thread::yield();
    ASSERT_EQ(0, ace()->proactor_end_event_loop());
    thread.join();  // hangs when the wake-up is lost
    ace()->proactor_reset_event_loop();
  }
}

}  // namespace
}  // namespace baton::ace::test
