// The report as text, and which operations it keeps.
#include <gtest/gtest.h>

#include <string>

#include "core/coarse_clock.hpp"
#include "core/pending.hpp"

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

}  // namespace
}  // namespace baton
