// The table, for invented capabilities; and the real one, as far as it is the same everywhere.
#include "doctor/table.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <stdexcept>

#include "baton/registry.hpp"
#include "doctor/child.hpp"
#include "doctor/report.hpp"
#include "made_up.hpp"

namespace baton::doctor {
namespace {

TEST(Table, GroupIsAsGoodAsItsWorstOperation) {
  MadeUp m;
  const auto a = m.row("a", "w");
  EXPECT_EQ(support_of(m.rows[a], file_operations), Support::native);
  m.rows[a].support[static_cast<std::size_t>(OperationKind::sync_file)] = Support::assisted;
  EXPECT_EQ(support_of(m.rows[a], file_operations), Support::assisted);
  m.rows[a].support[static_cast<std::size_t>(OperationKind::accept)] = Support::unsupported;
  EXPECT_FALSE(m.rows[a].serves_sockets());
  EXPECT_TRUE(m.rows[a].serves_files());
}

TEST(Table, RefusalNamesTheSystemsLackBeforeTheModes) {
  MadeUp m;
  const auto a = m.row("a", "");
  m.refuse(a, "denied_seccomp");
  m.refuse(a, Mode::shared, "needs_one_thread");
  EXPECT_FALSE(m.rows[a].available());
  EXPECT_EQ(m.rows[a].refusal().code, "denied_seccomp");
}

TEST(Table, RowsBecomeProcessors) {
  MadeUp m;
  const auto a = m.row("emulated", "poll");
  const ProcessorConfig processor = processor_of(m.rows[a], Mode::dedicated);
  EXPECT_EQ(processor.engine, "emulated");
  EXPECT_EQ(processor.wait, "poll");
  EXPECT_EQ(processor.mode, Mode::dedicated);
  m.rows[a].variant = "workers=7";
  EXPECT_EQ(processor_of(m.rows[a], Mode::shared).workers, 7U);
  EXPECT_EQ(m.rows[a].name(), "emulated/poll workers=7");
}

TEST(Table, LastResortIsAvoidedOnlyBesideOthers) {
  KnownBad last;
  last.about = "wait w";
  last.level = KnownBad::Level::last;
  last.what = "it is slow";
  MadeUp both;
  both.row("a", "w");
  both.row("a", "v");
  mark_avoided(both.rows, {last});
  EXPECT_EQ(both.rows[0].avoided, "it is slow");
  EXPECT_EQ(both.rows[1].avoided, "");
  MadeUp alone;
  alone.row("a", "w");
  alone.refuse(alone.row("a", "v"), "denied");
  mark_avoided(alone.rows, {last});
  EXPECT_EQ(alone.rows[0].avoided, "");
}

TEST(Table, RealOneHasARowForEachCombination) {
  const auto rows = probe_table(Config{});
  std::size_t expected = 0;
  for (const auto& engine : registry().engines()) {
    if (engine.only_by_name) continue;
    expected += engine.waits_by_strategy ? registry().wait_strategies().size() : 1;
    for (const char c : engine.variants) expected += c == ' ' ? 1U : 0U;
  }
  EXPECT_EQ(rows.size(), expected);
  for (const Row& row : rows) {
    EXPECT_EQ(row.modes.size(), std::size(modes));
    EXPECT_TRUE(row.available() || !row.refusal().code.empty()) << row.name();
  }
}

TEST(Table, ForbiddenEngineIsNotOpened) {
  Config policy;
  for (const auto& engine : registry().engines()) policy.forbid.push_back(engine.name);
  for (const Row& row : probe_table(policy)) {
    EXPECT_FALSE(row.available());
    EXPECT_EQ(row.refusal().code, "forbidden");
  }
}

TEST(Table, ReasonIsASentenceWhenNoChildCanBeStarted) {
  const int lowest_free = ::dup(STDERR_FILENO);
  ::close(lowest_free);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{static_cast<rlim_t>(lowest_free), before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const auto rows = probe_table({});
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_TRUE(rows.front().refusal().reason.starts_with("the process that tried it: a pipe"))
      << rows.front().refusal().reason;
}

TEST(Child, ItsAnswerItsFailureAndItsDeath) {
  EXPECT_EQ(run_in_child([] { return std::string("an answer"); }, 60).text, "an answer");
  const auto thrown =
      run_in_child([]() -> std::string { throw std::runtime_error("no luck"); }, 60);
  EXPECT_FALSE(thrown.good);
  EXPECT_EQ(thrown.trouble, "no luck");
  const auto killed = run_in_child(
      []() -> std::string {
        ::raise(SIGKILL);
        return "";
      },
      60);
  EXPECT_TRUE(killed.killed);
  EXPECT_EQ(killed.signal_number, SIGKILL);
}

TEST(Reports, AreMadeOfAnything) {
  MadeUp m;
  const auto a = m.row("a", "w");
  m.refuse(m.row("b", ""), "denied_seccomp");
  m.measured(a, Mode::shared, {1, 2, 3});
  m.measured_files({a, Mode::shared}, {a, Mode::shared}, {1});
  Report report;
  report.rows = m.rows;
  report.sockets = m.sockets;
  report.files = m.files;
  report.recommendation = m.recommended();
  report.findings = {"a \"finding\""};
  EXPECT_NE(text_of(report).find("unavailable: reason of denied_seccomp [denied_seccomp]"),
            std::string::npos);
  EXPECT_NE(json_of(report).find("a \\\"finding\\\""), std::string::npos);
  EXPECT_NE(text_of(Report{}), "");
  EXPECT_NE(json_of(Report{}), "");
}

}  // namespace
}  // namespace baton::doctor
