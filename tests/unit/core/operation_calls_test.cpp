// The results of the public calls in every state of an operation (P-20, P-25).
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <future>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>

#include "baton/attachment.hpp"
#include "baton/proactor.hpp"
#include "os/system.hpp"
#include "support/child.hpp"

namespace baton {
namespace {

using namespace std::chrono_literals;
using State = OperationState;

// Two reads of silent pipes, on a processor that starts one at a time: the second is deferred.
class Calls : public testing::Test {
 protected:
  void SetUp() override { SetUp(nullptr); }
  void SetUp(const os::System* system) {
    Config config;
    config.system = system;
    config.processors.push_back({.started_max = 1});
    proactor_ = std::make_unique<Proactor>(config);
    for (int i = 0; i < 2; ++i) {
      ASSERT_EQ(::pipe(fd_[i]), 0);
      handle_[i] = proactor_->adopt(fd_[i][0], HandleKind::pipe).value();
      prepare(operation_[i], i);
    }
  }
  void TearDown() override {
    proactor_.reset();
    for (auto& pair : fd_) ::close(pair[1]);
  }
  void prepare(Operation& operation, int which) {
    operation.prepare(OperationKind::read_stream, handle_[which]);
    operation.set_buffer(MutableBuffer{byte_, sizeof(byte_)});
  }

  void bring_to(State state) {
    switch (state) {
      case State::started:
        ASSERT_FALSE(proactor_->start(operation_[0]));
        break;
      case State::deferred:
        ASSERT_FALSE(proactor_->start(operation_[1]));
        ASSERT_FALSE(proactor_->start(operation_[0]));
        break;
      case State::posted:
        ASSERT_FALSE(proactor_->post(operation_[0]));
        break;
      case State::result_ready:
        bring_to(State::deferred);
        ASSERT_EQ(proactor_->cancel(operation_[0]), CancelResult::requested);
        break;
      case State::completed:
        bring_to(State::posted);
        ASSERT_EQ(proactor_->poll(), 1U);
        break;
      case State::initialized:
      case State::start_error:
        break;
    }
    ASSERT_EQ(operation_[0].state(), state);
  }

  /// In place of a sleep: the operation completes, is started again and cancelled.
  static bool use_again(std::atomic<std::uint32_t>*, std::uint32_t, std::int64_t) {
    EXPECT_EQ(current->proactor_->poll(), 1U);
    current->prepare(current->operation_[0], 0);
    current->bring_to(State::result_ready);
    return true;
  }
  static inline Calls* current = nullptr;

  int fd_[2][2];
  char byte_[1];
  std::unique_ptr<Proactor> proactor_;
  Handle* handle_[2];
  Operation operation_[2];
};

TEST_F(Calls, start_and_post_refuse_an_operation_in_use) {
  for (const State state : {State::started, State::deferred, State::posted, State::result_ready}) {
    SCOPED_TRACE(to_string(state));
    bring_to(state);
    const std::uint32_t activation = operation_[0].activation();
    EXPECT_EQ(proactor_->start(operation_[0]), errc::operation_in_use);
    EXPECT_EQ(proactor_->post(operation_[0]), errc::operation_in_use);
    EXPECT_EQ(proactor_->start_timer(operation_[0], proactor_->now()), errc::operation_in_use);
    EXPECT_EQ(proactor_->close(*handle_[0], operation_[0]), errc::operation_in_use);
    EXPECT_EQ(operation_[0].state(), state);
    EXPECT_EQ(operation_[0].activation(), activation);
    proactor_->cancel_all();
    while (operation_[0].is_pending() || operation_[1].is_pending()) proactor_->handle_events();
    prepare(operation_[0], 0);
    prepare(operation_[1], 1);
  }
}

// A call from another thread was taken for a start without a handle.
TEST_F(Calls, a_close_that_is_not_prepared_as_one_is_found) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";  // a child of fork has no proactor
  Operation close;
  EXPECT_DEATH(static_cast<void>(proactor_->close(*handle_[0], close)), "OperationKind::close");
  close.prepare(OperationKind::close, handle_[1]);
  EXPECT_DEATH(static_cast<void>(proactor_->close(*handle_[0], close)), "OperationKind::close");
}

// The proactor would be gone when the thread returns to it.
TEST(Attachments, end_before_their_proactor_does) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(
      {
        auto proactor = std::make_unique<Proactor>(*Config::parse("mode=per_thread", Config{}));
        const Attachment attached{*proactor};
        proactor.reset();
      },
      "end the Attachment first");
}

void exit_in_a_handler_of_an_attached_thread() {
  static Proactor proactor{*Config::parse("mode=per_thread", Config{})};
  const Attachment attached{proactor};
  static_cast<void>(proactor.post([] { std::exit(3); }));
  proactor.poll();
}
TEST(Attachments, a_handler_may_call_exit) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(exit_in_a_handler_of_an_attached_thread(), testing::ExitedWithCode(3), "");
}

TEST(Homes, a_closed_handle_is_no_load_of_its_lane) {
  Config config = *Config::parse("mode=per_thread,threads=2", Config{});
  config.accept_policy = AcceptPolicy::least_loaded;
  Proactor proactor{config};
  const Attachment attached{proactor};  // lanes without a thread are passed over
  int fd[2][2];
  for (auto& pair : fd) ASSERT_EQ(::pipe(pair), 0);
  const auto adopt = [&](int which, Home home) {
    return proactor.adopt(which, HandleKind::pipe, Ownership::owned, home).value();
  };
  for (const int native : fd[0]) {
    proactor.close_detached(*adopt(native, Home{0}));
    proactor.poll();
  }
  EXPECT_EQ(proactor.home_lane(*adopt(fd[1][0], Home{1})), 1U);
  EXPECT_EQ(proactor.home_lane(*adopt(fd[1][1], Home{Home::by_policy})), 0U);
}

// The handler of one proactor drives another one, whose handler forks. In the child neither goes on
// with what its parent has queued.
TEST(Forks, in_nested_handlers_end_all_turns_of_the_child) {
  const Config config = *Config::parse("mode=per_thread,threads=1", Config{});
  Proactor outer{config};
  Proactor inner{config};
  pid_t child = -1;
  int later = 0;
  ASSERT_FALSE(inner.post([&] { child = ::fork(); }));
  ASSERT_FALSE(inner.post([&] { ++later; }));
  const auto poll = [](Proactor& proactor) {
    try {
      proactor.poll();
    } catch (const std::system_error& refused) {
      EXPECT_EQ(refused.code(), errc::after_fork);
    }
  };
  ASSERT_FALSE(outer.post([&] { poll(inner); }));
  ASSERT_FALSE(outer.post([&] { ++later; }));
  poll(outer);
  if (child == 0) ::_exit(HasFailure() ? 99 : later);
  EXPECT_EQ(test::status_of(child), 0);
  EXPECT_EQ(later, 2);
}

// The lane's own thread finds the close of another one in the mail, where it came first.
TEST(Attachments, a_close_behind_one_in_the_mail_is_refused) {
  Proactor proactor{*Config::parse("mode=per_thread", Config{})};
  const Attachment attached{proactor};
  int fd[2];
  ASSERT_EQ(::pipe(fd), 0);
  Handle* const handle = proactor.adopt(fd[0], HandleKind::pipe).value();
  Operation first;
  Operation second;
  for (Operation* close : {&first, &second}) close->prepare(OperationKind::close, handle);
  std::thread{[&] { EXPECT_FALSE(proactor.close(*handle, first)); }}.join();
  EXPECT_EQ(proactor.close(*handle, second), errc::handle_closed);
  EXPECT_FALSE(second.is_pending());
  while (first.is_pending()) proactor.handle_events();
  EXPECT_FALSE(first.failed());
  ::close(fd[1]);
}

// It leads its lane between its calls, too, and is not in one.
TEST(Attachments, may_outlive_a_finish) {
  Proactor proactor{*Config::parse("mode=per_thread", Config{})};
  std::promise<void> is_attached;
  std::promise<void> finished;
  std::thread thread{[&] {
    const Attachment attached{proactor};
    is_attached.set_value();
    finished.get_future().wait();
  }};
  is_attached.get_future().wait();
  proactor.finish();
  finished.set_value();
  thread.join();
  EXPECT_TRUE(proactor.stopped());
}

TEST(Attachments, end_on_their_thread_and_in_no_handler) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  Proactor proactor{*Config::parse("mode=per_thread", Config{})};
  EXPECT_DEATH(
      {
        auto attached = std::make_unique<Attachment>(proactor);
        std::thread{[&] { attached.reset(); }}.join();
      },
      "an Attachment was ended by another thread or inside a handler");
  EXPECT_DEATH(
      {
        auto attached = std::make_unique<Attachment>(proactor);
        static_cast<void>(proactor.post([&] { attached.reset(); }));
        proactor.poll();
      },
      "an Attachment was ended by another thread or inside a handler");
}

TEST_F(Calls, cancel_finds_something_only_where_something_is_pending) {
  const std::pair<State, CancelResult> expected[] = {
      {State::initialized, CancelResult::nothing_pending},
      {State::started, CancelResult::requested},
      {State::deferred, CancelResult::requested},
      {State::posted, CancelResult::nothing_pending},
      {State::result_ready, CancelResult::nothing_pending},
      {State::completed, CancelResult::nothing_pending},
  };
  for (const auto& [state, answer] : expected) {
    SCOPED_TRACE(to_string(state));
    bring_to(state);
    EXPECT_EQ(proactor_->cancel(operation_[0], operation_[0].activation() - 1),
              CancelResult::nothing_pending)
        << "an earlier activation";
    EXPECT_EQ(proactor_->cancel(operation_[0]), answer);
    proactor_->cancel_all();
    while (operation_[0].is_pending() || operation_[1].is_pending()) proactor_->handle_events();
    prepare(operation_[0], 0);
    prepare(operation_[1], 1);
  }
}

TEST_F(Calls, cancel_wait_returns_with_the_result_though_no_thread_runs_handlers) {
  bring_to(State::deferred);
  EXPECT_EQ(proactor_->cancel_wait(operation_[0], operation_[0].activation(),
                                   Deadline::after(60s, proactor_->now())),
            CancelWait::cancelled);
  EXPECT_EQ(operation_[0].state(), State::result_ready);
  EXPECT_EQ(proactor_->cancel_wait(operation_[0], operation_[0].activation(),
                                   Deadline::after(60s, proactor_->now())),
            CancelWait::done);
}

TEST_F(Calls, cancel_wait_does_not_wait_for_a_later_use) {
  bring_to(State::completed);
  const std::uint32_t earlier = operation_[0].activation();
  prepare(operation_[0], 0);
  bring_to(State::started);
  EXPECT_EQ(proactor_->cancel_wait(operation_[0], earlier, Deadline::immediately()),
            CancelWait::done);
  EXPECT_EQ(operation_[0].state(), State::started);
}

// The answer was that of the later use.
TEST_F(Calls, cancel_wait_tells_nothing_of_a_later_use) {
  current = this;
  os::System system = os::real_system();
  system.futex_wait = &use_again;
  TearDown();
  SetUp(&system);
  bring_to(State::posted);
  EXPECT_EQ(proactor_->cancel_wait(operation_[0], operation_[0].activation(),
                                   Deadline::after(60s, proactor_->now())),
            CancelWait::done);
  EXPECT_EQ(operation_[0].error(), std::errc::operation_canceled);
  proactor_.reset();
}

TEST_F(Calls, cancel_wait_gives_up_at_its_deadline) {
  bring_to(State::posted);
  const Deadline deadline = Deadline::after(5ms, proactor_->now());
  EXPECT_EQ(proactor_->cancel_wait(operation_[0], operation_[0].activation(), deadline),
            CancelWait::still_running);
  EXPECT_GE(proactor_->now(), deadline);
}

// -- the end --------------------------------------------------------------------------------------

Proactor* ending = nullptr;

// In the middle of an adopt, another thread finishes the proactor.
int finish_meanwhile(int fd, int command, long argument) {
  if (command == F_GETFL && ending != nullptr) {
    std::thread{[] { std::exchange(ending, nullptr)->finish(); }}.join();
  }
  return os::real_system().fcntl(fd, command, argument);
}

TEST(Ending, no_handle_is_adopted_after_it) {
  for (const Mode mode : {Mode::shared, Mode::per_thread}) {
    os::System system = os::real_system();
    system.fcntl = &finish_meanwhile;
    Config config;
    config.system = &system;
    config.processors.push_back({.mode = mode});
    Proactor proactor{config};
    int fd[2];
    ASSERT_EQ(::pipe(fd), 0);
    ending = &proactor;
    const auto handle = proactor.adopt(fd[0], HandleKind::pipe);
    ASSERT_FALSE(handle.has_value());
    EXPECT_EQ(handle.error(), errc::stopped);
    EXPECT_EQ(::close(fd[0]), 0) << "it stays the caller's";
    ::close(fd[1]);
  }
}

}  // namespace
}  // namespace baton
