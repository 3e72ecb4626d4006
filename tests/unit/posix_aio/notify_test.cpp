// Notifications of the leader: interrupts, starts by other threads during its wait, and lost or
// late notifications.
#include <aio.h>

#include <atomic>
#include <cstdlib>
#include <deque>
#include <string>
#include <thread>

#include "driver.hpp"

namespace baton::test::aio {
namespace {

class Notify : public EveryForm {
 protected:
  Notify() { handle = driver.adopt(temporary_file()); }
  /// A wait may end early now and then; a wait that always ends early does not sleep.
  bool sleeps() {
    for (int i = 0; i < 10; ++i) {
      const auto begin = std::chrono::steady_clock::now();
      driver.wait_once(Deadline::after(5ms));
      if (std::chrono::steady_clock::now() - begin >= 5ms) return true;
    }
    return false;
  }
  std::string text = pattern(100);
  Handle* handle;
};
BATON_AIO_SUITE(Notify);

TEST_P(Notify, is_named) {
  EXPECT_EQ(driver.engine().info().wait_name, GetParam().notify);
  EXPECT_EQ(driver.engine().info().leader_rule, LeaderRule::any);
  EXPECT_EQ(driver.engine().info().start_from_any_thread, GetParam().concurrent);
}

TEST_P(Notify, an_interrupt_is_sticky_and_ends_one_wait) {
  for (int i = 0; i < 3; ++i) {
    driver.engine().interrupt();
    driver.engine().interrupt();
    EXPECT_EQ(driver.wait_once(Deadline::never()), 0U);
    EXPECT_TRUE(sleeps());
  }
}

TEST_P(Notify, an_interrupt_is_sticky_while_requests_are_in_flight) {
  faults().close_gate();
  Operation read;
  set_file(read, OperationKind::read_file, handle, text);
  driver.start(read);
  driver.engine().interrupt();
  EXPECT_EQ(driver.wait_once(Deadline::never()), 0U);
  faults().open_gate();
  ASSERT_TRUE(driver.run(read));
  EXPECT_TRUE(sleeps());
}

TEST_P(Notify, a_descriptor_shows_that_a_wait_would_not_block) {
  driver.wait_once(Deadline::immediately());
  const NativeHandle descriptor = driver.engine().descriptor();
  ASSERT_NE(descriptor, invalid_handle);
  const auto readable = [&] {
    pollfd event{descriptor, POLLIN, 0};
    return fault_system().ppoll(&event, 1, nullptr, nullptr) == 1;
  };
  driver.engine().interrupt();
  EXPECT_TRUE(readable());
  driver.wait_once(Deadline::never());
  EXPECT_EQ(driver.engine().descriptor(), descriptor);
  faults().close_gate();
  Operation read;
  set_file(read, OperationKind::read_file, handle, text);
  driver.start(read);
  EXPECT_EQ(driver.engine().descriptor(), invalid_handle);  // no notification is promised
  faults().open_gate();
  ASSERT_TRUE(driver.run(read));
}

// The list of aio_suspend is not changed during a wait: the leader returns and builds it again.
TEST_P(Notify, starts_of_other_threads_during_the_wait_complete) {
  if (!GetParam().concurrent) GTEST_SKIP() << "one thread";
  constexpr int rounds = 200;
  std::atomic<int> completed{0};
  std::atomic<bool> over{false};
  Engine& engine = driver.engine();
  std::thread leader{[&] {
    while (!over) {
      OperationQueue queue;
      engine.wait(queue, Deadline::never());
      const auto count = static_cast<int>(queue.size());
      while (!queue.empty()) queue.pop_front();
      completed += count;
    }
  }};
  std::vector<std::thread> starters;
  for (int thread = 0; thread < 2; ++thread) {
    starters.emplace_back([&, thread] {
      std::deque<Operation> reads(rounds);
      std::string back(text.size(), '\0');
      for (Operation& read : reads) {
        set_file(read, OperationKind::read_file, handle, back, 0);
        while (engine.submit(read, nullptr) == Submission::busy) std::this_thread::yield();
        engine.flush();
        if (thread == 0) std::this_thread::yield();
      }
      while (completed < 2 * rounds) std::this_thread::yield();
    });
  }
  for (std::thread& starter : starters) starter.join();
  over = true;
  engine.interrupt();
  leader.join();
  EXPECT_EQ(completed, 2 * rounds);
}

// A wait over a list that is not empty ends with a request, which need not come.
TEST_P(Notify, operations_beside_a_long_one_complete) {
  if (!GetParam().concurrent) GTEST_SKIP() << "one thread";
  Handle* const other = driver.adopt(temporary_file());
  std::string back(text.size(), '\0');
  std::string beside(text.size(), '\0');
  Operation lasts;
  Operation read;
  set_file(lasts, OperationKind::read_file, handle, back, 0);
  set_file(read, OperationKind::read_file, other, beside, 0);
  Engine& engine = driver.engine();
  faults().close_gate();
  ASSERT_EQ(engine.submit(lasts, nullptr), Submission::pending);
  faults().open_gate_for_new();
  std::atomic<int> completed{0};
  std::thread leader{[&] {
    while (completed < 2) {
      OperationQueue queue;
      engine.wait(queue, Deadline::never());
      completed += static_cast<int>(queue.size());
      while (!queue.empty()) queue.pop_front();
    }
  }};
  while (GetParam().notify == "suspend" && faults().count(Call::suspend) == 0) {
    std::this_thread::yield();
  }
  EXPECT_EQ(engine.submit(read, nullptr), Submission::pending);
  engine.flush();
  const Deadline limit = at_last();
  while (completed < 1 && is_ahead(limit)) std::this_thread::yield();
  EXPECT_EQ(completed, 1);
  faults().open_gate();
  engine.interrupt();
  leader.join();
}

// The queue of signals was full, or no thread could be created: the system never reports the
// request.
TEST_P(Notify, a_lost_notification_loses_nothing) {
  faults().withhold(true);
  std::deque<Operation> reads(20);
  for (Operation& read : reads) {
    set_file(read, OperationKind::read_file, handle, text);
    ASSERT_EQ(driver.start(read), Submission::pending);
  }
  for (Operation& read : reads) ASSERT_TRUE(driver.run(read));
  // Late notifications, whose requests belong to other operations by now.
  for (Operation& read : reads) driver.start(read);
  faults().deliver();
  for (Operation& read : reads) ASSERT_TRUE(driver.run(read));
  faults().clear();
}

#ifdef __GLIBC__
// In a process of its own: the number of the system's threads is fixed by their first use.
int writes_with_one_thread() {
  aioinit limits{};
  limits.aio_threads = 1;
  limits.aio_num = 64;
  ::aio_init(&limits);
  Driver driver;
  Handle* const file = driver.adopt(temporary_file());
  std::string text = "text";
  for (int i = 0; i < 3; ++i) {
    Operation write;
    set_file(write, OperationKind::write_file, file, text);
    if (!driver.complete(write) || write.failed()) return 1;
  }
  return 0;
}

// The read for interrupts would occupy that thread, and the writes would stay in the queue behind
// it.
TEST(OneThreadOfTheSystem, works_beside_the_interrupts_of_suspend) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(std::exit(writes_with_one_thread()), testing::ExitedWithCode(0), "");
}
#endif

}  // namespace
}  // namespace baton::test::aio
