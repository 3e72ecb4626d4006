// The wait strategies alone, while memory for what they watch is short.
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "allocations.hpp"
#include "baton/registry.hpp"
#include "baton/wait_strategy.hpp"
#include "world.hpp"

namespace baton::faults {
namespace {

constexpr std::size_t descriptors = 600;
constexpr std::size_t allocations = 8;  // of one add, at most

class Watched {
 public:
  explicit Watched(const WaitStrategyFactory& factory) {
    auto strategy = factory({});
    EXPECT_TRUE(strategy.has_value());
    if (strategy) strategy_ = std::move(*strategy);
  }
  ~Watched() {
    strategy_.reset();
    for (const int fd : fds_) ::close(fd);
  }
  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;

  /// The n-th allocation of each add fails. A wait follows; and then the add succeeds.
  void add_one(std::size_t nth) {
    const int fd = ::eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
    ASSERT_GE(fd, 0);
    fds_.push_back(fd);
    FailingAllocations failing(nth);
    std::error_code error = strategy_->add(fd, Interest::in, token());
    failing.end();
    if (error) {
      EXPECT_EQ(error, std::errc::not_enough_memory);
      EXPECT_EQ(ready(), std::min(fds_.size() - 1, reports_.size()));
      error = strategy_->add(fd, Interest::in, token());
    }
    EXPECT_FALSE(error) << error.message();
  }

  /// A wait needs no memory.
  std::size_t ready() {
    const FailingAllocations none(1, 1'000'000);
    return strategy_->wait(reports_, Deadline::immediately(), nullptr).value_or(0);
  }

 private:
  [[nodiscard]] Token token() const { return {static_cast<std::uint32_t>(fds_.size()), 1}; }

  std::unique_ptr<WaitStrategy> strategy_;
  std::vector<int> fds_;
  std::array<Report, 8> reports_{};
};

TEST(WaitStrategiesWithoutMemory, WatchWhatIsAddedAfterARefusal) {
  for (const auto& entry : registry().wait_strategies()) {
    if (entry.name == "rt_signals") continue;  // for one proactor in a process
    for (std::size_t nth = 1; nth <= allocations; ++nth) {
      now_trying(entry.name + ", allocation " + std::to_string(nth) + " of each add");
      Watched watched{entry.factory};
      for (std::size_t i = 0; i < descriptors; ++i) watched.add_one(nth);
      EXPECT_EQ(watched.ready(), 8U);
    }
  }
}

}  // namespace
}  // namespace baton::faults
