// The report as text, and which operations it keeps.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <deque>
#include <string>

#include "baton/proactor.hpp"
#include "core/coarse_clock.hpp"
#include "core/pending.hpp"
#include "support/descriptors.hpp"

namespace baton {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

void a_handler(Operation&) {}

TEST(PendingReport, ShowsOnlyKnownFacts) {
  PendingReport report;
  report.matching = 40;
  report.queued = 3;
  PendingOperation write;
  write.kind = OperationKind::write_stream;
  write.age = milliseconds{12'345};
  write.native = 17;
  write.handle = 5;
  write.generation = 2;
  write.bytes = 65'536;
  write.tag = 7;
  write.name = "session.reply";
  write.handler = a_handler;
  write.cancel_asked = true;
  PendingOperation timer;
  timer.kind = OperationKind::timer;
  report.operations = {write, timer};
  report.silent = {{1, true}, {3, false}};
  report.timers_unseen = 9;
  const std::string text = report.to_string();
  const std::string until_handler =
      "pending 40, shown 2, queued 3\n"
      "12.345 s write_stream started (cancel asked) handle=5/2 fd=17 processor=0 lane=0 "
      "bytes=65536 tag=7 (session.reply) handler=core_test+0x";
  EXPECT_EQ(text.substr(0, until_handler.size()), until_handler);
  const std::size_t second = text.find("\n0.000 s timer");
  ASSERT_NE(second, std::string::npos) << text;
  EXPECT_EQ(text.substr(second),
            "\n0.000 s timer started lane=0 bytes=0 tag=0\n"
            "9 timers not looked at\n"
            "lane 1: no answer in time, its thread is in a handler, or away between two calls\n"
            "lane 3: no thread is in run() for it\n");
}

TEST(PendingShare, KeepsTheOldestAndCountsTheOthers) {
  constexpr std::uint32_t now = 1'000;
  PendingShare share{{.age = milliseconds{100}, .kinds = {OperationKind::timer}, .shown = 3}, now};
  const Lane lane;
  Operation timers[20];
  Operation other;
  OperationAccess::set_started(other, 0);
  share.offer(other, nullptr, lane);  // of a kind that is not asked for
  for (std::uint32_t i = 0; i < 20; ++i) {
    timers[i].prepare(OperationKind::timer, nullptr);
    timers[i].set_tag(i);
    // 0, 3, 6 ... ticks of 17 ms old, in a mixed order; the first two are too young.
    OperationAccess::set_started(timers[i], now - 3 * ((i * 7) % 20));
    share.offer(timers[i], nullptr, lane);
  }
  PendingReport report;
  share.give(report);
  EXPECT_EQ(report.matching, 18U);
  ASSERT_EQ(report.operations.size(), 3U);
  for (const PendingOperation& kept : report.operations) {
    EXPECT_GE((kept.tag * 7) % 20, 17U);
  }
}

TEST(PendingShare, IsBoundedForEveryQuery) {
  PendingShare share{{.shown = ~std::size_t{0}}, 10};
  const Lane lane;
  Operation timer;
  timer.prepare(OperationKind::timer, nullptr);
  for (std::size_t i = 0; i < limits::pending_shown_max + 10; ++i)
    share.offer(timer, nullptr, lane);
  PendingReport report;
  share.give(report);
  EXPECT_EQ(report.operations.size(), limits::pending_shown_max);
  EXPECT_EQ(report.matching, limits::pending_shown_max + 10);
}

// Large tables are looked at in parts.
TEST(PendingReport, ShowsEachOfManyHandlesAndCountsEachTimer) {
  constexpr std::size_t handles = 1'100;
  constexpr std::size_t timers = 8'200;
  if (!test::allow_descriptors(handles)) return;
  Config config = Config::parse("engine=emulated,wait=epoll,mode=shared", {}).value();
  std::deque<Operation> operations;
  const test::SocketPair pair;
  Proactor proactor{std::move(config)};
  for (std::size_t i = 0; i < handles; ++i) {
    const auto handle = proactor.adopt(::dup(pair.ours.get()), HandleKind::stream_socket);
    ASSERT_TRUE(handle) << handle.error().message();
    Operation& wait = operations.emplace_back();
    wait.prepare(OperationKind::wait_ready, *handle, Operation::readable);
    ASSERT_FALSE(proactor.start(wait));
  }
  for (std::size_t i = 0; i < timers; ++i) {
    const Deadline far = Deadline::after(std::chrono::hours{1}, proactor.now());
    ASSERT_FALSE(proactor.start_timer(operations.emplace_back(), far));
  }
  EXPECT_EQ(proactor.pending({.kinds = {OperationKind::wait_ready}, .shown = 1}).matching, handles);
  const PendingReport report = proactor.pending({.kinds = {OperationKind::timer}, .shown = 1});
  EXPECT_EQ(report.matching + report.timers_unseen, timers);
  EXPECT_GT(report.timers_unseen, 0U);
}

std::atomic<int> sleeps{0};

// The answer of one lane is not that of another.
TEST(PendingInquiry, WaitsForEachLaneThatWasAsked) {
  static const os::System system = [] {
    os::System made = os::real_system();
    made.futex_wait = [](std::atomic<std::uint32_t>*, std::uint32_t, std::int64_t) {
      ++sleeps;
      return false;  // the time is over
    };
    return made;
  }();
  PendingInquiry inquiry{{}, 2, 0};
  sleeps = 0;
  inquiry.wait(system, 0, Deadline::never());
  EXPECT_EQ(sleeps, 0);
  inquiry.wait(system, 1, Deadline::never());
  EXPECT_EQ(sleeps, 1);
  PendingReport report;
  EXPECT_FALSE(inquiry.give(0, report));
  EXPECT_FALSE(inquiry.give(1, report));
}

}  // namespace
}  // namespace baton
