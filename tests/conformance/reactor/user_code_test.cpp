// User code outside of handler calls: on_close, and the destructors of objects that the reactor
// keeps. Like a handler, it may run long and wait for the reactor's other threads.
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "baton/error.hpp"
#include "harness.hpp"
#include "support/patience.hpp"

namespace baton::test {
namespace {

/// Does something when it is destroyed.
struct AtEnd {
  explicit AtEnd(std::function<void()> action) : act(std::move(action)) {}
  ~AtEnd() { act(); }
  AtEnd(const AtEnd&) = delete;
  AtEnd& operator=(const AtEnd&) = delete;
  std::function<void()> act;
};

/// Two registrations: the callback of the first waits until the second was called.
struct Two {
  explicit Two(Reactor& reactor) : loop(reactor) {}
  void add_other() { ASSERT_TRUE(loop.add(pair.ours.get(), Interest::in, other).has_value()); }
  void wait_for_other() {
    pair.make_readable();
    wait_for([this] { return other.calls > 0; });
    waited = true;
  }
  Reactor& loop;
  SocketPair pair;
  Reader other;
  std::atomic<bool> waited{false};
};

struct WaitsAtClose final : Reader {
  std::function<void()> at_close{};
  void on_close(NativeHandle fd, std::error_code error) noexcept override {
    at_close();
    Reader::on_close(fd, error);
  }
};

}  // namespace

TEST_P(reactor, on_close_may_wait_for_the_others) {
  for (const Next last : {Next::remove, Next::drop}) {
    Two two(loop());
    const SocketPair pair;
    WaitsAtClose closing;
    closing.next = last;
    closing.at_close = [&] { two.wait_for_other(); };
    two.add_other();
    ASSERT_TRUE(loop().add(pair.ours.get(), Interest::in, closing).has_value());
    start_threads(3);
    pair.make_readable();
    wait_for([&] { return closing.closed == 1; });
    join_threads();
    EXPECT_TRUE(two.waited);
    replace({});
  }
}

TEST_P(reactor, the_destructor_of_a_timers_callback_may_wait_for_the_others) {
  Two two(loop());
  two.add_other();
  start_threads(3);
  auto held = std::make_shared<AtEnd>([&] { two.wait_for_other(); });
  ASSERT_TRUE(loop().schedule([keeps = std::move(held)](TimerKey, Deadline) { return Next::keep; },
                              Deadline::immediately()));
  wait_for([&] { return two.waited.load(); });
  join_threads();
  replace({});
}

TEST_P(reactor, the_destructor_of_a_notification_may_wait_for_the_others) {
  Two two(loop());
  two.add_other();
  start_threads(3);
  auto held = std::make_shared<AtEnd>([&] { two.wait_for_other(); });
  ASSERT_FALSE(loop().notify([keeps = std::move(held)] {}));
  wait_for([&] { return two.waited.load(); });
  join_threads();
  replace({});
}

// Another thread may call the reactor meanwhile, and need not wait.
TEST_P(reactor, what_it_forgets_is_destroyed_without_its_lock) {
  std::vector<std::thread> callers;
  int gone = 0;
  const auto lets_others_call = [&] {
    return std::make_shared<AtEnd>([&] {
      const auto answered = std::make_shared<std::atomic<bool>>(false);
      callers.emplace_back([this, answered] {
        static_cast<void>(loop().timers());
        *answered = true;
      });
      wait_for([&] { return answered->load(); });
      ++gone;
    });
  };
  const auto timer = loop().schedule(
      [keeps = lets_others_call()](TimerKey, Deadline) { return Next::keep; }, Deadline::never());
  EXPECT_TRUE(loop().cancel(timer.value()));
  EXPECT_EQ(gone, 1);
  ASSERT_FALSE(loop().notify([keeps = lets_others_call()] {}));
  EXPECT_EQ(loop().purge(nullptr), 1U);
  EXPECT_EQ(gone, 2);
  const SocketPair pair;
  const auto key =
      loop().add(pair.ours.get(), Interest::in,
                 [keeps = lets_others_call()](NativeHandle, Interest) { return Next::keep; });
  EXPECT_EQ(loop().remove(key.value()), Reactor::Removal::done);
  EXPECT_EQ(gone, 3);
  for (std::thread& caller : callers) caller.join();
}

// As inside a call of run().
TEST_P(reactor, one_that_is_destroyed_by_a_removal_ends_the_program_with_the_advice) {
  struct Destroys final : Reader {
    void on_close(NativeHandle, std::error_code) noexcept override { owned.reset(); }
    std::unique_ptr<Reactor> owned;
  };
  const auto destroys = [this] {
    Destroys handler;
    handler.owned = opened();
    Reactor& mine = *handler.owned;
    const SocketPair pair;
    static_cast<void>(mine.remove(mine.add(pair.ours.get(), Interest::in, handler).value()));
  };
  EXPECT_DEATH(destroys(), "was destroyed inside one of its own handlers");
}

// exit() in a handler of a static reactor, which is left as it is. No other thread comes out of
// run(), where it could use what is destroyed. The main thread removes (0), or is in run().
TEST_P(reactor, a_handler_may_call_exit) {
  struct ExitsAtClose final : Reader {
    void on_close(NativeHandle, std::error_code) noexcept override { std::exit(7); }
  };
  struct IsLeft final : Reader {
    void on_close(NativeHandle, std::error_code) noexcept override { ::_exit(5); }
  };
  // Threads that come out of run() have the time to.
  struct Lingers {
    ~Lingers() { std::this_thread::sleep_for(std::chrono::milliseconds{20}); }
  };
  const auto exits = [this](int how) {
    static const Lingers end;
    static IsLeft other;
    static ExitsAtClose closing;
    static const SocketPair pair;
    static const SocketPair ready;
    static std::unique_ptr<Reactor> left;  // is destroyed first
    left = opened();
    static_cast<void>(left->add(pair.ours.get(), Interest::in, other));
    const auto key = left->add(ready.ours.get(), Interest::in, closing);
    if (how == 0) static_cast<void>(left->remove(key.value()));
    // A thread that came to run() later would use a reactor that is gone.
    std::atomic<int> inside{0};
    for (int i = 0; i < 2; ++i) {
      static_cast<void>(left->notify([&] {
        ++inside;
        wait_for([&] { return inside == 2; });
      }));
    }
    std::thread([] {
      static_cast<void>(left->run());
      ::_exit(4);
    }).detach();
    std::thread([&] {
      wait_for([&] { return inside == 2; });
      if (how == 1) {
        closing.next = Next::remove;
        ready.make_readable();
      }
      if (how == 2) static_cast<void>(left->notify([] { std::exit(7); }));
      if (how == 3) {
        static_cast<void>(left->schedule([](TimerKey, Deadline) -> Next { std::exit(7); },
                                         Deadline::immediately()));
      }
    }).detach();
    static_cast<void>(left->run());
    ::_exit(4);
  };
  for (int how = 0; how < 4; ++how) {
    EXPECT_EXIT(exits(how), testing::ExitedWithCode(7), "") << how;
  }
}

// All that a reactor keeps is destroyed while the reactor is whole.
TEST_P(reactor, its_end_destroys_what_calls_it) {
  int gone = 0;
  const SocketPair pair;
  const auto calls_all = [&](Reactor& owner) {
    return std::make_shared<AtEnd>([&gone, &owner] {
      static_cast<void>(owner.purge(nullptr));
      static_cast<void>(owner.timers());
      static_cast<void>(owner.remove_signal(SIGUSR1));
      EXPECT_EQ(owner.notify([] {}), errc::stopped);
      EXPECT_EQ(
          owner.schedule([](TimerKey, Deadline) { return Next::keep; }, Deadline::never()).error(),
          errc::stopped);
      ++gone;
    });
  };
  const auto never = [](TimerKey, Deadline) { return Next::keep; };
  ASSERT_TRUE(loop().schedule(
      [keeps = calls_all(loop()), never](TimerKey key, Deadline due) { return never(key, due); },
      Deadline::never()));
  auto looks = std::make_shared<AtEnd>([&owner = loop()] { EXPECT_EQ(owner.timers(), 0U); });
  ASSERT_TRUE(loop().schedule([keeps = std::move(looks)](TimerKey, Deadline) { return Next::keep; },
                              Deadline::never()));
  ASSERT_FALSE(loop().notify([keeps = calls_all(loop())] {}));
  ASSERT_FALSE(loop().add_signal(SIGUSR1, [keeps = calls_all(loop())](int) { return Next::keep; }));
  ASSERT_TRUE(
      loop().add(pair.ours.get(), Interest::in,
                 [keeps = calls_all(loop())](NativeHandle, Interest) { return Next::keep; }));
  replace({});
  EXPECT_EQ(gone, 4);
}

TEST_P(reactor, its_end_takes_on_nothing_new) {
  struct AddsAtClose final : Reader {
    Reactor* loop = nullptr;
    NativeHandle other = invalid_handle;
    std::error_code refused;
    void on_close(NativeHandle, std::error_code) noexcept override {
      ++closed;
      refused = loop->add(other, Interest::in, *this).error();
    }
  };
  const SocketPair pair;
  const SocketPair other;
  auto& handler = make<AddsAtClose>();
  handler.loop = &loop();
  handler.other = other.ours.get();
  ASSERT_TRUE(loop().add(pair.ours.get(), Interest::in, handler).has_value());
  replace({});
  EXPECT_EQ(handler.closed, 1);
  EXPECT_EQ(handler.refused, errc::stopped);
}

// A timer that answers so has ended, and gets on_close as a registration does.
TEST_P(reactor, a_timer_that_answers_remove_is_closed) {
  struct Ticks final : Reader {
    Next on_timeout(TimerKey, Deadline) override { return ++calls, answer; }
    void on_close(NativeHandle fd, std::error_code error) noexcept override {
      EXPECT_EQ(fd, invalid_handle);
      Reader::on_close(fd, error);
    }
    Next answer = Next::remove;
  };
  const auto interval = std::chrono::milliseconds{1};
  for (const Next answer : {Next::remove, Next::drop, Next::keep}) {
    auto& ticks = make<Ticks>();
    ticks.answer = answer;
    const bool once = answer == Next::keep;
    ASSERT_TRUE(loop().schedule(ticks, Deadline::immediately(), once ? Duration{} : interval));
    run_until([&] { return loop().timers() == 0; });
    EXPECT_EQ(ticks.calls, 1);
    EXPECT_EQ(ticks.closed, answer == Next::remove ? 1 : 0);
    EXPECT_FALSE(ticks.why);
  }
}

}  // namespace baton::test
