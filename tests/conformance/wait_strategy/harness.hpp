// The conformance suite of wait strategies: the same tests on each one in the registry, as in
// wait_strategy.level_report/epoll. Tests of features that a strategy does not declare are skipped,
// with that reason.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "baton/deadline.hpp"
#include "baton/wait_strategy.hpp"
#include "support/descriptors.hpp"

namespace baton::test {

/// The names of all, for INSTANTIATE_TEST_SUITE_P.
std::vector<std::string> wait_strategy_names();

constexpr Token token_of(std::uint32_t index, std::uint32_t generation = 1) {
  return {index, generation};
}

// Lower case: it is part of the tests' names.
class wait_strategy : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override;

  [[nodiscard]] const WaitStrategyInfo& info() const { return strategy_->info(); }
  WaitStrategy& strategy() { return *strategy_; }

  void add(int fd, Interest interest, Token token);
  /// One wait; its reports.
  std::vector<Report> wait(Deadline deadline = Deadline::immediately(),
                           std::size_t reports_max = 64);
  /// Waits until something is reported; the test fails when nothing is.
  std::vector<Report> wait_for_reports();

  /// A strategy that reports once is armed again in its own way.
  void again(int fd, Interest interest, Token token);

 private:
  std::unique_ptr<WaitStrategy> strategy_;
};

/// The union of the reports for one token.
Interest ready_of(const std::vector<Report>& reports, Token token);

}  // namespace baton::test

#define BATON_EVERY_WAIT_STRATEGY()                                                   \
  INSTANTIATE_TEST_SUITE_P(, wait_strategy, testing::ValuesIn(wait_strategy_names()), \
                           [](const auto& parameter) { return parameter.param; })
