// Tasks by themselves: no test here needs a running proactor.
#include "baton/coro/task.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <coroutine>
#include <cstdint>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "baton/acceptor.hpp"
#include "baton/connector.hpp"
#include "baton/coro/cancellation.hpp"
#include "baton/coro/run.hpp"
#include "baton/coro/scope.hpp"
#include "baton/coro/sleep.hpp"
#include "baton/deadline.hpp"
#include "baton/error.hpp"
#include "baton/proactor.hpp"
#include "baton/stream_socket.hpp"
#include "baton/timer.hpp"
#include "os/system.hpp"
#include "support/child.hpp"

namespace baton {
namespace {

// Counts its living copies: each is destroyed exactly once, or the count is wrong at the end.
struct Counted {
  explicit Counted(int& alive) : alive_(&alive) { ++*alive_; }
  Counted(const Counted& other) : alive_(other.alive_) { ++*alive_; }
  Counted(Counted&& other) noexcept : alive_(other.alive_) { ++*alive_; }
  Counted& operator=(const Counted&) = delete;
  ~Counted() { --*alive_; }
  int* alive_;
};

class TaskTest : public testing::Test {
 protected:
  template <class T>
  T run(Task<T> task) {
    return run_until_complete(proactor_, std::move(task));
  }
  Proactor proactor_;
};

Task<int> give(int value) { co_return value; }
Task<void> nothing() { co_return; }
Task<int> add(int a, int b) { co_return co_await give(a) + co_await give(b); }
Task<std::unique_ptr<int>> make(int value) { co_return std::make_unique<int>(value); }
Task<int> fail(const char* why) {
  throw std::runtime_error(why);
  co_return 0;
}

TEST_F(TaskTest, gives_its_value) {
  EXPECT_EQ(run(add(2, 3)), 5);
  EXPECT_EQ(*run(make(7)), 7);
  run(nothing());
}

TEST_F(TaskTest, is_lazy) {
  bool ran = false;
  {
    auto task = [](bool& flag) -> Task<void> {
      flag = true;
      co_return;
    }(ran);
    EXPECT_TRUE(static_cast<bool>(task));
  }
  EXPECT_FALSE(ran) << "destroyed before it was started";
}

TEST_F(TaskTest, destroys_its_arguments_once_whether_it_ran_or_not) {
  int alive = 0;
  const auto body = [](Counted first, const Counted& second, Counted&& third) -> Task<int> {
    const Counted inside = first;
    static_cast<void>(second), static_cast<void>(third);
    co_return *inside.alive_;
  };
  {
    Counted argument{alive}, moved{alive};
    {
      auto never_started = body(argument, argument, std::move(moved));
    }
    EXPECT_EQ(alive, 2);
    EXPECT_GE(run(body(argument, argument, std::move(moved))), 4);
    EXPECT_EQ(alive, 2);
  }
  EXPECT_EQ(alive, 0);
}

TEST_F(TaskTest, destroys_temporaries_of_an_await_in_a_condition_once) {
  int alive = 0;
  const auto take = [](Counted argument) -> Task<int> { co_return *argument.alive_; };
  const auto body = [&](int turns) -> Task<int> {
    int sum = 0;
    while (int found = co_await take(Counted{alive})) {
      sum += found;
      if (--turns == 0) break;
    }
    if (auto last = co_await take(Counted{alive}); last > 100) co_return -1;
    co_return alive == 0 ? sum : -2;
  };
  EXPECT_GT(run(body(5)), 0);
  EXPECT_EQ(alive, 0);
}

TEST_F(TaskTest, passes_exceptions_on) {
  const auto catches = []() -> Task<std::string> {
    try {
      co_await fail("inner");
    } catch (const std::runtime_error& error) {
      co_return error.what();
    }
    co_return "nothing thrown";
  };
  EXPECT_EQ(run(catches()), "inner");
  EXPECT_THROW(run(fail("outer")), std::runtime_error);
}

TEST_F(TaskTest, a_spawned_task_that_throws_is_reported) {
  std::vector<std::string> reported;
  proactor_.on_task_exception([&](std::exception_ptr exception) {
    try {
      std::rethrow_exception(std::move(exception));
    } catch (const std::exception& error) {
      reported.emplace_back(error.what());
    }
  });
  proactor_.spawn([]() -> Task<void> {
    throw std::logic_error("detached");
    co_return;
  }());
  EXPECT_EQ(reported, std::vector<std::string>{"detached"});
}

/// A parameter that throws when the coroutine's frame is destroyed.
struct ThrowsAtItsEnd {
  explicit ThrowsAtItsEnd(bool yes) : armed(yes) {}
  ThrowsAtItsEnd(ThrowsAtItsEnd&& other) noexcept : armed(std::exchange(other.armed, false)) {}
  ThrowsAtItsEnd& operator=(ThrowsAtItsEnd&&) = delete;
  ~ThrowsAtItsEnd() noexcept(false) {
    if (armed) throw std::runtime_error("from a parameter");
  }
  bool armed;
};

TEST_F(TaskTest, an_exception_of_a_parameter_s_destructor_is_the_spawned_task_s) {
#ifdef __clang__
  GTEST_SKIP()
      << "clang 19 reads a coroutine's frame after it has freed it, when such a destructor "
         "throws";
#endif
  std::vector<std::string> heard;
  proactor_.on_task_exception([&](const std::exception_ptr& exception) {
    try {
      std::rethrow_exception(exception);
    } catch (const std::exception& caught) {
      heard.emplace_back(caught.what());
    }
  });
  proactor_.spawn([](ThrowsAtItsEnd) -> Task<void> { co_return; }(ThrowsAtItsEnd{true}));
  proactor_.spawn([](ThrowsAtItsEnd) -> Task<void> {
    throw std::runtime_error("from the body");
    co_return;
  }(ThrowsAtItsEnd{true}));
  EXPECT_EQ(heard, (std::vector<std::string>{"from a parameter", "from the body"}));
}

// No task awaits it, so it ends the program as an exception that leaves a std::thread.
TEST_F(TaskTest, a_spawned_task_that_throws_unheard_ends_the_program) {
  const auto spawn_it = [this] {
    proactor_.spawn([]() -> Task<void> { static_cast<void>(co_await fail("unheard")); }());
  };
  EXPECT_DEATH(spawn_it(), "unheard");
}

TEST_F(TaskTest, exceptions_of_spawned_tasks_are_counted) {
  int told = 0;
  proactor_.on_task_exception([&](const std::exception_ptr&) { ++told; });
  for (int i = 0; i < 3; ++i) {
    proactor_.spawn([]() -> Task<void> { static_cast<void>(co_await fail("counted")); }());
  }
  EXPECT_EQ(told, 3);
  EXPECT_EQ(proactor_.statistics().exceptions, 3U);
}

TEST_F(TaskTest, a_handler_of_exceptions_that_throws_ends_the_program) {
  proactor_.on_task_exception(
      [](const std::exception_ptr& exception) { std::rethrow_exception(exception); });
  const auto spawn_it = [this] {
    proactor_.spawn([]() -> Task<void> { static_cast<void>(co_await fail("thrown on")); }());
  };
  EXPECT_DEATH(spawn_it(), "");
}

// ThreadSanitizer is the judge.
TEST_F(TaskTest, the_handler_of_exceptions_may_be_replaced_at_any_time) {
  std::atomic<int> told{0};
  proactor_.on_task_exception([&](const std::exception_ptr&) { ++told; });
  constexpr int rounds = 200;
  std::thread other([&] {
    for (int i = 0; i < rounds; ++i) {
      proactor_.on_task_exception([&](const std::exception_ptr&) { ++told; });
    }
  });
  for (int i = 0; i < rounds; ++i) {
    proactor_.spawn([]() -> Task<void> { static_cast<void>(co_await fail("to one of them")); }());
  }
  other.join();
  EXPECT_EQ(told, rounds);
}

struct Pair {
  int first = 0;
  std::string second;
};
Task<Pair> braced() { co_return {1, "two"}; }
TEST_F(TaskTest, a_result_may_be_a_braced_list) {
  const Pair pair = run(braced());
  EXPECT_EQ(pair.first, 1);
  EXPECT_EQ(pair.second, "two");
}

Task<int> awaits(Task<int>& task) {
  const int value = co_await std::move(task);
  co_return value;
}
TEST_F(TaskTest, an_empty_task_that_is_awaited_or_run_ends_the_program) {
  constexpr const char* sentence = "baton: an empty task was awaited or run";
  Task<int> never_made;
  EXPECT_DEATH(static_cast<void>(run(awaits(never_made))), sentence);
  Task<int> moved_from = give(1);
  const Task<int> owner = std::move(moved_from);
  EXPECT_DEATH(static_cast<void>(run(awaits(moved_from))), sentence);  // NOLINT
  Task<int> twice = give(2);
  EXPECT_EQ(run(awaits(twice)), 2);
  EXPECT_FALSE(static_cast<bool>(twice)) << "the await has taken it";
  EXPECT_DEATH(static_cast<void>(run(awaits(twice))), sentence);
  EXPECT_DEATH(static_cast<void>(run_until_complete(proactor_, Task<int>{})), sentence);
}

TEST_F(TaskTest, moves) {
  Task<int> first = give(1);
  Task<int> second = std::move(first);
  EXPECT_FALSE(static_cast<bool>(first));  // NOLINT: the tested case
  second = give(2);
  EXPECT_EQ(run(std::move(second)), 2);
}

// An await directly in the condition of an if, in a coroutine without a variable: correct or
// refused.
Task<int> awaits_in_a_condition() {
  if (co_await give(1) != 0) co_return 7;
  co_return 0;
}
// As many conditions as their values together fill the alignment of the frame.
Task<int> awaits_in_many_conditions() {
#define BATON_TEST_ONE \
  if (co_await give(1) == 0) co_return 0;
#define BATON_TEST_FOUR BATON_TEST_ONE BATON_TEST_ONE BATON_TEST_ONE BATON_TEST_ONE
#define BATON_TEST_SIXTEEN BATON_TEST_FOUR BATON_TEST_FOUR BATON_TEST_FOUR BATON_TEST_FOUR
  BATON_TEST_FOUR BATON_TEST_FOUR BATON_TEST_ONE co_return 7;
}
Task<int> awaits_in_sixty_four_conditions() {
  BATON_TEST_SIXTEEN BATON_TEST_SIXTEEN BATON_TEST_SIXTEEN BATON_TEST_SIXTEEN co_return 7;
}
Task<long> give_long(long value) { co_return value; }
Task<int> awaits_in_two_switches() {
  switch (co_await give_long(1)) {
    case 1:
      break;
    default:
      co_return 0;
  }
  switch (co_await give_long(2)) {
    case 2:
      co_return 7;
    default:
      co_return 0;
  }
}
TEST_F(TaskTest, an_await_in_a_condition_works_or_is_refused) {
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ < 13
  const char* const reason = "awaits in the condition";
  EXPECT_DEATH(static_cast<void>(awaits_in_a_condition()), reason);
  EXPECT_DEATH(static_cast<void>(awaits_in_many_conditions()), reason);
  EXPECT_DEATH(static_cast<void>(awaits_in_sixty_four_conditions()), reason);
  EXPECT_DEATH(static_cast<void>(awaits_in_two_switches()), reason);
#else
  EXPECT_EQ(run(awaits_in_a_condition()), 7);
  EXPECT_EQ(run(awaits_in_many_conditions()), 7);
  EXPECT_EQ(run(awaits_in_sixty_four_conditions()), 7);
  EXPECT_EQ(run(awaits_in_two_switches()), 7);
#endif
}

// An argument whose copy makes a task: the frame of the outer task is allocated before.
struct MakesATask {
  MakesATask() = default;
  MakesATask(const MakesATask&) { static_cast<void>(give(1)); }
};
Task<int> with_argument(MakesATask) { co_return 3; }
TEST_F(TaskTest, an_argument_may_make_a_task_when_it_is_copied) {
  const MakesATask argument;
  EXPECT_EQ(run(with_argument(argument)), 3);
}

struct alignas(64) Wide {
  bool aligned = reinterpret_cast<std::uintptr_t>(this) % 64 == 0;
  char bytes[100]{};
};
Task<Wide> wide() { co_return Wide{}; }
Task<bool> local_is_aligned(int rounds) {
  Wide local;
  const int given = co_await give(rounds);
  co_return local.aligned&& given == rounds;
}
TEST_F(TaskTest, aligns_locals_and_results_to_64_bytes) {
  for (int round = 0; round < 3; ++round) EXPECT_TRUE(run(local_is_aligned(round)));
  const Task<Wide> made = wide();
  const auto frame = reinterpret_cast<std::uintptr_t>(detail::TaskAccess::handle(made).address());
  EXPECT_EQ(frame % detail::frame_alignment, 0U);
}

Task<int> sleep_long(Proactor& proactor, std::error_code& error) {
  const auto slept = co_await sleep_for(proactor, std::chrono::hours{1});
  if (!slept) error = slept.error();
  co_return 1;
}
TEST_F(TaskTest, an_exception_of_another_handler_leaves_when_the_task_has_ended) {
  EXPECT_FALSE(proactor_.post([] { throw std::runtime_error("of another handler"); }));
  std::error_code ended_by;
  EXPECT_THROW(run(sleep_long(proactor_, ended_by)), std::runtime_error);
  EXPECT_EQ(ended_by, std::errc::operation_canceled);
  EXPECT_EQ(run(give(3)), 3);
}
TEST_F(TaskTest, a_handler_that_throws_the_code_of_a_refusal_refuses_nothing) {
  EXPECT_FALSE(proactor_.post([] { throw std::system_error(errc::wrong_thread); }));
  std::error_code ended_by;
  EXPECT_THROW(run(sleep_long(proactor_, ended_by)), std::system_error);
  EXPECT_EQ(ended_by, std::errc::operation_canceled);
}

// -- a proactor that another thread has stopped ---------------------------------------------------

// The other thread: it restarts the proactor when the one that drives it has slept, or spun.
Proactor* stopped_meanwhile = nullptr;
int sleeps = 0;
int looks_at_the_clock = 0;

TEST(Stopped, a_proactor_costs_no_cpu) {
  constexpr int looks_max = 100'000;
  os::System system = os::real_system();
  system.futex_wait = [](std::atomic<std::uint32_t>* word, std::uint32_t expected,
                         std::int64_t until) {
    const bool woken = os::real_system().futex_wait(word, expected, until);
    if (stopped_meanwhile->stopped() && ++sleeps == 3) stopped_meanwhile->restart();
    return woken;
  };
  system.monotonic_ns = [] {
    const bool stopped = stopped_meanwhile != nullptr && stopped_meanwhile->stopped();
    if (stopped && ++looks_at_the_clock == looks_max) stopped_meanwhile->restart();
    return os::real_system().monotonic_ns();
  };
  Config config;
  config.system = &system;
  Proactor proactor{config};
  stopped_meanwhile = &proactor;
  const auto body = [](Proactor& of) -> Task<bool> {
    Operation stops;
    stops.set_handler([&of](Operation&) { of.stop(); });
    EXPECT_FALSE(of.post(stops));
    const auto slept = co_await sleep_for(of, std::chrono::milliseconds{1});
    co_return slept.has_value();
  };
  EXPECT_TRUE(run_until_complete(proactor, body(proactor)));
  EXPECT_EQ(sleeps, 3);
  EXPECT_LT(looks_at_the_clock, looks_max);
}

// -- tasks that look at no result -----------------------------------------------------------------

Task<void> tick(Proactor& proactor, int& ticks, int stops_after) {
  for (;;) {
    if (ticks++ == stops_after) proactor.stop();
    static_cast<void>(co_await sleep_for(proactor, std::chrono::milliseconds{1}));
  }
}
constexpr int never = -1;
constexpr int ticks_max = 2 * static_cast<int>(detail::refusals_max);

TEST(Refusals, a_task_that_overlooks_them_ends_with_its_proactor) {
  int ticks = 0;
  {
    Proactor proactor;
    proactor.spawn(tick(proactor, ticks, never));
    static_cast<void>(proactor.handle_events(Deadline::after(std::chrono::milliseconds{10})));
  }
  EXPECT_LT(ticks, ticks_max);
}

TEST(Refusals, a_task_that_overlooks_them_ends_after_a_stop) {
  Proactor proactor;
  int ticks = 0;
  proactor.spawn(tick(proactor, ticks, 3));
  proactor.run();
  EXPECT_LT(ticks, ticks_max);
}

TEST(Refusals, a_task_of_a_scope_that_overlooks_them_ends_and_its_join_returns) {
  Proactor proactor;
  int ticks = 0;
  bool joined = false;
  proactor.spawn([](Proactor& of, int& count, bool& done) -> Task<void> {
    Scope scope{of};
    scope.spawn(tick(of, count, 3));
    co_await scope.join();
    done = true;
  }(proactor, ticks, joined));
  proactor.run();
  proactor.restart();
  while (!joined) static_cast<void>(proactor.handle_events(Deadline::immediately()));
  EXPECT_LT(ticks, ticks_max);
}

TEST(Refusals, a_task_that_overlooks_a_cancel_ends_and_the_join_of_its_scope_returns) {
  Proactor proactor;
  for (const bool strand : {true, false}) {
    int ticks = 0;
    run_until_complete(proactor, [](Proactor& of, int& count, bool with_strand) -> Task<void> {
      Scope scope{of, {.strand = with_strand, .token = {}}};
      scope.spawn(tick(of, count, never));
      static_cast<void>(co_await sleep_for(of, std::chrono::milliseconds{2}));
      scope.cancel();
      co_await scope.join();
    }(proactor, ticks, strand));
    EXPECT_LT(ticks, ticks_max);
  }
}

TEST(Refusals, a_task_that_overlooks_a_cancelled_token_ends) {
  Proactor proactor;
  CancellationSource source{proactor};
  source.cancel();
  int ticks = 0;
  const auto body = [](Proactor& of, CancellationToken token, int& count) -> Task<void> {
    while (count++ < ticks_max) {
      static_cast<void>(co_await sleep_for(of, std::chrono::hours{1}).cancel_with(token));
    }
  };
  try {
    run_until_complete(proactor, body(proactor, source.token(), ticks));
    ADD_FAILURE() << "it has no end of its own";
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), std::errc::operation_canceled);
  }
  EXPECT_LT(ticks, ticks_max);
}

std::atomic<int> sockets_made;
Config counts_sockets() {
  static const os::System system = [] {
    os::System made = os::real_system();
    made.socket = [](int domain, int type, int protocol) {
      ++sockets_made;
      return os::real_system().socket(domain, type, protocol);
    };
    return made;
  }();
  Config config;
  config.system = &system;
  return config;
}

// Every further address would be refused, too.
TEST(Refusals, of_one_address_are_the_last_of_a_connect_to_any) {
  Proactor proactor{counts_sockets()};
  std::error_code why;
  Scope scope{proactor, {.strand = false}};
  proactor.stop();
  sockets_made = 0;
  scope.spawn([](Proactor& of, std::error_code& error) -> Task<void> {
    Connector connector{of};
    const std::vector<Endpoint> several(3, Endpoint::loopback(1));
    error = (co_await connector.connect_any(several)).error();
  }(proactor, why));
  EXPECT_EQ(scope.running(), 0U);
  EXPECT_EQ(why, errc::stopped);
  EXPECT_EQ(sockets_made, 1);
}

// The same after a cancel.
TEST(Refusals, of_a_cancelled_connect_to_any_are_the_last) {
  Proactor proactor{counts_sockets()};
  CancellationSource source{proactor};
  source.cancel();
  sockets_made = 0;
  const auto why = run_until_complete(
      proactor, [](Proactor& of, CancellationToken token) -> Task<std::error_code> {
        Connector connector{of};
        const std::vector<Endpoint> several(3, Endpoint::loopback(1));
        co_return (co_await connector.connect_any(several, std::chrono::hours(1), token)).error();
      }(proactor, source.token()));
  EXPECT_EQ(why, std::errc::operation_canceled);
  EXPECT_LE(sockets_made, 1);
}

TEST(Refusals, leave_the_thread_that_runs_the_task) {
  Proactor proactor;
  int ticks = 0;
  try {
    run_until_complete(proactor, tick(proactor, ticks, 3));
    ADD_FAILURE() << "it has no end of its own";
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), errc::stopped);
  }
}

// The child of a fork in a handler drives nothing. Its copy of the task is the parent's.
TEST(Child, cannot_drive_a_task) {
  Proactor proactor;
  pid_t child = -1;
  Operation forks;
  forks.set_handler([&](Operation&) { child = ::fork(); });
  ASSERT_FALSE(proactor.post(forks));
  const auto body = [](Proactor& of, const pid_t& made) -> Task<void> {
    while (made < 0) static_cast<void>(co_await yield(of));
    static_cast<void>(co_await yield(of));
  };
  try {
    run_until_complete(proactor, body(proactor, child));
  } catch (const std::system_error& error) {
    if (child == 0) ::_exit(error.code() == errc::after_fork ? 0 : 1);
    throw;
  }
  if (child == 0) ::_exit(2);
  EXPECT_EQ(test::status_of(child), 0);
}

// What would bring it back into its strand cannot be posted there.
TEST(Child, resumes_a_task_outside_of_its_strand) {
  struct Kept {
    std::coroutine_handle<>& waiter;
    [[nodiscard]] bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> from) const noexcept { waiter = from; }
    void await_resume() const noexcept {}
  };
  Proactor proactor;
  Scope scope{proactor};
  std::coroutine_handle<> waiter;
  bool resumed = false;
  scope.spawn([](std::coroutine_handle<>& kept, bool& done) -> Task<void> {
    co_await Kept{kept};
    done = true;
  }(waiter, resumed));
  while (!waiter) static_cast<void>(proactor.handle_events(Deadline::immediately()));
  EXPECT_EQ(test::status_of_child([&] {
              waiter.resume();
              return resumed ? 0 : 1;
            }),
            0);
  waiter.resume();
  while (scope.running() != 0) {
    static_cast<void>(proactor.handle_events(Deadline::immediately()));
  }
}

template <class Make>
Task<void> await_again_and_again(Make make, int& awaits) {
  while (awaits++ < ticks_max) static_cast<void>(co_await make());
}

TEST(Refusals, are_counted_for_every_awaitable) {
  Proactor proactor;
  Timer timer{proactor};
  Acceptor acceptor = Acceptor::listen(proactor, Endpoint::loopback(0)).value();
  auto ends = StreamSocket::pair(proactor).value();
  char byte = 0;
  const auto awaits = [&proactor](auto make) {
    int count = 0;
    proactor.spawn(await_again_and_again(make, count));
    return count;
  };
  const auto read = [&] { return ends.first.read({&byte, 1}); };
  const auto accept = [&] { return acceptor.accept(); };
  const auto wait = [&] { return timer.wait_for(std::chrono::milliseconds{1}); };
  proactor.stop();
  EXPECT_LT(awaits(read), ticks_max);
  EXPECT_LT(awaits(accept), ticks_max);
  EXPECT_LT(awaits(wait), ticks_max);
  EXPECT_LT(awaits([&] { return read().timeout(std::chrono::hours{1}); }), ticks_max);
  proactor.restart();
  EXPECT_TRUE(run_until_complete(proactor, [](Timer& again) -> Task<bool> {
    const auto waited = co_await again.wait_for(std::chrono::milliseconds{1});
    co_return waited.has_value();
  }(timer)));
}

// Each start that succeeds resets the count.
TEST(Refusals, in_a_row_are_counted) {
  Proactor proactor;
  const auto body = [](Proactor& of) -> Task<int> {
    int refused = 0;
    for (std::uint32_t round = 0; round < 3; ++round) {
      of.stop();
      for (std::uint32_t i = 0; i < detail::refusals_max; ++i) {
        const auto went = co_await yield(of);
        if (!went) ++refused;
      }
      of.restart();
      const auto last = co_await yield(of);
      if (!last) ++refused;
    }
    co_return refused;
  };
  EXPECT_EQ(run_until_complete(proactor, body(proactor)),
            static_cast<int>(3 * detail::refusals_max));
}

#if defined(NDEBUG) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// Symmetric transfer: a chain of tasks that end at once does not grow the stack. gcc does that only
// from -O2 on (gcc bug 100897): in release builds.
TEST_F(TaskTest, ends_of_many_tasks_do_not_pile_up) {
  const auto body = []() -> Task<long> {
    long sum = 0;
    for (int i = 0; i < 1'000'000; ++i) sum += co_await give(1);
    co_return sum;
  };
  EXPECT_EQ(run(body()), 1'000'000);
}
#endif

}  // namespace
}  // namespace baton
