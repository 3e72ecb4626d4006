// A cancel by another thread, of an engine that only its leader may call. It returns when the
// leader has left the engine, or is in it without the operation (contract, rule 12).
#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <thread>

#include "baton/proactor.hpp"
#include "baton/registry.hpp"
#include "os/system.hpp"

namespace baton {
namespace {

std::atomic<int> inside_with{0};  // operations, while a leader is in the engine
std::atomic<int> cancels{0};      // that have returned
std::atomic<bool> waited_after_cancel{false};

/// Leaves its wait some time after it was interrupted, and takes as long with a poll.
class SlowToLeave final : public Engine {
 public:
  SlowToLeave() {
    info_.name = "slow_to_leave";
    info_.start_from_any_thread = false;
    info_.start_interrupts_leader = true;
    for (Support& support : info_.support) support = Support::native;
  }
  [[nodiscard]] const EngineInfo& info() const noexcept override { return info_; }
  Submission submit(Operation& operation, void*) noexcept override {
    if (operation.kind() == OperationKind::wait_ready) {
      operation.finish(0);
      return Submission::completed;
    }
    ++held_;
    return Submission::pending;
  }
  CancelAnswer cancel(Operation& operation) noexcept override {
    --held_;
    operation.finish(ECANCELED);
    return CancelAnswer::completed;
  }
  void wait(OperationQueue&, Deadline deadline) noexcept override {
    constexpr int yields = 100;
    inside_with = held_;
    if (held_ > 0 && cancels > 0) waited_after_cancel = true;
    while (!interrupted_.load() && deadline.is_never()) interrupted_.wait(false);
    for (int i = 0; i < yields && held_ > 0; ++i) std::this_thread::yield();
    interrupted_ = false;
    inside_with = 0;
  }
  void interrupt() noexcept override {
    interrupted_ = true;
    interrupted_.notify_one();
  }

 private:
  EngineInfo info_;
  std::atomic<bool> interrupted_{false};
  int held_ = 0;
};

class LeaderOnlyCancel : public testing::TestWithParam<Mode> {
 protected:
  void SetUp() override {
    static const std::error_code added = registry().add(
        "slow_to_leave",
        [](const EngineOptions&) -> Result<std::unique_ptr<Engine>, Failure> {
          return std::unique_ptr<Engine>{std::make_unique<SlowToLeave>()};
        },
        "for this test");
    ASSERT_FALSE(added);
    ASSERT_EQ(::pipe(ends_), 0);
    cancels = 0;
    waited_after_cancel = false;
  }
  void TearDown() override {
    proactor_.reset();
    for (const int end : ends_) ::close(end);
  }
  void open(const os::System* system = nullptr) {
    Config config;
    config.system = system;
    ProcessorConfig& processor = config.processors.emplace_back();
    processor.engine = "slow_to_leave";
    processor.mode = GetParam();
    auto proactor = Proactor::open(config);
    ASSERT_TRUE(proactor.has_value()) << proactor.error().reason;
    proactor_ = std::move(*proactor);
    auto handle = proactor_->adopt(ends_[0], HandleKind::pipe, Ownership::borrowed);
    ASSERT_TRUE(handle.has_value());
    handle_ = *handle;
  }
  void start_read() {
    read_.prepare(OperationKind::read_stream, handle_);
    read_.set_buffer(MutableBuffer{&byte_, 1});
    ASSERT_FALSE(proactor_->start(read_));
    while (inside_with == 0) std::this_thread::yield();
  }
  void expect_cancelled() {
    while (read_.is_pending()) std::this_thread::yield();
    EXPECT_EQ(read_.error(), std::errc::operation_canceled);
  }
  void cancel_some_times() {
    constexpr int rounds = 20;
    for (int i = 0; i < rounds; ++i) {
      start_read();
      const CancelResult answer =
          i % 2 == 0 ? proactor_->cancel(read_) : proactor_->cancel(*handle_);
      EXPECT_EQ(inside_with, 0);
      EXPECT_EQ(answer, CancelResult::requested);
      expect_cancelled();
    }
  }

  int ends_[2] = {-1, -1};
  char byte_ = 0;
  Operation read_;
  std::unique_ptr<Proactor> proactor_;
  Handle* handle_ = nullptr;
};

TEST_P(LeaderOnlyCancel, returns_when_no_leader_is_in_the_engine_with_the_operation) {
  open();
  std::thread thread{[&] { proactor_->run(); }};
  cancel_some_times();
  proactor_->stop();
  thread.join();
}

// A leader that polls does not wait, and is in the engine all the same.
TEST_P(LeaderOnlyCancel, minds_a_leader_that_polls) {
  open();
  std::atomic<bool> ends{false};
  std::thread thread{[&] {
    while (!ends) {
      proactor_->poll();
      std::this_thread::yield();
    }
  }};
  cancel_some_times();
  ends = true;
  thread.join();
}

std::atomic<bool> is_closing{false};
std::atomic<bool> canceller_waits{false};
thread_local bool cancels_here = false;

// The leader closes handles without the mutex, after it has served cancels and before its wait.
TEST_P(LeaderOnlyCancel, minds_a_leader_that_closes_a_handle) {
  os::System system = os::real_system();
  system.close = [](int fd) {
    is_closing = true;
    while (cancels == 0 && !canceller_waits) std::this_thread::yield();
    return ::close(fd);
  };
  system.yield = [] {
    if (cancels_here) canceller_waits = true;
    std::this_thread::yield();
  };
  open(&system);
  is_closing = false;
  canceller_waits = false;
  auto other = proactor_->adopt(::dup(ends_[1]), HandleKind::pipe, Ownership::owned);
  ASSERT_TRUE(other.has_value());
  std::thread thread{[&] { proactor_->run(); }};
  start_read();
  Operation write;  // attaches the handle, which only the leader may detach
  write.prepare(OperationKind::write_stream, *other);
  write.set_buffer(ConstBuffer{&byte_, 1});
  ASSERT_FALSE(proactor_->start(write));
  while (inside_with < 2) std::this_thread::yield();
  Operation close;
  close.prepare(OperationKind::close, *other);
  ASSERT_FALSE(proactor_->close(**other, close));
  while (!is_closing) std::this_thread::yield();
  cancels_here = true;
  EXPECT_EQ(proactor_->cancel(read_), CancelResult::requested);
  ++cancels;
  cancels_here = false;
  expect_cancelled();
  EXPECT_FALSE(waited_after_cancel);
  proactor_->stop();
  thread.join();
  proactor_.reset();
}

// Only the leader detaches the handle, which comes before its close.
TEST_P(LeaderOnlyCancel, a_drain_ends_after_the_close_that_its_last_handler_has_begun) {
  open();
  const int number = ::dup(ends_[1]);
  auto handle = proactor_->adopt(number, HandleKind::pipe, Ownership::owned);
  ASSERT_TRUE(handle.has_value());
  Operation wait;
  wait.prepare(OperationKind::wait_ready, *handle, Operation::writable);
  wait.set_handler([&](Operation&) { proactor_->close_detached(**handle); });
  ASSERT_FALSE(proactor_->start(wait));
  proactor_->drain(Deadline::never());
  proactor_->run();
  EXPECT_EQ(proactor_->statistics().handles, 1U) << "the pipe's other end is the fixture's";
  EXPECT_EQ(::fcntl(number, F_GETFD), -1);
}

INSTANTIATE_TEST_SUITE_P(modes, LeaderOnlyCancel, testing::Values(Mode::shared, Mode::dedicated),
                         [](const auto& one) { return to_string(one.param); });

}  // namespace
}  // namespace baton
