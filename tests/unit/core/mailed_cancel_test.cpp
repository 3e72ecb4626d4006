// A cancel by another thread beside a lane that has just taken the operation out of its mailbox, on
// its way to a dedicated processor (contract, rule 12).
#include <errno.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <set>
#include <thread>

#include "baton/proactor.hpp"
#include "baton/registry.hpp"
#include "os/system.hpp"

namespace baton {
namespace {

/// Keeps every operation until it is cancelled.
class Keeper final : public Engine {
 public:
  Keeper() {
    info_.name = "keeper";
    for (Support& support : info_.support) support = Support::native;
    made_last = this;
  }
  [[nodiscard]] const EngineInfo& info() const noexcept override { return info_; }
  Submission submit(Operation& operation, void*) noexcept override {
    const std::lock_guard lock{mutex_};
    if (operation.cancel_asked()) {
      operation.finish(ECANCELED);
      return Submission::completed;
    }
    held_.insert(&operation);
    return Submission::pending;
  }
  CancelAnswer cancel(Operation& operation) noexcept override {
    const std::lock_guard lock{mutex_};
    if (held_.erase(&operation) == 0) return CancelAnswer::too_late;
    operation.finish(ECANCELED);
    return CancelAnswer::completed;
  }
  void wait(OperationQueue&, Deadline deadline) noexcept override {
    while (!interrupted_.load() && deadline.is_never()) interrupted_.wait(false);
    interrupted_ = false;
  }
  void interrupt() noexcept override {
    interrupted_ = true;
    interrupted_.notify_one();
  }
  [[nodiscard]] bool is_empty() {
    const std::lock_guard lock{mutex_};
    return held_.empty();
  }
  static inline Keeper* made_last = nullptr;

 private:
  EngineInfo info_;
  std::mutex mutex_;
  std::set<const Operation*> held_;
  std::atomic<bool> interrupted_{false};
};

thread_local bool is_lane = false;
std::atomic<bool> lane_stops{false};
std::atomic<bool> lane_is_stopped{false};
std::atomic<bool> canceller_is_done{false};  // or waits for the lane

void wait_for(const std::atomic<bool>& flag) {
  while (!flag) std::this_thread::yield();
}

class MailedCancel : public testing::TestWithParam<bool> {};

TEST_P(MailedCancel, ends_what_the_lane_was_about_to_give_to_a_dedicated_processor) {
  static const std::error_code added = registry().add(
      "keeper",
      [](const EngineOptions&) -> Result<std::unique_ptr<Engine>, Failure> {
        return std::unique_ptr<Engine>{std::make_unique<Keeper>()};
      },
      "for this test");
  ASSERT_FALSE(added);
  os::System system = os::real_system();
  // The first lock after the mailbox was emptied is the one of the dedicated processor's accounts.
  system.lock_point = [] {
    if (!is_lane || !lane_stops.exchange(false)) return;
    lane_is_stopped = true;
    wait_for(canceller_is_done);
  };
  system.yield = [] {
    if (!is_lane && lane_is_stopped) canceller_is_done = true;
    std::this_thread::yield();
  };
  lane_is_stopped = false;
  canceller_is_done = false;
  Config config;
  config.system = &system;
  ProcessorConfig& lane = config.processors.emplace_back();
  lane.mode = Mode::per_thread;
  lane.threads = 1;
  lane.operations = datagram_operations;
  ProcessorConfig& beside = config.processors.emplace_back();
  beside.mode = Mode::dedicated;
  beside.engine = "keeper";
  auto opened = Proactor::open(config);
  ASSERT_TRUE(opened.has_value()) << opened.error().reason;
  Proactor& proactor = **opened;
  Keeper& engine = *Keeper::made_last;
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  auto handle = proactor.adopt(ends[0], HandleKind::pipe, Ownership::borrowed);
  ASSERT_TRUE(handle.has_value());

  std::atomic<bool> in_first{false};
  std::atomic<bool> all_mailed{false};
  std::atomic<bool> in_second{false};
  std::atomic<bool> ends_second{false};
  const auto first_handler = [&] {
    in_first = true;
    wait_for(all_mailed);
    lane_stops = true;
  };
  const auto second_handler = [&] {
    in_second = true;
    wait_for(ends_second);
  };
  Operation first;
  Operation second;
  first.set_handler([&first_handler](Operation&) { first_handler(); });
  second.set_handler([&second_handler](Operation&) { second_handler(); });
  std::thread thread{[&] {
    is_lane = true;
    proactor.run();
  }};
  ASSERT_FALSE(proactor.post(first));
  wait_for(in_first);
  Operation read;
  char byte = 0;
  read.prepare(OperationKind::read_stream, *handle);
  read.set_buffer(MutableBuffer{&byte, 1});
  ASSERT_FALSE(proactor.start(read));
  ASSERT_FALSE(proactor.post(second));
  all_mailed = true;
  wait_for(lane_is_stopped);

  const bool one_operation = GetParam();
  const CancelResult answer = one_operation ? proactor.cancel(read) : proactor.cancel(**handle);
  canceller_is_done = true;
  EXPECT_EQ(answer, CancelResult::requested);
  wait_for(in_second);
  EXPECT_TRUE(engine.is_empty());
  ends_second = true;
  while (read.is_pending()) std::this_thread::yield();
  EXPECT_EQ(read.error(), std::errc::operation_canceled);
  proactor.stop();
  thread.join();
  opened->reset();
  for (const int end : ends) ::close(end);
}

INSTANTIATE_TEST_SUITE_P(of, MailedCancel, testing::Bool(),
                         [](const auto& one) { return one.param ? "one_operation" : "a_handle"; });

}  // namespace
}  // namespace baton
