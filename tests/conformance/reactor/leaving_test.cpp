// Which threads return, and when: wake, end with restart, and timeouts.
#include <sched.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <thread>

#include "harness.hpp"
#include "support/sleeping_thread.hpp"

namespace baton::test {

// Whether that thread leads, follows as the one that looks now and then, or sleeps.
TEST_P(reactor, a_wake_up_reaches_a_thread_in_handle_events) {
  for (const int before : {0, 1, 2}) {
    std::atomic<bool> back{false};
    {
      std::deque<WatchedThread> threads;
      const auto begin = [&](const std::function<void()>& work) {
        threads.emplace_back(work).until_asleep([] { return true; });
      };
      for (int i = 0; i < 3; ++i) {
        if (i == before) {
          begin([&] {
            EXPECT_EQ(loop().handle_events().value_or(99), 0U);
            back = true;
          });
        } else {
          begin([&] { EXPECT_TRUE(loop().run().has_value()); });
        }
      }
      loop().wake();
      wait_for([&] { return back.load(); });
      loop().end();
    }
    loop().restart();
  }
}

TEST_P(reactor, a_wake_up_waits_for_a_thread) {
  loop().wake();
  EXPECT_TRUE(returns_at_once());
}

// Not for one in run(), which does not return for it.
TEST_P(reactor, a_wake_up_is_left_to_a_thread_in_handle_events) {
  loop().wake();
  ASSERT_FALSE(loop().notify([&] { loop().end(); }));
  EXPECT_TRUE(loop().run().has_value());
  loop().restart();
  EXPECT_TRUE(returns_at_once());
}

// A restart right after it is for threads that come later.
TEST_P(reactor, an_end_is_for_all_that_are_inside) {
  for (int round = 0; round < 20; ++round) {
    std::atomic<int> inside{0};
    std::atomic<int> back{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i) {
      EXPECT_FALSE(loop().notify([&] {
        ++inside;
        wait_for([&] { return inside == 3; });
      }));
      threads.emplace_back([&] {
        EXPECT_TRUE(loop().run().has_value());
        ++back;
      });
    }
    wait_for([&] { return inside == 3; });
    loop().end();
    loop().restart();
    wait_for([&] { return back == 3; });
    loop().end();
    for (std::thread& thread : threads) thread.join();
    loop().restart();
  }
}

// Other threads that queue more work each time do not keep a thread beyond its time limit.
TEST_P(reactor, a_time_limit_holds_beside_those_that_always_have_more) {
  const SocketPair pair;
  std::atomic<bool> stop{false};
  auto& busy = make<Reader>();
  busy.next = Next::again;
  busy.also = [&](NativeHandle) {
    if (stop) busy.next = Next::keep;
  };
  ASSERT_TRUE(loop().add(pair.ours.get(), Interest::in, busy).has_value());
  start_threads(2);
  pair.make_readable();
  wait_for([&] { return busy.calls > 0; });
  for (const int ms : {0, 1, 5}) {
    std::atomic<bool> back{false};
    std::thread limited([&] {
      const Deadline until =
          ms == 0 ? Deadline::immediately() : Deadline::after(std::chrono::milliseconds{ms});
      EXPECT_TRUE(loop().handle_events(until).has_value());
      back = true;
    });
    wait_for([&] { return back.load(); });
    limited.join();
  }
  stop = true;
  join_threads();
}

}  // namespace baton::test
