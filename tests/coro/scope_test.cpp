// Scopes: joining, exceptions, cancellation, and the strand that the tasks share.
#include "baton/coro/scope.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <coroutine>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "baton/coro/run.hpp"
#include "baton/coro/sleep.hpp"
#include "baton/coro/task.hpp"
#include "baton/deadline.hpp"
#include "baton/strand.hpp"
#include "baton/stream_socket.hpp"
#include "support/child.hpp"
#include "support/modes.hpp"

namespace baton::test {
namespace {

using namespace std::chrono_literals;

class ScopeTest : public WithProactor {};

Task<void> sleeper(Proactor& proactor, Duration span, std::atomic<int>& ended) {
  static_cast<void>(co_await sleep_for(proactor, span));
  ++ended;
}

Task<void> thrower(Proactor& proactor) {
  static_cast<void>(co_await sleep_for(proactor, 1ms));
  throw std::runtime_error("from a task");
}

TEST_P(ScopeTest, joins_all_its_tasks) {
  std::atomic<int> ended{0};
  complete([](Proactor& proactor, std::atomic<int>& count) -> Task<void> {
    Scope scope{proactor};
    for (int i = 0; i < 20; ++i) {
      scope.spawn(sleeper(proactor, std::chrono::microseconds(100 * i), count));
    }
    co_await scope.join();
    EXPECT_EQ(count.load(), 20);
    EXPECT_EQ(scope.running(), 0U);
    co_await scope.join();  // nothing left
  }(proactor(), ended));
}

TEST_P(ScopeTest, joins_tasks_that_ended_at_once) {
  complete([](Proactor& proactor) -> Task<void> {
    Scope scope{proactor, {.strand = false}};
    scope.spawn([]() -> Task<void> { co_return; }());
    EXPECT_EQ(scope.running(), 0U);
    co_await scope.join();
  }(proactor()));
}

Task<bool> join_throws(Scope& scope) {
  try {
    co_await scope.join();
  } catch (const std::runtime_error&) {
    co_return true;
  }
  co_return false;
}

TEST_P(ScopeTest, rethrows_the_first_exception_and_cancels_the_others) {
  std::atomic<int> ended{0};
  complete([](Proactor& proactor, std::atomic<int>& count) -> Task<void> {
    Scope scope{proactor};
    scope.spawn(sleeper(proactor, 1h, count));
    scope.spawn(sleeper(proactor, 1h, count));
    scope.spawn(thrower(proactor));
    EXPECT_TRUE(co_await join_throws(scope));
    EXPECT_TRUE(scope.cancelled());
    EXPECT_EQ(count.load(), 2);
    co_await scope.join();  // thrown once
  }(proactor(), ended));
}

Task<void> throws_at_once() {
  throw std::runtime_error("at once");
  co_return;
}

TEST_P(ScopeTest, rethrows_what_the_destructor_of_a_parameter_throws) {
#ifdef __clang__
  GTEST_SKIP()
      << "clang 19 reads a coroutine's frame after it has freed it, when such a destructor "
         "throws";
#endif
  struct ThrowsAtItsEnd {
    explicit ThrowsAtItsEnd(bool yes) : armed(yes) {}
    ThrowsAtItsEnd(ThrowsAtItsEnd&& other) noexcept : armed(std::exchange(other.armed, false)) {}
    ThrowsAtItsEnd& operator=(ThrowsAtItsEnd&&) = delete;
    ~ThrowsAtItsEnd() noexcept(false) {
      if (armed) throw std::runtime_error("from a parameter");
    }
    bool armed;
  };
  std::string heard;
  complete([](Proactor& proactor, std::string& told) -> Task<void> {
    Scope scope{proactor};
    scope.spawn([](ThrowsAtItsEnd) -> Task<void> { co_return; }(ThrowsAtItsEnd{true}));
    try {
      co_await scope.join();
    } catch (const std::runtime_error& error) {
      told = error.what();
    }
  }(proactor(), heard));
  EXPECT_EQ(heard, "from a parameter");
}

TEST_P(ScopeTest, counts_the_exceptions_that_it_drops) {
  complete([](Proactor& proactor) -> Task<void> {
    ScopeOptions options;
    options.strand = false;  // a task begins where it is spawned
    Scope scope{proactor, options};
    for (int i = 0; i < 3; ++i) scope.spawn(throws_at_once());
    scope.spawn(Task<void>{});  // of none
    EXPECT_EQ(scope.exceptions_dropped(), 2U);
    EXPECT_TRUE(co_await join_throws(scope));
    EXPECT_EQ(scope.exceptions_dropped(), 2U) << "where a program needs it";
  }(proactor()));
}

TEST_P(ScopeTest, is_cancelled_from_the_start_by_a_token_that_is) {
  std::atomic<int> ended{0};
  complete([](Proactor& proactor, std::atomic<int>& count) -> Task<void> {
    CancellationSource source{proactor};
    source.cancel();
    source.cancel();  // as good as once
    Scope scope{proactor, {.token = source.token()}};
    EXPECT_TRUE(scope.cancelled());
    scope.spawn(sleeper(proactor, 1h, count));
    co_await scope.join();
  }(proactor(), ended));
  EXPECT_EQ(ended.load(), 1);
}

TEST_P(ScopeTest, cancels) {
  std::atomic<int> ended{0};
  complete([](Proactor& proactor, std::atomic<int>& count) -> Task<void> {
    Scope scope{proactor};
    for (int i = 0; i < 10; ++i) scope.spawn(sleeper(proactor, 1h, count));
    scope.cancel();
    co_await scope.join();
    EXPECT_EQ(count.load(), 10);
    // Sticky: a later await starts nothing.
    scope.spawn(sleeper(proactor, 1h, count));
    co_await scope.join();
    EXPECT_EQ(count.load(), 11);
  }(proactor(), ended));
}

Task<void> inner_scope(Proactor& proactor, std::atomic<int>& count) {
  Scope inner{proactor};
  inner.spawn(sleeper(proactor, 1h, count));
  co_await inner.join();
  ++count;
}

TEST_P(ScopeTest, cancels_scopes_inside) {
  std::atomic<int> ended{0};
  complete([](Proactor& proactor, std::atomic<int>& count) -> Task<void> {
    Scope outer{proactor};
    outer.spawn(inner_scope(proactor, count));
    outer.spawn(inner_scope(proactor, count));
    static_cast<void>(co_await sleep_for(proactor, 1ms));
    outer.cancel();
    co_await outer.join();
    EXPECT_EQ(count.load(), 4);
  }(proactor(), ended));
}

TEST_P(ScopeTest, is_cancelled_by_a_join_of_a_cancelled_task) {
  std::atomic<int> ended{0};
  complete([](Proactor& proactor, std::atomic<int>& count) -> Task<void> {
    Scope outer{proactor};
    outer.spawn([](Proactor& from, Scope& around, std::atomic<int>& counted) -> Task<void> {
      around.cancel();
      Scope inner{from};
      inner.spawn(sleeper(from, 1h, counted));
      co_await inner.join();
    }(proactor, outer, count));
    co_await outer.join();
  }(proactor(), ended));
  EXPECT_EQ(ended, 1);
}

TEST_P(ScopeTest, is_cancelled_by_a_token) {
  std::atomic<int> ended{0};
  complete([](Proactor& proactor, std::atomic<int>& count) -> Task<void> {
    CancellationSource source{proactor};
    Scope scope{proactor, {.token = source.token()}};
    scope.spawn(sleeper(proactor, 1h, count));
    source.cancel();
    co_await scope.join();
    EXPECT_EQ(count.load(), 1);
  }(proactor(), ended));
}

TEST_P(ScopeTest, a_cancelled_task_still_closes) {
  complete([](Proactor& proactor) -> Task<void> {
    auto ends = StreamSocket::pair(proactor).value();
    Scope scope{proactor};
    scope.spawn([](StreamSocket& socket) -> Task<void> {
      std::array<char, 8> buffer{};
      EXPECT_EQ((co_await socket.read(buffer)).error(), std::errc::operation_canceled);
      EXPECT_TRUE(co_await socket.close());
    }(ends.first));
    scope.cancel();
    co_await scope.join();
    EXPECT_FALSE(ends.first.is_open());
  }(proactor()));
}

struct Exclusive {
  std::atomic<int> inside{0};
  long plain = 0;  // no atomic: the strand is the lock, and ThreadSanitizer the judge

  void visit() {
    EXPECT_EQ(inside.fetch_add(1), 0);
    ++plain;
    inside.fetch_sub(1);
  }
};

Task<void> visitor(Proactor& proactor, Exclusive& shared, int rounds) {
  for (int i = 0; i < rounds; ++i) {
    shared.visit();
    static_cast<void>(co_await yield(proactor));
    shared.visit();
    if (i % 16 == 0) static_cast<void>(co_await sleep_for(proactor, 1us));
  }
}

TEST_P(ScopeTest, tasks_share_a_strand) {
  Exclusive shared;
  constexpr int tasks = 16, rounds = 200;
  complete([](Proactor& proactor, Exclusive& data) -> Task<void> {
    Scope scope{proactor};
    for (int i = 0; i < tasks; ++i) scope.spawn(visitor(proactor, data, rounds));
    co_await scope.join();
  }(proactor(), shared));
  EXPECT_EQ(shared.plain, 2L * tasks * rounds);
}

// The joiner comes back outside of the scope's strand and destroys the scope at once, while the
// last task's thread is still on its way out of that strand.
TEST_P(ScopeTest, may_be_destroyed_right_after_join) {
  std::atomic<int> ended{0};
  complete([](Proactor& proactor, std::atomic<int>& count) -> Task<void> {
    alignas(Scope) std::array<unsigned char, sizeof(Scope)> memory;
    for (int round = 1; round <= 300; ++round) {
      auto* const scope = ::new (memory.data()) Scope{proactor};
      for (int i = 0; i < 3; ++i) {
        scope->spawn([](Proactor& p, std::atomic<int>& c) -> Task<void> {
          static_cast<void>(co_await yield(p));
          ++c;
        }(proactor, count));
      }
      co_await scope->join();
      EXPECT_EQ(count.load(), 3 * round);
      scope->~Scope();
      // No task uses the scope any more: a later read finds garbage, and a later write is detected.
      memory.fill(0xDB);
      for (int i = 0; i < 3; ++i) static_cast<void>(co_await yield(proactor));
      const auto untouched = std::count(memory.begin(), memory.end(), 0xDB);
      EXPECT_EQ(static_cast<std::size_t>(untouched), memory.size());
    }
  }(proactor(), ended));
}

TEST_P(ScopeTest, spawns_from_inside) {
  std::atomic<int> ended{0};
  complete([](Proactor& proactor, std::atomic<int>& count) -> Task<void> {
    Scope scope{proactor};
    scope.spawn([](Proactor& p, Scope& own, std::atomic<int>& c) -> Task<void> {
      for (int i = 0; i < 10; ++i) {
        own.spawn(sleeper(p, 10us, c));
        static_cast<void>(co_await yield(p));
      }
    }(proactor, scope, count));
    co_await scope.join();
    EXPECT_EQ(count.load(), 10);
  }(proactor(), ended));
}

TEST_P(ScopeTest, ends_with_the_proactor) {
  std::atomic<int> ended{0};
  proactor().spawn([](Proactor& proactor, std::atomic<int>& count) -> Task<void> {
    Scope scope{proactor};
    for (int i = 0; i < 5; ++i) scope.spawn(sleeper(proactor, 1h, count));
    co_await scope.join();
    ++count;
  }(proactor(), ended));
  end();
  EXPECT_EQ(ended.load(), 6);
}

// The proactor is stopped, but other handlers are still running, those of the joiner's strand among
// them.
TEST_P(ScopeTest, the_joiner_stays_in_its_strand_after_a_stop) {
  struct Shared {
    std::atomic<bool> waits{false};
    std::atomic<bool> goes_on{false};
    std::atomic<bool> outside{false};
  } shared;
  Proactor& p = proactor();
  Scope outer{p};
  std::thread other;
  outer.spawn([](Proactor& proactor, Shared& all, std::thread& thread) -> Task<void> {
    Scope inner{proactor, {.strand = false}};
    inner.spawn([](Shared& common, std::thread& from) -> Task<void> {
      struct Elsewhere {
        Shared& common;
        std::thread& from;
        [[nodiscard]] bool await_ready() const noexcept { return false; }
        void await_suspend(std::coroutine_handle<> waiter) const {
          from = std::thread{[this, waiter] {
            while (!common.goes_on) std::this_thread::yield();
            waiter.resume();
          }};
        }
        void await_resume() const noexcept {}
      };
      co_await Elsewhere{common, from};
    }(all, thread));
    all.waits = true;
    co_await inner.join();
    // The thread that ended the task is outside of the scope's strand.
    all.outside = std::this_thread::get_id() == thread.get_id();
  }(p, shared, other));
  while (!shared.waits) std::this_thread::yield();
  p.stop();
  shared.goes_on = true;
  other.join();
  p.restart();
  while (outer.running() != 0) static_cast<void>(p.handle_events(Deadline::immediately()));
  EXPECT_FALSE(shared.outside);
}

TEST_P(ScopeTest, the_joiner_goes_on_in_its_strand) {
  complete([](Proactor& proactor) -> Task<void> {
    Scope outer{proactor};
    outer.spawn([](Proactor& of) -> Task<void> {
      Scope inner{of, {.strand = false}};
      std::atomic<int> ended{0};
      inner.spawn(sleeper(of, 1ms, ended));
      co_await inner.join();
      const TaskContext* const context = co_await own_context();
      EXPECT_TRUE(context->strand->running_in_this_thread());
    }(proactor));
    co_await outer.join();
  }(proactor()));
}

TEST_P(ScopeTest, a_task_that_cannot_be_started_is_not_waited_for) {
  Proactor& p = proactor();
  Scope scope{p, {.strand = true}};
  std::atomic<int> ended{0};
  const auto argument = std::make_shared<int>(0);
  p.stop();
  scope.spawn([](std::atomic<int>& count, std::shared_ptr<int>) -> Task<void> {
    ++count;
    co_return;
  }(ended, argument));
  p.restart();
  EXPECT_EQ(argument.use_count(), 1) << "the task is destroyed";
  ASSERT_EQ(scope.running(), 0U);
  std::error_code error;
  complete([](Scope& joined, std::error_code& why) -> Task<void> {
    try {
      co_await joined.join();
    } catch (const std::system_error& refused) {
      why = refused.code();
    }
  }(scope, error));
  EXPECT_EQ(error, errc::stopped);
  EXPECT_EQ(ended, 0);
}

BATON_EVERY_MODE(ScopeTest);

void destroy_scope_with_a_task_running() {
  Proactor proactor;
  std::atomic<int> ended{0};
  Scope scope{proactor, {.strand = false}};
  scope.spawn(sleeper(proactor, 1h, ended));
}
// A coroutine of the user's own, which starts at once and is destroyed by hand.
struct OwnCoroutine {
  struct promise_type {
    OwnCoroutine get_return_object() {
      return {std::coroutine_handle<promise_type>::from_promise(*this)};
    }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
    [[nodiscard]] const TaskContext* task_context() const noexcept { return nullptr; }
  };
  std::coroutine_handle<promise_type> handle;
};
OwnCoroutine join(Scope& scope) { co_await scope.join(); }
void destroy_a_coroutine_that_joins() {
  Proactor proactor;
  std::atomic<int> ended{0};
  Scope scope{proactor, {.strand = false}};
  scope.spawn(sleeper(proactor, 1h, ended));
  join(scope).handle.destroy();
}
Task<void> joins(Scope& scope) { co_await scope.join(); }
// As std::thread does: the task has references to objects that are destroyed.
TEST(Scopes, a_coroutine_destroyed_while_it_joins_ends_the_program) {
  EXPECT_DEATH(destroy_a_coroutine_that_joins(), "suspended");
}

// The tasks are the parent's: one waits, and the exception of another one was not thrown yet.
TEST(Scopes, one_of_the_parent_may_be_destroyed_in_a_child) {
  for (const bool strand : {true, false}) {
    for (const bool reopens : {false, true}) {
      Proactor proactor;
      std::atomic<int> ended{0};
      auto scope = std::make_unique<Scope>(proactor, ScopeOptions{.strand = strand, .token = {}});
      scope->spawn(sleeper(proactor, 1h, ended));
      scope->spawn([]() -> Task<void> {
        throw std::runtime_error("from a task");
        co_return;
      }());
      EXPECT_EQ(status_of_child([&] {
                  if (reopens) static_cast<void>(proactor.reopen());
                  scope.reset();
                  return 0;
                }),
                0);
      EXPECT_THROW(run_until_complete(proactor, joins(*scope)), std::runtime_error);
    }
  }
}

TEST(Scopes, one_that_is_destroyed_with_a_task_running_ends_the_program) {
  EXPECT_DEATH(destroy_scope_with_a_task_running(),
               "baton: a scope was destroyed while its tasks run");
}

}  // namespace
}  // namespace baton::test
