// The list of directions that back off, under a clock that the test moves.
#include "engines/emulated/back_off.hpp"

#include <errno.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <memory>

#include "baton/config.hpp"
#include "baton/endpoint.hpp"
#include "baton/limits.hpp"
#include "baton/proactor.hpp"

namespace baton::test {
namespace {

using engines::emulated::BackOffs;
using engines::emulated::Direction;
using engines::emulated::Record;

constexpr std::int64_t ms = 1'000'000;
std::int64_t now_ns = 77 * ms;

os::System system_of_the_test() {
  os::System system = os::real_system();
  system.monotonic_ns = [] { return now_ns; };
  return system;
}

class BackOffList : public testing::Test {
 protected:
  BackOffList() {
    EXPECT_TRUE(records_.ensure(3));
    for (std::uint32_t i = 0; i < 4; ++i) records_[i].index = i;
  }

  void add(std::uint32_t index, std::uint32_t span_ms) {
    list.add(records_[index], records_[index].in, span_ms);
  }
  void remove(std::uint32_t index) { list.remove(records_[index].in); }
  /// The index of one that is due, or -1.
  int take() {
    Record* record = nullptr;
    Direction* direction = nullptr;
    if (!list.take_due(record, direction)) return -1;
    EXPECT_EQ(direction, &record->in);
    return static_cast<int>(record->index);
  }
  /// From now until the list is to be looked at.
  std::int64_t left_ms() { return (list.next().ns() - now_ns) / ms; }

 private:
  const os::System system_ = system_of_the_test();
  ChunkedTable<Record> records_{256};

 protected:
  BackOffs list{system_, records_, false};
};

TEST_F(BackOffList, ShortBackOffDoesNotWaitForALongerOne) {
  add(0, 500);
  EXPECT_EQ(left_ms(), 512) << "rounded up";
  add(1, 10);
  EXPECT_EQ(left_ms(), 11);
  now_ns += 10 * ms;
  EXPECT_EQ(take(), -1);
  now_ns += ms;
  EXPECT_EQ(take(), 1);
  EXPECT_EQ(take(), -1);
  EXPECT_EQ(left_ms(), 501) << "the longer one is still in the list";
  now_ns += 501 * ms;
  EXPECT_EQ(take(), 0);
  EXPECT_FALSE(list.any());
  EXPECT_TRUE(list.next().is_never());
}

// One wait serves them all, although they begin one after the other and a busy machine comes late.
TEST_F(BackOffList, LongBackOffsThatBeginTogetherEndTogether) {
  for (int round = 0; round < 20; ++round) {
    for (std::uint32_t i = 0; i < 3; ++i) {
      add(i, 128);
      now_ns += 300'000;
    }
    EXPECT_GE(left_ms(), 128);
    EXPECT_LE(left_ms(), 128 + 16);
    now_ns += left_ms() * ms;
    EXPECT_EQ(take() + take() + take(), 0 + 1 + 2) << round;
  }
}

TEST_F(BackOffList, LongBackOffDoesNotDelayAShorterOne) {
  add(0, 10);
  add(1, 500);
  EXPECT_EQ(left_ms(), 11);
  remove(0);
  EXPECT_TRUE(list.any());
  now_ns += 11 * ms;
  EXPECT_EQ(take(), -1);
  EXPECT_EQ(left_ms(), 501);
}

TEST_F(BackOffList, BackOffsThatAreDueTogetherAreAllTaken) {
  for (std::uint32_t i = 0; i < 4; ++i) add(i, 10 * i);
  remove(1);
  now_ns += 32 * ms;
  EXPECT_EQ(take() + take() + take(), 0 + 2 + 3);
  EXPECT_EQ(take(), -1);
}

// Those that have waited longest, even if others are due again meanwhile.
TEST_F(BackOffList, BackOffsThatWereDueEarlierAreTakenFirst) {
  for (std::uint32_t i = 0; i < 4; ++i) add(i, 10);
  now_ns += 11 * ms;
  EXPECT_EQ(take(), 0);
  add(0, 10);
  now_ns += 11 * ms;
  EXPECT_EQ(left_ms(), -now_ns / ms) << "at once";
  EXPECT_EQ(take(), 1);
  remove(2);
  EXPECT_EQ(take(), 3);
  EXPECT_EQ(take(), 0);
  EXPECT_FALSE(list.any());
}

TEST_F(BackOffList, AnyOfThemIsRemovedAndAddedAgain) {
  for (std::uint32_t i = 0; i < 4; ++i) add(i, 10);
  remove(2);
  remove(0);
  now_ns += 11 * ms;
  EXPECT_EQ(take(), 1);
  remove(3);
  EXPECT_FALSE(list.any());
  add(0, 10);
  add(3, 10);
  EXPECT_EQ(take(), -1) << "it was found due before it was removed";
  EXPECT_EQ(left_ms(), 11);
  now_ns += 11 * ms;
  EXPECT_EQ(take() + take(), 0 + 3);
  EXPECT_EQ(take(), -1);
  EXPECT_FALSE(list.any());
}

int connects = 0;

// While the leader tried them all, the pauses of the first ones ended, and it went on for seconds.
TEST(BackOffs, ManyConnectsToAFullBacklogAreTriedInBatches) {
  os::System system = system_of_the_test();
  system.monotonic_coarse_ns = system.monotonic_ns;
  system.connect = [](int, const sockaddr*, socklen_t) {
    ++connects;
    now_ns += ms;
    errno = EAGAIN;
    return -1;
  };
  Config config;
  config.system = &system;
  config.processors.push_back({.engine = "emulated", .wait = "epoll"});
  constexpr std::size_t count = 2 * limits::reports_max;
  const auto operations = std::make_unique<Operation[]>(count);
  Proactor proactor{config};
  Endpoint backlog = *Endpoint::unix_path("/tmp/baton-full-backlog");
  for (std::size_t i = 0; i < count; ++i) {
    const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    auto handle = proactor.adopt(fd, HandleKind::stream_socket);
    ASSERT_TRUE(handle.has_value());
    operations[i].prepare(OperationKind::connect, *handle);
    operations[i].set_endpoint(&backlog);
    ASSERT_FALSE(proactor.start(operations[i]));
  }
  connects = 0;
  proactor.poll();
  EXPECT_GT(connects, 0);
  // The leader looks at what is due before and after it polls the descriptors.
  EXPECT_LE(static_cast<std::size_t>(connects), 2 * limits::reports_max);
}

}  // namespace
}  // namespace baton::test
