#include "harness.hpp"

#include "../selection.hpp"
#include "demux/registry.hpp"
#include "support/patience.hpp"

namespace baton::test {

std::vector<std::string> wait_strategy_names() {
  std::vector<std::string> names;
  const conformance::Selection& chosen = conformance::selection();
  for (const auto& entry : demux::wait_strategies()) {
    if (!chosen.everything() && !conformance::Selection::has(chosen.wait_strategies, entry.name)) {
      continue;
    }
    names.push_back(entry.name);
  }
  return names;
}

void wait_strategy::SetUp() {
  const auto entry = demux::find_wait_strategy(GetParam());
  ASSERT_TRUE(entry.has_value());
  auto opened = entry->factory({.descriptors_max = 8192});
  if (!opened) GTEST_SKIP() << opened.error().reason;
  strategy_ = std::move(*opened);
}

void wait_strategy::add(int fd, Interest interest, Token token) {
  const std::error_code error = strategy_->add(fd, interest, token);
  EXPECT_FALSE(error) << error.message();
}

std::vector<Report> wait_strategy::wait(Deadline deadline, std::size_t reports_max) {
  std::vector<Report> reports(reports_max);
  const auto count = strategy_->wait(reports, deadline, nullptr);
  EXPECT_TRUE(count.has_value()) << count.error().message();
  reports.resize(count.value_or(0));
  for (const Report& report : reports) EXPECT_NE(report.ready, Interest::none);
  return reports;
}

std::vector<Report> wait_strategy::wait_for_reports() {
  const Deadline limit = at_last();
  for (;;) {
    auto reports = wait(limit);
    if (!reports.empty()) return reports;
    if (!is_ahead(limit)) {
      ADD_FAILURE() << "nothing was reported";
      return reports;
    }
  }
}

void wait_strategy::again(int fd, Interest interest, Token token) {
  if (info().trigger != Trigger::one_shot) return;
  const std::error_code error = strategy_->modify(fd, interest, token);
  EXPECT_FALSE(error) << error.message();
}

Interest ready_of(const std::vector<Report>& reports, Token token) {
  Interest ready = Interest::none;
  for (const Report& report : reports) {
    if (report.token == token) ready = ready | report.ready;
  }
  return ready;
}

}  // namespace baton::test
