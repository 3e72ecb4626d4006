// A cancel by another thread, of an engine that only its leader may call (contract, rule 12): it
// returns when the leader has left the engine, or is in it without the operation.
#include <errno.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <thread>

#include "baton/proactor.hpp"
#include "baton/registry.hpp"

namespace baton {
namespace {

std::atomic<bool> inside_with_operations{false};

/// Leaves its wait some time after it was interrupted.
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
    static_cast<void>(operation);
    ++held_;
    return Submission::pending;
  }
  CancelAnswer cancel(Operation& operation) noexcept override {
    --held_;
    operation.finish(ECANCELED);
    return CancelAnswer::completed;
  }
  void wait(OperationQueue&, Deadline deadline) noexcept override {
    constexpr int yields = 300;
    inside_with_operations = held_ > 0;
    while (!interrupted_.load() && deadline.is_never()) interrupted_.wait(false);
    for (int i = 0; i < yields && held_ > 0; ++i) std::this_thread::yield();
    interrupted_ = false;
    inside_with_operations = false;
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
  }
};

TEST_P(LeaderOnlyCancel, returns_when_no_leader_is_in_the_engine_with_the_operation) {
  Config config;
  ProcessorConfig& processor = config.processors.emplace_back();
  processor.engine = "slow_to_leave";
  processor.mode = GetParam();
  auto proactor = Proactor::open(config);
  ASSERT_TRUE(proactor.has_value()) << proactor.error().reason;
  std::thread thread{[&] { (*proactor)->run(); }};
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  auto handle = (*proactor)->adopt(ends[0], HandleKind::pipe, Ownership::borrowed);
  ASSERT_TRUE(handle.has_value());
  char byte = 0;
  Operation read;
  constexpr int rounds = 20;
  for (int i = 0; i < rounds; ++i) {
    read.prepare(OperationKind::read_stream, *handle);
    read.set_buffer(MutableBuffer{&byte, 1});
    ASSERT_FALSE((*proactor)->start(read));
    while (!inside_with_operations) std::this_thread::yield();
    const CancelResult answer =
        i % 2 == 0 ? (*proactor)->cancel(read) : (*proactor)->cancel(**handle);
    EXPECT_FALSE(inside_with_operations);
    EXPECT_EQ(answer, CancelResult::requested);
    while (read.is_pending()) std::this_thread::yield();
    EXPECT_EQ(read.error(), std::errc::operation_canceled);
  }
  (*proactor)->stop();
  thread.join();
  for (const int end : ends) ::close(end);
}

INSTANTIATE_TEST_SUITE_P(modes, LeaderOnlyCancel, testing::Values(Mode::shared, Mode::dedicated),
                         [](const auto& one) { return to_string(one.param); });

}  // namespace
}  // namespace baton
