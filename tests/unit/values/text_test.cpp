// Values as text: time stamps, log levels, statistics.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <limits>
#include <random>
#include <regex>
#include <set>
#include <sstream>
#include <string>

#include "baton/log.hpp"
#include "baton/statistics.hpp"

namespace baton {
namespace {

constexpr std::int64_t second = 1'000'000;

TEST(Iso8601, PointsThatMatter) {
  EXPECT_EQ(iso_8601(0), "1970-01-01T00:00:00.000000Z");
  EXPECT_EQ(iso_8601(1), "1970-01-01T00:00:00.000001Z");
  EXPECT_EQ(iso_8601(1'769'860'800 * second), "2026-01-31T12:00:00.000000Z");
  EXPECT_EQ(iso_8601(2'147'483'648 * second), "2038-01-19T03:14:08.000000Z");
  EXPECT_EQ(iso_8601(253'402'300'799 * second + 999'999), "9999-12-31T23:59:59.999999Z");
}

TEST(Iso8601, BeforeTheEpoch) {
  EXPECT_EQ(iso_8601(-1), "1969-12-31T23:59:59.999999Z");
  EXPECT_EQ(iso_8601(-second), "1969-12-31T23:59:59.000000Z");
  EXPECT_EQ(iso_8601(-86'400 * second), "1969-12-31T00:00:00.000000Z");
  EXPECT_EQ(iso_8601(-62'167'219'200 * second), "0000-01-01T00:00:00.000000Z");
}

TEST(Iso8601, LeapYears) {
  EXPECT_EQ(iso_8601(951'782'400 * second), "2000-02-29T00:00:00.000000Z");
  EXPECT_EQ(iso_8601(951'868'800 * second), "2000-03-01T00:00:00.000000Z");
  EXPECT_EQ(iso_8601(1'709'164'800 * second), "2024-02-29T00:00:00.000000Z");
  EXPECT_EQ(iso_8601(4'107'456'000 * second), "2100-02-28T00:00:00.000000Z");
  EXPECT_EQ(iso_8601((4'107'456'000 + 86'400) * second), "2100-03-01T00:00:00.000000Z");
  EXPECT_EQ(iso_8601(68'169'600 * second), "1972-02-29T00:00:00.000000Z");
}

TEST(Iso8601, YearsBeyondFourDigitsCarryASign) {
  EXPECT_EQ(iso_8601(253'402'300'800 * second), "+010000-01-01T00:00:00.000000Z");
  EXPECT_EQ(iso_8601(-62'167'219'201 * second), "-000001-12-31T23:59:59.000000Z");
  EXPECT_EQ(iso_8601(std::numeric_limits<std::int64_t>::max()).substr(0, 7), "+294247");
  EXPECT_EQ(iso_8601(std::numeric_limits<std::int64_t>::min()).substr(0, 7), "-290308");
}

TEST(Iso8601, AgreesWithTheSystemsCalendar) {
  std::mt19937_64 random{8601};
  std::uniform_int_distribution<std::int64_t> points{-62'167'219'200, 253'402'300'799};
  for (int i = 0; i < 20'000; ++i) {
    const std::time_t point = points(random);
    std::tm calendar{};
    ASSERT_NE(::gmtime_r(&point, &calendar), nullptr);
    char expected[64];
    std::snprintf(expected, sizeof(expected), "%04d-%02d-%02dT%02d:%02d:%02d.000000Z",
                  calendar.tm_year + 1'900, calendar.tm_mon + 1, calendar.tm_mday, calendar.tm_hour,
                  calendar.tm_min, calendar.tm_sec);
    ASSERT_EQ(iso_8601(point * second), expected);
  }
}

TEST(Log, LevelsHaveNames) {
  EXPECT_STREQ(to_string(LogLevel::debug), "debug");
  EXPECT_STREQ(to_string(LogLevel::error), "error");
  EXPECT_STREQ(to_string(static_cast<LogLevel>(99)), "unknown");
}

TEST(Statistics, OneLineForEachCounter) {
  Statistics statistics;
  statistics.started = 12;
  statistics.stale_events = std::numeric_limits<std::uint64_t>::max();
  const std::string text = statistics.to_string();
  EXPECT_EQ(text.substr(0, 11), "started 12\n");
  EXPECT_NE(text.find("\nstale_events 18446744073709551615\n"), std::string::npos);
  EXPECT_NE(text.find("\nwaits 0\n"), std::string::npos);
  EXPECT_EQ(static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')),
            sizeof(Statistics) / sizeof(std::uint64_t));
}

TEST(Statistics, ForPrometheusWithHelpTypeAndUnits) {
  Statistics statistics;
  statistics.started = 12;
  statistics.pending = 3;
  statistics.handler_ns_max = 1'500'000'042;
  const std::string text = statistics.to_prometheus();
  EXPECT_NE(text.find("# HELP baton_operations_started_total Starts that succeeded.\n"
                      "# TYPE baton_operations_started_total counter\n"
                      "baton_operations_started_total 12\n"),
            std::string::npos);
  EXPECT_NE(text.find("# TYPE baton_operations_pending gauge\nbaton_operations_pending 3\n"),
            std::string::npos);
  EXPECT_NE(text.find("\nbaton_handler_seconds_max 1.500000042\n"), std::string::npos);
  EXPECT_EQ(static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')),
            3 * sizeof(Statistics) / sizeof(std::uint64_t));
}

// Each line follows the format, and only counters end in _total.
TEST(Statistics, ForPrometheusEveryLineIsWellFormed) {
  const Statistics::Label labels[] = {{"service", "mail"}};
  std::istringstream lines{Statistics{}.to_prometheus(labels)};
  const std::regex help{"# HELP baton_[a-z_]+ [A-Z][^\\\\]*\\."};
  const std::regex type{"# TYPE (baton_[a-z_]+) (counter|gauge)"};
  const std::regex sample{"(baton_[a-z_]+)\\{service=\"mail\"\\} [0-9]+(\\.[0-9]+)?"};
  std::string line;
  std::set<std::string> names;
  while (std::getline(lines, line)) {
    EXPECT_TRUE(std::regex_match(line, help)) << line;
    std::smatch typed;
    std::smatch sampled;
    ASSERT_TRUE(std::getline(lines, line) && std::regex_match(line, typed, type)) << line;
    const std::string name = typed[1];
    EXPECT_EQ(name.ends_with("_total"), typed[2] == "counter") << name;
    EXPECT_TRUE(names.insert(name).second) << name;
    ASSERT_TRUE(std::getline(lines, line) && std::regex_match(line, sampled, sample)) << line;
    EXPECT_EQ(sampled[1], name);
  }
}

TEST(Statistics, ForPrometheusLabelsAreEscaped) {
  const Statistics::Label labels[] = {{"path", "C:\\a \"b\"\nc"}, {"9-x", "\u00e9"}, {"", ""}};
  const std::string text = Statistics{}.to_prometheus(labels);
  EXPECT_NE(text.find(R"(baton_waits_total{path="C:\\a \"b\"\nc",__x="é",_=""} 0)"),
            std::string::npos)
      << text.substr(0, 400);
}

}  // namespace
}  // namespace baton
