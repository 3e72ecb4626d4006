// Starts, cancels and interrupts by many threads while one waits; the descriptor for merged waits;
// and the child after fork.
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <deque>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "../../support/child.hpp"
#include "driver.hpp"
#include "engines/linux_aio/context.hpp"
#include "os/mutex.hpp"

namespace baton::test {
namespace {

class Threads : public Direct {
 protected:
  [[nodiscard]] bool readable() const {
    pollfd one{driver->engine().descriptor(), POLLIN, 0};
    EXPECT_NE(one.fd, invalid_handle);
    return ::poll(&one, 1, 0) == 1;
  }
};

TEST_F(Threads, interrupts_are_sticky_and_coalesce) {
  for (int i = 0; i < 3; ++i) driver->engine().interrupt();
  EXPECT_EQ(driver->wait_once(Deadline::never()), 0U);
  EXPECT_EQ(driver->wait_once(Deadline::after(std::chrono::milliseconds{1})), 0U);
  std::atomic<bool> back{false};
  std::thread leader{[&] {
    driver->wait_once(Deadline::never());
    back = true;
  }};
  while (!back) driver->engine().interrupt();
  leader.join();
}

TEST_F(Threads, a_look_at_an_idle_engine_makes_no_system_call) {
  driver->wait_once(Deadline::immediately());
  const unsigned before = aio_faults().waits;
  for (int i = 0; i < 10; ++i) driver->wait_once(Deadline::immediately());
  EXPECT_EQ(aio_faults().waits, before);
}

TEST_F(Threads, completions_in_the_ring_are_taken_without_a_system_call) {
  using engines::linux_aio::Context;
  std::deque<Operation> reads(Context::batch_max);
  const Block buffer{block};
  for (Operation& read : reads) {
    set_read(read, handle, buffer, 0);
    driver->submit(read);
  }
  driver->engine().flush();
  const unsigned before = aio_faults().waits;
  while (driver->history().size() < reads.size()) driver->wait_once(Deadline::immediately());
  EXPECT_EQ(aio_faults().waits, before);
  EXPECT_EQ(aio_faults().submits, reads.size() / Context::lot_max);
}

TEST_F(Threads, the_descriptor_is_readable_while_something_is_complete) {
  EXPECT_FALSE(readable());
  driver->engine().interrupt();
  EXPECT_TRUE(readable());
  driver->wait_once();
  EXPECT_FALSE(readable());
  const Block buffer{block};
  Operation read;
  for (int i = 0; i < 100; ++i) {
    set_read(read, handle, buffer, 0);
    driver->start(read);
    pollfd one{driver->engine().descriptor(), POLLIN, 0};
    if (one.fd != invalid_handle) {
      EXPECT_EQ(::poll(&one, 1, 10'000), 1);
    }
    EXPECT_EQ(driver->wait_once(Deadline::immediately()), 1U);
  }
}

// Signals that were read before their completions were taken: there is something to take, which the
// descriptor no longer reports.
TEST_F(Threads, the_descriptor_never_hides_a_completion) {
  const Block buffer{block};
  std::array<Operation, 2> reads;
  for (Operation& read : reads) {
    set_read(read, handle, buffer, 0);
    driver->start(read);
  }
  pollfd one{driver->engine().descriptor(), POLLIN, 0};
  if (one.fd != invalid_handle) {  // or they are complete already
    EXPECT_EQ(::poll(&one, 1, 10'000), 1);
  }
  driver->engine().interrupt();
  while (driver->wait_once(Deadline::immediately()) == 0) {
  }
  const NativeHandle descriptor = driver->engine().descriptor();
  const bool both = driver->is_done(reads[0]) && driver->is_done(reads[1]);
  if (!both && descriptor != invalid_handle) {
    one.fd = descriptor;
    EXPECT_EQ(::poll(&one, 1, 10'000), 1);
  }
  for (const Operation& read : reads) EXPECT_TRUE(driver->run(read));
}

TEST_F(Threads, starts_and_cancels_from_everywhere) {
  constexpr unsigned starters = 3;
  constexpr unsigned rounds = 300;
  Engine& engine = driver->engine();
  Handle* const plain = driver->adopt(temporary_file());
  ASSERT_EQ(::pwrite(plain->native(), text.data(), text.size(), 0),
            static_cast<ssize_t>(text.size()));
  struct Started {
    Operation operation;
    Block buffer{block};
    std::size_t number = 0;
    std::atomic<bool> done{false};
  };
  std::atomic<unsigned> finished{0};
  const auto note = [&](Operation& operation) {
    auto& one = *static_cast<Started*>(operation.context());
    if (operation.error_value() == 0) {
      EXPECT_TRUE(same(one.buffer.text(), text.substr(one.number * block, block)));
    } else {
      EXPECT_EQ(operation.error_value(), ECANCELED);
    }
    one.done.store(true, std::memory_order_release);
    finished.fetch_add(1);
  };
  std::vector<std::thread> threads;
  for (unsigned id = 0; id < starters; ++id) {
    threads.emplace_back([&, id] {
      std::deque<Started> mine(4);
      for (unsigned i = 0; i < rounds; ++i) {
        Started& one = mine[i % mine.size()];
        while (i >= mine.size() && !one.done.load(std::memory_order_acquire)) {
          std::this_thread::yield();
        }
        one.done.store(false, std::memory_order_relaxed);
        one.number = (i * 7 + id) % blocks;
        one.operation.set_completion(nullptr, &one);
        set_read(one.operation, i % 4 == 3 ? plain : handle, one.buffer, one.number * block);
        Submission answer = engine.submit(one.operation, nullptr);
        for (; answer == Submission::busy; answer = engine.submit(one.operation, nullptr)) {
          std::this_thread::yield();
        }
        if (answer == Submission::completed) {
          note(one.operation);
          continue;
        }
        const bool cancels = i % 5 == 0;
        if (!cancels) engine.flush();
        if (cancels && engine.cancel(one.operation) == CancelAnswer::completed) {
          note(one.operation);
        } else if (cancels) {
          engine.flush();
        }
        if (i % 11 == 0) engine.interrupt();
      }
      for (const Started& one : mine) {
        while (!one.done.load(std::memory_order_acquire)) std::this_thread::yield();
      }
    });
  }
  while (finished.load() < starters * rounds) {
    OperationQueue completed;
    engine.wait(completed, Deadline::after(std::chrono::milliseconds{100}));
    while (!completed.empty()) note(completed.pop_front());
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(engine.counters().stale_events, 0U);
}

/// Whether this process has mapped a ring of completions.
bool has_ring() {
  std::ifstream maps{"/proc/self/maps"};
  for (std::string line; std::getline(maps, line);) {
    if (line.find("[aio]") != std::string::npos) return true;
  }
  return false;
}

// A context is not inherited: the child lets go of it, and the parent does not notice.
TEST_F(Threads, a_child_after_fork_disturbs_nothing) {
  const Block buffer{block};
  Operation read;
  set_read(read, handle, buffer, block);
  driver->start(read);
  const NativeHandle event = driver->engine().descriptor();
  ASSERT_TRUE(has_ring());
  const pid_t child = start_child([&] {
    driver->engine().after_fork_in_child();
    const bool gone = driver->engine().descriptor() == invalid_handle &&
                      ::fcntl(event, F_GETFD) == -1 && !has_ring();
    auto reopened = engines::linux_aio::Context::open(os::real_system(), 8);
    return gone && reopened ? 0 : 1;
  });
  EXPECT_EQ(status_of(child), 0);
  ASSERT_TRUE(driver->run(read));
  EXPECT_TRUE(same(buffer.text(), text.substr(block, block)));
}

}  // namespace
}  // namespace baton::test
