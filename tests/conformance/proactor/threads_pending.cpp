// The report of stuck operations, on every combination: its operations and their order, and
// that any thread may ask for it at any time.
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <string>
#include <thread>

#include "harness.hpp"

namespace baton::conformance {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class Pending : public Conformance {
 protected:
  /// A read that gets no data, with a tag.
  struct Stuck {
    Stuck(Proactor& proactor, std::uint32_t tag, Home home = {}) : proactor_(proactor) {
      handle = *proactor.adopt(pair_.release(0), HandleKind::stream_socket, Ownership::owned, home);
      operation.prepare(OperationKind::read_stream, handle);
      operation.set_buffer(MutableBuffer{&byte_, 1});
      operation.set_tag(tag);
      operation.set_completion([](Operation&) {});
      EXPECT_FALSE(proactor.start(operation));
    }
    ~Stuck() {
      if (operation.is_pending()) proactor_.cancel(*handle);
      wait_until([this] { return !operation.is_pending(); });
    }
    Stuck(const Stuck&) = delete;
    Stuck& operator=(const Stuck&) = delete;

    Operation operation;
    Handle* handle = nullptr;

   private:
    Proactor& proactor_;
    SocketPair pair_;
    char byte_ = 0;
  };

  /// Asks until `count` match and every lane has answered.
  static PendingReport ask_for(const Proactor& proactor, std::size_t count,
                               const PendingQuery& query = {}) {
    PendingReport report;
    wait_until([&] {
      report = proactor.pending(query);
      return report.matching == count && report.silent.empty();
    });
    return report;
  }
};

TEST_P(Pending, AnIdleProactorHasNothingToTell) {
  const auto proactor = open();
  const PendingReport report = proactor->pending();
  EXPECT_TRUE(report.operations.empty());
  EXPECT_EQ(report.matching, 0U);
  EXPECT_EQ(report.silent.size(), per_thread() ? 1U : 0U);  // no thread drives the lane
  for (const auto& lane : report.silent) EXPECT_FALSE(lane.driven);
}

TEST_P(Pending, TheOldestComesFirstWithAllKnownFacts) {
  const auto proactor = open();
  EXPECT_TRUE(proactor->name_tag(7, "session.read"));
  const Runners runners{*proactor, 1};
  const Stuck first{*proactor, 7};
  ask_for(*proactor, 1, {.age = milliseconds{40}});  // it gets older
  const Stuck second{*proactor, 8};
  const PendingReport report = ask_for(*proactor, 2);
  ASSERT_EQ(report.operations.size(), 2U);
  const PendingOperation& oldest = report.operations[0];
  EXPECT_EQ(oldest.kind, OperationKind::read_stream);
  EXPECT_EQ(oldest.state, OperationState::started);
  EXPECT_EQ(oldest.tag, 7U);
  EXPECT_EQ(oldest.name, "session.read");
  EXPECT_EQ(oldest.native, first.handle->native());
  EXPECT_EQ(oldest.handle, first.handle->index());
  EXPECT_EQ(oldest.bytes, 0U);
  EXPECT_NE(oldest.handler, nullptr);
  EXPECT_GE(oldest.age, report.operations[1].age);
  EXPECT_EQ(report.operations[1].tag, 8U);
  const std::string text = report.to_string();
  EXPECT_EQ(text.substr(0, 20), "pending 2, shown 2, ") << text;
  EXPECT_NE(text.find("tag=7 (session.read)"), std::string::npos) << text;
  // The suite is linked into more than one program.
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").filename();
  EXPECT_NE(text.find("handler=" + program), std::string::npos) << text;
}

TEST_P(Pending, AgesAreOfTheStartAlsoAfterLongIdling) {
  const auto proactor = open();
  const Runners runners{*proactor, 1};
  const Stuck first{*proactor, 1};
  ask_for(*proactor, 1, {.age = milliseconds{150}});
  const Stuck second{*proactor, 2};  // the loop has slept since the first
  const PendingReport report = ask_for(*proactor, 2);
  ASSERT_EQ(report.operations.size(), 2U);
  EXPECT_LT(report.operations[1].age + milliseconds{100}, report.operations[0].age);
}

TEST_P(Pending, IsBoundedAndCountsTheOperationsLeftOut) {
  const auto proactor = open();
  const Runners runners{*proactor, 1};
  const Stuck first{*proactor, 1};
  ask_for(*proactor, 1, {.age = milliseconds{60}});
  std::vector<std::unique_ptr<Stuck>> more;
  for (std::uint32_t i = 2; i < 10; ++i) more.push_back(std::make_unique<Stuck>(*proactor, i));
  const PendingReport report = ask_for(*proactor, 9, {.shown = 1});
  ASSERT_EQ(report.operations.size(), 1U);
  EXPECT_EQ(report.operations[0].tag, 1U);
}

TEST_P(Pending, TimersAndDeferredOperationsAreInItAndKindsCanBeChosen) {
  const auto proactor = open(1, [](Config& config) { config.processors[0].started_max = 1; });
  const Runners runners{*proactor, 1};
  const Stuck started{*proactor, 1};
  Operation timer;
  timer.set_tag(3);
  ASSERT_FALSE(proactor->start_timer(timer, Deadline::after(seconds{600}, proactor->now())));
  ask_for(*proactor, 2);
  const Stuck deferred{*proactor, 2};
  const PendingReport timers = ask_for(*proactor, 1, {.kinds = {OperationKind::timer}});
  ASSERT_EQ(timers.operations.size(), 1U);
  EXPECT_EQ(timers.operations[0].tag, 3U);
  EXPECT_EQ(timers.operations[0].native, invalid_handle);
  const PendingReport reads = ask_for(*proactor, 2, {.kinds = {OperationKind::read_stream}});
  ASSERT_EQ(reads.operations.size(), 2U);
  for (const PendingOperation& read : reads.operations) {
    EXPECT_EQ(read.state, read.tag == 1 ? OperationState::started : OperationState::deferred);
  }
  proactor->cancel(timer);
  wait_until([&] { return !timer.is_pending(); });
}

TEST_P(Pending, AnswersWhileAHandlerBlocks) {
  // The handler reads both until the threads have ended.
  std::atomic<bool> inside{false};
  std::atomic<bool> leave{false};
  const auto proactor = open();
  const Runners runners{*proactor, 1};
  const Stuck stuck{*proactor, 1};
  ask_for(*proactor, 1);
  ASSERT_FALSE(proactor->post([&] {
    inside = true;
    while (!leave) std::this_thread::yield();
  }));
  wait_until([&] { return inside.load(); });
  const PendingReport report = proactor->pending({.patience = milliseconds{20}});
  if (per_thread()) {
    ASSERT_EQ(report.silent.size(), 1U);
    EXPECT_TRUE(report.silent[0].driven);
    EXPECT_NE(report.to_string().find("lane 0: no answer in time"), std::string::npos);
  } else {
    EXPECT_EQ(report.matching, 1U);
  }
  leave = true;
  ask_for(*proactor, 1);  // the late answer has done no harm
}

TEST_P(Pending, MayBeMadeInsideAHandler) {
  const auto proactor = open();
  const Runners runners{*proactor, 1};
  const Stuck stuck{*proactor, 5};
  ask_for(*proactor, 1);
  std::atomic<std::uint64_t> matching{99};
  ASSERT_FALSE(proactor->post([&] { matching = proactor->pending().matching; }));
  wait_until([&] { return matching != 99; });
  EXPECT_EQ(matching, 1U);
}

TEST_P(Pending, MayBeMadeWhileOperationsStartAndEnd) {
  constexpr unsigned threads = 2;
  const auto proactor = open(threads);
  const Runners runners{*proactor, threads};
  std::atomic<bool> done{false};
  std::thread asker{[&] {
    while (!done) static_cast<void>(proactor->pending({.patience = milliseconds{5}}).to_string());
  }};
  for (int round = 0; round < 200; ++round) {
    const Stuck one{*proactor, 1};
    const Stuck two{*proactor, 2};
    Operation timer;
    ASSERT_FALSE(proactor->start_timer(timer, Deadline::after(milliseconds{1}, proactor->now())));
    proactor->close_detached(*one.handle);
    proactor->close_detached(*two.handle);
    wait_until([&] {
      return !one.operation.is_pending() && !two.operation.is_pending() && !timer.is_pending();
    });
  }
  done = true;
  asker.join();
}

BATON_CONFORMANCE_SUITE(Pending);

}  // namespace
}  // namespace baton::conformance
