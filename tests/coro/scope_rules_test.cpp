// Scopes that depend on each other, that are joined wrongly, or that are used outside of the
// library's tasks or by tasks of several proactors.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <coroutine>
#include <exception>
#include <future>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "baton/coro/scope.hpp"
#include "baton/coro/sleep.hpp"
#include "baton/coro/task.hpp"
#include "baton/stream_socket.hpp"
#include "support/modes.hpp"

namespace baton::test {
namespace {

using namespace std::chrono_literals;

class ScopeRules : public WithProactor {};

Task<std::error_code> joined(Scope& scope) {
  try {
    co_await scope.join();
  } catch (const std::system_error& error) {
    co_return error.code();
  }
  co_return std::error_code{};
}
Task<void> keep_error_of_join(Scope& scope, std::error_code& error,
                              std::atomic<bool>* kept = nullptr) {
  error = co_await joined(scope);
  if (kept != nullptr) *kept = true;
}
Task<void> sleeper(Proactor& proactor) { static_cast<void>(co_await sleep_for(proactor, 1h)); }

TEST_P(ScopeRules, a_task_that_joins_its_own_scope_gets_an_error) {
  complete([](Proactor& proactor) -> Task<void> {
    Scope scope{proactor};
    std::error_code own;
    scope.spawn(keep_error_of_join(scope, own));
    scope.spawn(sleeper(proactor));
    static_cast<void>(co_await sleep_for(proactor, 1ms));
    scope.cancel();  // returns
    co_await scope.join();
    EXPECT_EQ(own, std::errc::resource_deadlock_would_occur);
  }(proactor()));
}

// The second depends on the first by its token, and the first on the second by the join.
TEST_P(ScopeRules, scopes_that_depend_on_each_other_are_cancelled) {
  complete([](Proactor& proactor) -> Task<void> {
    Scope first{proactor};
    ScopeOptions options;
    options.token = first.token();
    Scope second{proactor, options};
    std::error_code error = std::make_error_code(std::errc::io_error);
    first.spawn(sleeper(proactor));
    second.spawn(keep_error_of_join(first, error));
    static_cast<void>(co_await sleep_for(proactor, 1ms));
    first.cancel();
    EXPECT_TRUE(second.cancelled());
    co_await second.join();
    co_await first.join();
    EXPECT_FALSE(error);
  }(proactor()));
}

TEST_P(ScopeRules, a_chain_of_any_length_is_cancelled) {
  complete([](Proactor& proactor) -> Task<void> {
    std::vector<std::unique_ptr<Scope> > chain;
    for (int i = 0; i < 200'000; ++i) {
      ScopeOptions options;
      options.strand = false;
      if (!chain.empty()) options.token = chain.back()->token();
      chain.push_back(std::make_unique<Scope>(proactor, options));
    }
    chain.front()->cancel();
    EXPECT_TRUE(chain.back()->cancelled());
    while (!chain.empty()) chain.pop_back();
    co_return;
  }(proactor()));
}

// Their order is not specified: they are posted to any thread.
TEST_P(ScopeRules, a_second_joiner_gets_an_error_and_the_first_is_served) {
  complete([](Proactor& proactor) -> Task<void> {
    Scope scope{proactor}, joiners{proactor};
    std::array<std::error_code, 2> errors;
    std::array<std::atomic<bool>, 2> told{};
    scope.spawn(sleeper(proactor));
    for (std::size_t i = 0; i < 2; ++i) {
      joiners.spawn(keep_error_of_join(scope, errors[i], &told[i]));
    }
    while (!told[0] && !told[1]) static_cast<void>(co_await sleep_for(proactor, 1ms));
    const std::size_t second = told[0] ? 0 : 1;
    EXPECT_FALSE(told[1 - second]);
    EXPECT_EQ(errors[second], errc::operation_in_use);
    scope.cancel();
    co_await joiners.join();
    EXPECT_FALSE(errors[1 - second]);
  }(proactor()));
}

struct OneAtATime {
  std::atomic<int> inside{0};
  long plain = 0;  // no atomic: the strand is the lock, and ThreadSanitizer the judge

  void visit() {
    EXPECT_EQ(inside.fetch_add(1), 0);
    ++plain;
    inside.fetch_sub(1);
  }
};

// -- two proactors --------------------------------------------------------------------------------

Task<void> ping_pong(Proactor& proactor, OneAtATime& shared, int rounds) {
  auto ends = StreamSocket::pair(proactor).value();
  std::array<char, 1> byte{};
  for (int i = 0; i < rounds; ++i) {
    EXPECT_TRUE(co_await ends.first.write_all(std::string_view{"x"}));
    EXPECT_TRUE(co_await ends.second.read(byte));
    shared.visit();
    static_cast<void>(co_await yield(proactor));
    shared.visit();
    if (i % 16 != 0) continue;
    static_cast<void>(co_await sleep_for(proactor, 1us));
    EXPECT_TRUE(co_await ends.first.close());
    ends = StreamSocket::pair(proactor).value();
  }
}

TEST_P(ScopeRules, one_strand_serves_operations_of_two_proactors) {
  OneAtATime shared;
  constexpr int tasks = 4, rounds = 100;
  auto opened = Proactor::open(GetParam().config());
  ASSERT_TRUE(opened);
  Proactor& other = **opened;
  std::vector<std::thread> drivers;
  for (unsigned i = 0; i < GetParam().threads; ++i) drivers.emplace_back([&] { other.run(); });
  complete([](Proactor& here, Proactor& there, OneAtATime& data) -> Task<void> {
    Scope scope{here};
    for (int i = 0; i < tasks; ++i) {
      scope.spawn(ping_pong(here, data, rounds));
      scope.spawn(ping_pong(there, data, rounds));
    }
    co_await scope.join();
  }(proactor(), other, shared));
  EXPECT_EQ(shared.plain, 2L * 2 * tasks * rounds);
  other.stop();
  for (std::thread& driver : drivers) driver.join();
  opened->reset();                             // with all that it had
  complete([](Proactor& here) -> Task<void> {  // and this one has its own
    for (int i = 0; i < 100; ++i) EXPECT_TRUE(co_await yield(here));
  }(proactor()));
}

// The join also waits for a task that waits in the strand for a thread of another proactor.
// In either order of the ends. The task of the scope ends with the second proactor, and then the
// join in the first one, which no thread drives any more.
TEST_P(ScopeRules, a_join_ends_with_a_task_of_another_proactor_that_is_finished_later) {
  for (const bool scope_ends_first : {true, false}) {
    auto one = Proactor::open(GetParam().config());
    auto other = Proactor::open(GetParam().config());
    ASSERT_TRUE(one && other);
    int joined = 0;
    (*one)->spawn([](Proactor& of_scope, Proactor& of_task, int& count) -> Task<void> {
      Scope outer{of_scope};
      outer.spawn([](Proactor& here, Proactor& there, int& counted) -> Task<void> {
        Scope scope{here};
        scope.spawn(sleeper(there));
        scope.spawn(sleeper(here));
        co_await scope.join();
        ++counted;
      }(of_scope, of_task, count));
      outer.spawn(sleeper(of_task));
      co_await outer.join();
      ++count;
    }(**one, **other, joined));
    static_cast<void>((*one)->poll());
    (scope_ends_first ? *one : *other)->finish();
    EXPECT_EQ(joined, 0);
    (scope_ends_first ? *other : *one)->finish();
    EXPECT_EQ(joined, 2) << "nothing is left for the destructors";
  }
}

TEST_P(ScopeRules, a_proactor_ends_while_another_has_its_strand) {
  auto opened = Proactor::open(GetParam().config());
  ASSERT_TRUE(opened);
  Strand strand{proactor()};
  std::promise<void> entered, go_on;
  Operation holder, waiting;
  std::atomic<bool> ran{false};
  holder.set_strand(&strand);
  holder.set_handler([&entered, &go_on](Operation&) {
    entered.set_value();
    go_on.get_future().wait();
  });
  ASSERT_FALSE(proactor().post(holder));
  entered.get_future().wait();
  waiting.set_strand(&strand);
  waiting.set_handler([&ran](Operation&) { ran = true; });
  ASSERT_FALSE((*opened)->post(waiting));
  EXPECT_TRUE((*opened)->poll() <= 1);
  EXPECT_FALSE(ran);
  std::thread releasing([&] { go_on.set_value(); });
  opened->reset();
  releasing.join();
  EXPECT_TRUE(ran);
}

// -- foreign awaitables and coroutines ------------------------------------------------------------

// Resumes the waiting coroutine on a new thread.
struct Elsewhere {
  std::optional<std::thread>& thread;
  [[nodiscard]] bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> waiter) const {
    thread.emplace([waiter] { waiter.resume(); });
  }
  [[nodiscard]] int await_resume() const noexcept { return 7; }
};
struct Throws {
  [[nodiscard]] bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<>) const { throw std::runtime_error("at once"); }
  void await_resume() const noexcept {}
};
struct GoesOn {
  [[nodiscard]] bool await_ready() const noexcept { return false; }
  [[nodiscard]] bool await_suspend(std::coroutine_handle<>) const noexcept { return false; }
  [[nodiscard]] std::string await_resume() const { return "at once"; }
};

Task<void> goes_elsewhere(OneAtATime& shared, int rounds) {
  for (int i = 0; i < rounds; ++i) {
    std::optional<std::thread> thread;
    const int answer = co_await Elsewhere{thread};
    EXPECT_EQ(answer, 7);
    shared.visit();
    thread->join();
  }
}

TEST_P(ScopeRules, a_foreign_awaitable_brings_the_task_back_into_its_strand) {
  OneAtATime shared;
  complete([](Proactor& proactor, OneAtATime& data) -> Task<void> {
    Scope scope{proactor};
    for (int i = 0; i < 4; ++i) scope.spawn(goes_elsewhere(data, 20));
    co_await scope.join();
  }(proactor(), shared));
  EXPECT_EQ(shared.plain, 4 * 20);
}

Task<void> awaits_all_forms(int& caught) {
  std::string text = co_await GoesOn{};
  EXPECT_EQ(text, "at once");
  co_await std::suspend_never{};
  try {
    co_await Throws{};
  } catch (const std::runtime_error&) {
    ++caught;
  }
}

TEST_P(ScopeRules, foreign_awaitables_answer_as_without_a_scope) {
  int caught = 0;
  complete([](Proactor& proactor, int& count) -> Task<void> {
    co_await awaits_all_forms(count);  // no strand
    Scope scope{proactor};
    scope.spawn(awaits_all_forms(count));
    co_await scope.join();
  }(proactor(), caught));
  EXPECT_EQ(caught, 2);
}

// A user's coroutine type, which passes awaitables through and keeps the inherited context.
template <class T>
struct Own {
  struct promise_type {
    Own get_return_object() { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
    std::suspend_always initial_suspend() noexcept { return {}; }
    auto final_suspend() noexcept {
      struct Back {
        bool await_ready() noexcept { return false; }
        std::coroutine_handle<> await_suspend(std::coroutine_handle<promise_type> self) noexcept {
          return self.promise().waiter;
        }
        void await_resume() noexcept {}
      };
      return Back{};
    }
    template <class Awaitable>
    Awaitable&& await_transform(Awaitable&& awaitable) noexcept {
      return static_cast<Awaitable&&>(awaitable);
    }
    void return_value(T given) { value = std::move(given); }
    void unhandled_exception() { std::terminate(); }
    [[nodiscard]] const TaskContext* task_context() const noexcept { return context; }

    std::coroutine_handle<> waiter;
    const TaskContext* context = nullptr;
    T value{};
  };
  struct Awaiter {
    std::coroutine_handle<promise_type> handle;
    [[nodiscard]] bool await_ready() const noexcept { return false; }
    template <class Promise>
    std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> parent) const noexcept {
      handle.promise().waiter = parent;
      handle.promise().context = task_context_of(parent);
      return handle;
    }
    T await_resume() {
      T value = std::move(handle.promise().value);
      handle.destroy();
      return value;
    }
  };
  Awaiter operator co_await() && noexcept { return {handle}; }
  std::coroutine_handle<promise_type> handle;
};

Own<int> visits(Proactor& proactor, OneAtATime& shared, int rounds) {
  for (int i = 0; i < rounds; ++i) {
    shared.visit();
    static_cast<void>(co_await yield(proactor));
    shared.visit();
  }
  co_return rounds;
}
Own<std::error_code> sleeps(Proactor& proactor) {
  auto slept = co_await sleep_for(proactor, 1h);
  co_return slept.error();
}

TEST_P(ScopeRules, a_coroutine_type_of_the_user_keeps_strand_and_cancellation) {
  OneAtATime shared;
  std::error_code ended;
  complete([](Proactor& proactor, OneAtATime& data, std::error_code& error) -> Task<void> {
    Scope scope{proactor};
    for (int i = 0; i < 8; ++i) {
      scope.spawn([](Proactor& p, OneAtATime& d) -> Task<void> {
        const int rounds = co_await visits(p, d, 50);
        EXPECT_EQ(rounds, 50);
      }(proactor, data));
    }
    co_await scope.join();
    scope.spawn([](Proactor& p, std::error_code& e) -> Task<void> { e = co_await sleeps(p); }(
                                                        proactor, error));
    scope.cancel();
    co_await scope.join();
  }(proactor(), shared, ended));
  EXPECT_EQ(shared.plain, 2L * 8 * 50);
  EXPECT_EQ(ended, std::errc::operation_canceled);
}

Task<void> looks_at_its_context(Proactor& proactor, bool in_scope) {
  const TaskContext* const context = co_await own_context();
  EXPECT_EQ(context != nullptr, in_scope);
  if (context == nullptr) co_return;
  EXPECT_EQ(context->proactor, &proactor);
  EXPECT_TRUE(context->strand->running_in_this_thread());
  EXPECT_TRUE(context->token().cancelled());
}

TEST_P(ScopeRules, a_task_can_ask_for_its_context) {
  complete([](Proactor& proactor) -> Task<void> {
    co_await looks_at_its_context(proactor, false);
    Scope scope{proactor};
    scope.cancel();
    scope.spawn(looks_at_its_context(proactor, true));
    co_await scope.join();
  }(proactor()));
}

BATON_EVERY_MODE(ScopeRules);

void destroy_a_scope_with_an_exception() {
  Proactor proactor;
  ScopeOptions options;
  options.strand = false;
  Scope scope{proactor, options};
  scope.spawn([]() -> Task<void> {
    throw std::runtime_error("unseen");
    co_return;
  }());
}
TEST(ScopeRulesByHand, an_exception_that_was_not_joined_ends_the_program) {
  EXPECT_DEATH(destroy_a_scope_with_an_exception(),
               "baton: a scope was destroyed with an exception");
}

}  // namespace
}  // namespace baton::test
