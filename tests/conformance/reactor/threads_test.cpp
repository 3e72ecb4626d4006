// Many threads: no handler runs twice at once or is forgotten, and no thread wakes in vain.
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <memory>
#include <stdexcept>

#include "harness.hpp"
#include "support/counting_system.hpp"
#include "support/sleeping_thread.hpp"

namespace baton::test {
namespace {

using Suspension = ReactorTuning::Suspension;
using Resumption = ReactorTuning::Resumption;

/// Reads byte by byte until nothing is left.
struct ByteReader final : Reader {
  Next on_input(NativeHandle fd) override {
    if (inside.fetch_add(1) != 0) overlapped = true;
    char byte;
    if (::read(fd, &byte, 1) == 1) ++bytes;
    ++calls;
    --inside;
    return Next::keep;
  }
};

void send_all(int fd, std::size_t count) {
  const std::string block(64, 'x');
  while (count > 0) {
    const ssize_t sent = ::send(fd, block.data(), std::min(count, block.size()), MSG_NOSIGNAL);
    if (sent > 0) {
      count -= static_cast<std::size_t>(sent);
    } else {
      ::sched_yield();
    }
  }
}

}  // namespace

TEST_P(reactor, no_call_overlaps_and_no_byte_is_lost) {
  constexpr std::size_t count = 8;
  constexpr std::size_t each = 400;
  for (const ReactorTuning& tuning :
       {ReactorTuning{}, ReactorTuning{.resumption = Resumption::immediate},
        ReactorTuning{.keep_lead = false}, ReactorTuning{.suspension = Suspension::eager},
        ReactorTuning{.suspension = Suspension::eager, .resumption = Resumption::immediate},
        ReactorTuning{.suspension = Suspension::eager, .keep_lead = false},
        ReactorTuning{.suspension = Suspension::eager,
                      .resumption = Resumption::token,
                      .keep_lead = false,
                      .token_line = true,
                      .suspend_notifier = true,
                      .reports_max = 1},
        ReactorTuning{.reports_max = 1}}) {
    SCOPED_TRACE(testing::Message()
                 << "suspension " << static_cast<int>(tuning.suspension) << ", resumption "
                 << static_cast<int>(tuning.resumption) << ", keep_lead " << tuning.keep_lead
                 << ", reports " << tuning.reports_max);
    replace({.tuning = tuning});
    const std::vector<SocketPair> pairs(count);
    auto& readers = make<std::array<ByteReader, count>>();
    for (std::size_t i = 0; i < count; ++i) {
      ASSERT_TRUE(loop().add(pairs[i].ours.get(), Interest::in, readers[i]).has_value());
    }
    start_threads(3);
    std::vector<std::thread> senders;
    for (std::size_t i = 0; i < 2; ++i) {
      senders.emplace_back([&, i] {
        for (std::size_t k = i; k < count; k += 2) send_all(pairs[k].peer.get(), each);
      });
    }
    for (std::thread& sender : senders) sender.join();
    for (const ByteReader& reader : readers) {
      wait_for([&] { return reader.bytes == each; });
      EXPECT_FALSE(reader.overlapped);
    }
    join_threads();
    const ReactorStatistics statistics = loop().statistics();
    if (tuning.resumption == Resumption::late && loop().info().changes_during_wait) {
      EXPECT_EQ(statistics.resume_notices, 0U);
    }
    replace({});
  }
}

// One thread is stuck in a handler; the other registrations are served all the same.
TEST_P(reactor, a_long_call_delays_no_other_registration) {
  const SocketPair slow_pair;
  const SocketPair quick_pair;
  std::atomic<bool> entered{false};
  std::atomic<bool> go_on{false};
  auto& slow = make<Reader>();
  slow.also = [&](NativeHandle) {
    entered = true;
    wait_for([&] { return go_on.load(); });
  };
  auto& quick = make<Reader>();
  ASSERT_TRUE(loop().add(slow_pair.ours.get(), Interest::in, slow).has_value());
  ASSERT_TRUE(loop().add(quick_pair.ours.get(), Interest::in, quick).has_value());
  start_threads(2);
  slow_pair.make_readable();
  wait_for([&] { return entered.load(); });
  for (int i = 1; i <= 5; ++i) {
    quick_pair.make_readable();
    wait_for([&] { return quick.bytes == static_cast<std::size_t>(i); });
    slow_pair.make_readable();  // and it is not called a second time meanwhile
  }
  int ticks = 0;
  ASSERT_TRUE(loop().schedule([&](TimerKey, Deadline) { return ++ticks, Next::keep; },
                              Deadline::immediately()));
  std::atomic<bool> told{false};
  EXPECT_FALSE(loop().notify([&] { told = true; }));
  wait_for([&] { return told.load(); });
  EXPECT_EQ(slow.calls, 1);
  EXPECT_LE(loop().statistics().suspended, 1U) << "it is reported once, and not with each event";
  go_on = true;
  wait_for([&] { return slow.bytes == 6; });
  EXPECT_FALSE(slow.overlapped);
  join_threads();
  EXPECT_EQ(ticks, 1);
}

// A thread woken for two notifications takes the first; the second does not wait for its end.
TEST_P(reactor, a_long_call_keeps_no_notification_waiting) {
  struct Round {
    std::atomic<bool> long_one{false};
    std::atomic<bool> behind_it{false};
    std::atomic<bool> ended{false};
  };
  std::array<Round, 100> rounds;
  // One calls the outer one, one is woken for the two, and one leads and waits.
  start_threads(3);
  for (Round& round : rounds) {
    EXPECT_FALSE(loop().notify([&] {
      EXPECT_FALSE(loop().notify([&] {
        wait_for([&] { return round.behind_it.load(); });
        round.long_one = true;
      }));
      EXPECT_FALSE(loop().notify([&] { round.behind_it = true; }));
      wait_for([&] { return round.long_one.load(); });
      round.ended = true;
    }));
    wait_for([&] { return round.ended.load(); });
    if (HasFailure()) break;
  }
  join_threads();
}

// A long call moves the lead once. From then on the leader gives the lead up before a call, or
// leaves calls to others where moving the lead is expensive.
TEST_P(reactor, long_calls_move_the_lead_once) {
  const auto& info = loop().info();
  if (!info.any_thread_waits && !info.hands_over) GTEST_SKIP() << "the lead never moves";
  constexpr int calls = 20;
  replace({.system = &counting_system()});
  const auto moves = [&] { return loop().statistics().leads_taken; };
  const SocketPair pair;
  auto& slow = make<Reader>();
  slow.also = [&](NativeHandle) {
    if (slow.calls >= calls) return;
    if (slow.calls == 1) {
      wait_for([&] { return moves() == 1; });
    } else {
      // Nothing looks at this call any more once no other thread wakes up by itself.
      wait_for([&] { return system_calls().for_good == 3; });
    }
    pair.make_readable();
  };
  ASSERT_TRUE(loop().add(pair.ours.get(), Interest::in, slow).has_value());
  // One thread leads, one calls, one has just returned from a call, one sleeps.
  start_threads(4);
  pair.make_readable();
  wait_for([&] { return slow.calls >= calls; });
  join_threads();
  EXPECT_FALSE(slow.overlapped);
  EXPECT_EQ(moves(), 1U);
  replace({});
}

TEST_P(reactor, an_exception_ends_one_thread_and_no_other) {
  const SocketPair pair;
  auto& reader = make<Reader>();
  reader.also = [&](NativeHandle) {
    if (reader.calls == 1) throw std::runtime_error("expected");
  };
  ASSERT_TRUE(loop().add(pair.ours.get(), Interest::in, reader).has_value());
  std::atomic<int> thrown{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      try {
        EXPECT_TRUE(loop().run().has_value());
      } catch (const std::runtime_error&) {
        ++thrown;
      }
    });
  }
  pair.make_readable();
  wait_for([&] { return thrown == 1; });
  for (std::size_t i = 2; i <= 4; ++i) {
    pair.make_readable();
    wait_for([&] { return reader.bytes == i; });  // calls may be more: a report is a hint
  }
  loop().end();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(thrown, 1);
}

TEST_P(reactor, others_may_change_everything_meanwhile) {
  constexpr int rounds = 150;
  start_threads(3);
  std::atomic<int> closed{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < rounds; ++i) {
        const SocketPair pair;
        Reader reader;
        reader.next = i % 5 == 0 ? Next::again : Next::keep;
        const auto key = loop().add(pair.ours.get(), Interest::both, reader);
        ASSERT_TRUE(key.has_value());
        pair.make_readable();
        EXPECT_FALSE(loop().change(*key, Interest::in));
        if (i % 3 == 0) {
          EXPECT_FALSE(loop().suspend(*key));
        }
        EXPECT_FALSE(loop().notify(*key, Interest::in));
        if (i % 3 == 0) {
          EXPECT_FALSE(loop().resume(*key));
        }
        if ((i + t) % 2 == 0) wait_for([&] { return reader.calls > 0; });
        static_cast<void>(loop().remove_and_wait(*key));
        EXPECT_EQ(reader.closed, 1);
        EXPECT_FALSE(reader.overlapped);
        ++closed;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(closed, 3 * rounds);
  EXPECT_EQ(loop().size(), 0U);
  join_threads();
}

// A thread that stood in line for the token found its time over, and polled nothing.
TEST_P(reactor, a_call_that_does_not_wait_polls_with_a_line_for_the_token) {
  ReactorConfig config;
  config.tuning.keep_lead = false;
  config.tuning.token_line = true;
  replace(config);
  const SocketPair pair;
  auto& reader = make<Reader>();
  ASSERT_TRUE(loop().add(pair.ours.get(), Interest::in, reader).has_value());
  pair.make_readable();
  const Deadline limit = at_last();
  while (reader.calls == 0 && is_ahead(limit)) {
    ASSERT_TRUE(loop().handle_events(Deadline::immediately()).has_value());
  }
  EXPECT_EQ(reader.calls, 1);
}

TEST_P(reactor, end_wakes_all_and_restart_begins_anew) {
  const SocketPair pair;
  auto& reader = make<Reader>();
  ASSERT_TRUE(loop().add(pair.ours.get(), Interest::in, reader).has_value());
  for (std::size_t i = 0; i < 5; ++i) {
    start_threads(4);
    pair.make_readable();
    wait_for([&] { return reader.bytes == i + 1; });
    join_threads();
  }
  loop().end();
  EXPECT_TRUE(loop().ended());
  EXPECT_TRUE(returns_at_once());
  for (int i = 0; i < 2; ++i) {  // the second has nothing to do
    loop().restart();
    EXPECT_FALSE(loop().ended());
  }
}

TEST_P(reactor, a_handler_may_end_it) {
  const SocketPair pair;
  auto& reader = make<Reader>();
  reader.also = [&](NativeHandle) { loop().end(); };
  ASSERT_TRUE(loop().add(pair.ours.get(), Interest::in, reader).has_value());
  pair.make_readable();
  EXPECT_EQ(loop().run().value_or(99), 1U);
}

// Threads that come and go, some with a time limit, leave the others no gap.
TEST_P(reactor, threads_may_come_and_go) {
  const SocketPair pair;
  auto& reader = make<Reader>();
  ASSERT_TRUE(loop().add(pair.ours.get(), Interest::in, reader).has_value());
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      while (!stop) {
        const Deadline until = t == 0 ? at_last() : Deadline::after(std::chrono::microseconds{200});
        EXPECT_TRUE(loop().handle_events(until).has_value());
      }
    });
  }
  for (std::size_t i = 1; i <= 500; ++i) {
    pair.make_readable();
    wait_for([&] { return reader.bytes == i; });
  }
  stop = true;
  loop().end();
  for (std::thread& thread : threads) thread.join();
}

// With 1000 handlers: one wait, whatever its length; followers sleep without a look at the system.
TEST_P(reactor, an_idle_one_makes_no_system_calls) {
  constexpr std::size_t count = 300;
  ASSERT_TRUE(allow_descriptors(2 * count));
  replace({.system = &counting_system()});
  const std::vector<SocketPair> pairs(count);
  auto& reader = make<Reader>();
  for (const SocketPair& pair : pairs) {
    ASSERT_TRUE(loop().add(pair.ours.get(), Interest::in, reader).has_value());
  }
  {
    std::vector<std::unique_ptr<WatchedThread>> threads;
    for (int i = 0; i < 3; ++i) {
      threads.push_back(
          std::make_unique<WatchedThread>([&] { EXPECT_TRUE(loop().run().has_value()); }));
    }
    // All threads are in waits without a timeout. The counting system sees that, and a thread that
    // polls would never get there.
    wait_for([] { return system_calls().for_good == 3; });
    loop().end();
    threads.clear();
    loop().restart();
  }
  EXPECT_EQ(reader.calls, 0);
  replace({});
}

}  // namespace baton::test
