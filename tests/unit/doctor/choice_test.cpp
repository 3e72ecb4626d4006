// The rules of the recommendation, on invented numbers.
#include <gtest/gtest.h>

#include <algorithm>

#include "made_up.hpp"

namespace baton::doctor {
namespace {

using enum Mode;

TEST(Cost, IsTheGeometricMeanOfTheNumbersThatCount) {
  MadeUp m;
  EXPECT_DOUBLE_EQ(cost_of(m.sockets, {2, 8, 1e9}), 4);
  EXPECT_DOUBLE_EQ(median({3, 1, 2}), 2);
  EXPECT_DOUBLE_EQ(median({4, 1, 2, 3}), 2.5);
  EXPECT_DOUBLE_EQ(median({}), 0);
}

TEST(Ratio, IsThatOfNeighbours) {
  MadeUp m;
  const auto a = m.row("a", "");
  m.measured(a, shared, {10, 100, 20});  // the machine was disturbed in the second round
  m.measured(a, per_thread, {20, 200, 40});
  const Ratio ratio = ratio_of(m.sockets, m.sockets.series[1], m.sockets.series[0]);
  EXPECT_NEAR(ratio.middle, 2, 1e-9);
  EXPECT_NEAR(ratio.low, 2, 1e-9);
  EXPECT_NEAR(ratio.high, 2, 1e-9);
}

TEST(Ties, AreSmallOrDoubtful) {
  EXPECT_TRUE(is_tie({1.01, 1.01, 1.01}));
  EXPECT_TRUE(is_tie({1.04, 0.99, 1.2}));
  EXPECT_FALSE(is_tie({1.04, 1.03, 1.2}));
  EXPECT_FALSE(is_tie({1.08, 0.9, 1.3}));  // too much to be given away, however noisy
}

TEST(Sockets, CheapestWins) {
  MadeUp m;
  const auto a = m.row("a", "w");
  const auto b = m.row("b", "");
  m.measured(a, shared, {10, 10, 10});
  m.measured(b, shared, {8.8, 8.8, 8.8});
  m.measured(b, per_thread, {8, 8, 8});
  const auto r = m.recommended();
  ASSERT_TRUE(r.complete);
  EXPECT_EQ(r.sockets->what, (Combination{b, per_thread}));
  EXPECT_TRUE(r.sockets->tied.empty());
  EXPECT_EQ(r.config.processors.front().engine, "b");
  EXPECT_EQ(r.config.processors.front().mode, per_thread);
  EXPECT_NE(m.said().find("Next comes b shared, which costs 1.10 x"), std::string::npos);
}

TEST(Sockets, OneThatIsLeftOutEarlyIsNotDenied) {
  MadeUp m;
  m.measured(m.row("emulated", "epoll"), Mode::shared, {1, 1, 1});
  const auto told = [&m](const char* sentence) {
    const auto said = m.recommended().sentences;
    return std::count(said.begin(), said.end(), sentence) > 0;
  };
  EXPECT_TRUE(told("There was nothing to compare it with."));
  m.measured(m.row("io_uring", ""), Mode::shared, {9}).dropped = "9.0 x the cost of the best";
  EXPECT_TRUE(told("No other one was measured to the end."));
  EXPECT_FALSE(told("There was nothing to compare it with."));
}

TEST(Sockets, TieGoesToTheFirstOfTheRegistryAndTheSimplestMode) {
  MadeUp m;
  const auto a = m.row("a", "w");
  const auto b = m.row("b", "");
  m.measured(b, per_thread, {10, 10, 10});
  m.measured(a, per_thread, {10.1, 10.1, 10.1});
  m.measured(a, shared, {10.2, 10.2, 10.2});
  const auto r = m.recommended();
  EXPECT_EQ(r.sockets->what, (Combination{a, shared}));
  EXPECT_EQ(r.sockets->tied.size(), 2U);
  EXPECT_NE(m.said().find("A tie with a/w per_thread, b per_thread"), std::string::npos);
}

TEST(Sockets, PreferredWinsATieAndNothingElse) {
  MadeUp m;
  const auto a = m.row("a", "");
  const auto b = m.row("b", "");
  m.measured(a, shared, {10, 10, 10});
  m.measured(b, shared, {10.1, 10.1, 10.1});
  m.policy.prefer = {"b"};
  EXPECT_EQ(m.recommended().sockets->what.row, b);
  for (auto& round : m.sockets.series[1].rounds) round = {20, 20, 1};
  EXPECT_EQ(m.recommended().sockets->what.row, a);
}

TEST(Sockets, RequiredIsTheOnlyCandidate) {
  MadeUp m;
  const auto a = m.row("a", "");
  const auto b = m.row("b", "");
  m.measured(a, shared, {1, 1});
  m.measured(b, shared, {9, 9});
  m.policy.require = {"b"};
  EXPECT_EQ(m.recommended().sockets->what.row, b);
}

TEST(Sockets, WithoutNumbersTheRegistryDecides) {
  MadeUp m;
  const auto a = m.row("a", "");
  const auto b = m.row("b", "");
  m.row("c", "");
  m.refuse(a, "denied_seccomp");
  m.refuse(b, shared, "needs_one_thread");
  const auto r = m.recommended();
  EXPECT_EQ(r.sockets->what, (Combination{b, per_thread}));
  EXPECT_FALSE(r.sockets->series);
  EXPECT_NE(m.said().find("It was not measured"), std::string::npos);
  EXPECT_NE(m.said().find("a is not available: reason of denied_seccomp [denied_seccomp]."),
            std::string::npos);
}

TEST(Sockets, AnEngineOfSimulationsIsNotMissed) {
  MadeUp m;
  m.measured(m.row("a", ""), shared, {1, 1});
  m.refuse(m.row("b", ""), "unsuitable");
  EXPECT_EQ(m.said().find("not available"), std::string::npos);
}

TEST(Sockets, KnownBadIsLeftOutEvenIfItIsCheapest) {
  MadeUp m;
  const auto a = m.row("a", "");
  const auto b = m.row("b", "");
  m.measured(a, shared, {1, 1, 1});
  m.measured(b, shared, {9, 9, 9});
  m.rows[a].avoided = "it hangs";
  EXPECT_EQ(m.recommended().sockets->what.row, b);
  EXPECT_NE(m.said().find("a works and is left out: it hangs."), std::string::npos);
}

TEST(Sockets, FileEnginesNeverServeThem) {
  MadeUp m;
  m.row("files", "", false);
  const auto r = m.recommended();
  EXPECT_FALSE(r.complete);
  EXPECT_TRUE(r.config.processors.empty());
  EXPECT_EQ(r.sentences.front(), "No engine serves sockets here.");
}

TEST(Files, OneProcessorIsEnoughWhereItIsAsGood) {
  MadeUp m;
  const auto a = m.row("a", "");
  const auto f = m.row("f", "", false);
  m.measured(a, shared, {10, 10, 10});
  m.measured_files({a, shared}, {f, shared}, {10, 10, 10});
  m.measured_files({a, shared}, {a, shared}, {10.1, 10.1, 10.1});
  const auto r = m.recommended();
  EXPECT_EQ(r.config.processors.size(), 1U);
  EXPECT_TRUE(r.config.processors.front().operations.empty());
  EXPECT_NE(m.said().find("Use the same processor for files."), std::string::npos);
  EXPECT_NE(m.said().find("A tie with a team with f shared: "), std::string::npos);
}

TEST(Files, FileEngineBecomesTheSecondHalfOfATeam) {
  MadeUp m;
  const auto a = m.row("a", "w");
  const auto f = m.row("f", "", false);
  m.measured(a, shared, {10, 10, 10});
  m.measured_files({a, shared}, {a, shared}, {10, 10, 10});
  m.measured_files({a, shared}, {f, dedicated}, {5, 5, 5});
  const auto r = m.recommended();
  ASSERT_EQ(r.config.processors.size(), 2U);
  EXPECT_EQ(r.config.processors[0].operations, socket_operations());
  EXPECT_EQ(r.config.processors[1].operations, file_operations);
  EXPECT_EQ(r.config.processors[1].engine, "f");
  EXPECT_EQ(r.config.processors[1].mode, dedicated);
}

TEST(Files, ATeamThatComesNextHasAnArticle) {
  MadeUp m;
  const auto a = m.row("a", "");
  const auto f = m.row("f", "", false);
  m.measured(a, shared, {10, 10, 10});
  m.measured_files({a, shared}, {a, shared}, {5, 5, 5});
  m.measured_files({a, shared}, {f, shared}, {10, 10, 10});
  EXPECT_NE(m.said().find("Next comes a team with f shared, which costs"), std::string::npos);
}

TEST(Files, DecideATieOfTheSockets) {
  MadeUp m;
  const auto a = m.row("a", "");
  const auto b = m.row("b", "");
  m.measured(a, shared, {10, 10, 10});
  m.measured(b, shared, {10, 10, 10});
  m.measured_files({a, shared}, {a, shared}, {10, 10, 10});
  m.measured_files({b, shared}, {b, shared}, {5, 5, 5});
  m.measured_files({a, shared}, {b, shared}, {5, 5, 5});
  const auto r = m.recommended();
  EXPECT_EQ(r.sockets->what.row, b);
  ASSERT_EQ(r.config.processors.size(), 1U);
  EXPECT_EQ(r.config.processors.front().engine, "b");
  EXPECT_NE(m.said().find("the best one for files was taken"), std::string::npos);
}

TEST(Files, WithoutNumbersTheSocketsProcessorDoesThem) {
  MadeUp m;
  const auto a = m.row("a", "");
  m.row("f", "", false);
  m.measured(a, per_thread, {1, 1, 1});
  EXPECT_EQ(m.recommended().config.processors.size(), 1U);
}

TEST(Files, WithoutNumbersAFileEngineHelpsOneThatCannot) {
  MadeUp m;
  const auto a = m.row("a", "");
  const auto f = m.row("f", "", false);
  for (std::size_t i = 0; i < operation_kinds; ++i) {
    if (file_operations.has(static_cast<OperationKind>(i))) {
      m.rows[a].support[i] = Support::unsupported;
    }
  }
  const auto r = m.recommended();
  ASSERT_EQ(r.config.processors.size(), 2U);
  EXPECT_EQ(r.files->what, (Combination{f, shared}));
}

TEST(Files, StrengthsOfOthersAreNamed) {
  MadeUp m;
  const auto a = m.row("a", "");
  const auto f = m.row("f", "", false);
  m.measured(a, shared, {10});
  m.measured_files({a, shared}, {a, shared}, {1, 1, 1});
  m.measured_files({a, shared}, {f, shared}, {1, 1, 1});
  for (auto& round : m.files.series[1].rounds) round = {4, 0.25};
  EXPECT_NE(m.said().find("a team with f shared is far better in this: time, direct 0.25 x."),
            std::string::npos);
}

TEST(Sureness, RoundsThatDisagreeAreNoted) {
  MadeUp m;
  const auto a = m.row("a", "");
  const auto b = m.row("b", "");
  m.measured(a, shared, {10, 10, 10});
  m.measured(b, shared, {12, 12, 9});
  EXPECT_EQ(m.recommended().sockets->what.row, a);
  EXPECT_NE(m.said().find("the choice is uncertain"), std::string::npos);
}

TEST(Threads, FollowTheQuota) {
  MadeUp m;
  const auto a = m.row("a", "");
  m.measured(a, per_thread, {1, 1, 1});
  EXPECT_EQ(m.recommended().config.processors.front().threads, 0U);
  m.facts.add("cgroup.cpus", 1.5);
  EXPECT_EQ(m.recommended().config.processors.front().threads, 2U);
}

TEST(Sureness, FewRoundsAreNotedAndForbiddenStaysForbidden) {
  MadeUp m;
  const auto a = m.row("a", "");
  m.measured(a, shared, {1});
  m.policy.forbid = {"io_uring"};
  EXPECT_NE(m.said().find("Fewer than three rounds"), std::string::npos);
  EXPECT_EQ(m.recommended().config.forbid, m.policy.forbid);
}

}  // namespace
}  // namespace baton::doctor
