// Bugs found by fault injection, each named after its cause.
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "../support/failing_system.hpp"
#include "allocations.hpp"
#include "baton/acceptor.hpp"
#include "baton/stream_socket.hpp"
#include "world.hpp"

namespace baton::faults {
namespace {

using namespace std::chrono_literals;
using conformance::Combination;

constexpr std::size_t all = 1'000'000;
const std::error_code cancelled = std::make_error_code(std::errc::operation_canceled);

/// No memory, for as long as it lives.
struct NoMemory : FailingAllocations {
  NoMemory() : FailingAllocations(1, all) {}
};

class Regressions : public testing::TestWithParam<Combination> {
 protected:
  void SetUp() override {
    now_trying(GetParam().name() + ", a regression");
    world_.emplace(GetParam(), 1, std::function<void(Config&)>{});
    const std::string reason = world_->open_as_named();
    if (!reason.empty()) GTEST_SKIP() << reason;
    world_->run();
    // Everything has been used once: the memory for ordinary work is allocated.
    world_->expect_works();
  }
  World& world() { return *world_; }

 private:
  std::optional<World> world_;
};

/// Reads that never get data.
struct Idle {
  explicit Idle(World& world) : reads{{{world, cancelled}, {world, cancelled}}}, posted(world) {
    auto pair = StreamSocket::pair(world.proactor());
    if (!world.take(pair)) return;
    left = std::move(pair->first);
    right = std::move(pair->second);
    for (Account& read : reads) {
      world.start(read, [&](auto& op, auto handler) { return left.read(op, buffer, handler); });
    }
    // The lane has them, too, if there is one: a post queued behind them has run.
    world.start(posted, [&](auto& op, auto handler) {
      op.set_handler(handler);
      return world.proactor().post(op, Notify::strong, Home{0});
    });
    EXPECT_TRUE(world.until([&] { return posted.completions == 1; }));
  }
  StreamSocket left;
  StreamSocket right;
  char buffer[8] = {};
  std::array<Account, 2> reads;
  Account posted;
};

// In per_thread mode they were requests in a list that could not grow: cancel said "requested", and
// nothing happened.
TEST_P(Regressions, cancel_and_close_need_no_memory) {
  for (const int how : {0, 1, 2, 3}) {
    Idle idle(world());
    const NoMemory none;
    if (how == 0) {
      for (Account& read : idle.reads) world().proactor().cancel(read.operation);
    } else if (how == 1) {
      idle.left.cancel();
    } else if (how == 2) {
      world().proactor().cancel_all();
    } else {
      idle.left.close_detached();
    }
    EXPECT_TRUE(world().settle());
    for (const Account& read : idle.reads) EXPECT_TRUE(same(read.error, cancelled));
    EXPECT_FALSE(none.hit()) << "memory was allocated";
  }
}

TEST_P(Regressions, cancel_of_a_timer_needs_no_memory) {
  Account timer(world(), cancelled), other(world());
  for (Account* each : {&timer, &other}) {
    world().start(*each, [&](auto& op, auto handler) {
      op.set_handler(handler);
      return world().proactor().start_timer(
          op, Deadline::after(each == &timer ? 1h : 1ms, world().proactor().now()));
    });
  }
  const NoMemory none;
  world().proactor().cancel(timer.operation);
  EXPECT_TRUE(world().settle());
  EXPECT_TRUE(same(timer.error, cancelled));
  EXPECT_TRUE(other.ok());
  EXPECT_FALSE(none.hit());
}

// Its timer came from the cache of operations; with that used up the drain went on for ever.
TEST_P(Regressions, the_deadline_of_a_drain_needs_no_memory) {
  Idle idle(world());
  std::vector<CachedOperation*> cache;
  cache.reserve(1'000);
  const NoMemory none;
  while (CachedOperation* taken = world().proactor().take_cached()) {
    ASSERT_LT(cache.size(), cache.capacity());
    cache.push_back(taken);
  }
  world().drain(Deadline::after(1ms, world().proactor().now()));
  EXPECT_TRUE(world().settle());
  world().join();
  for (const Account& read : idle.reads) EXPECT_TRUE(same(read.error, cancelled));
  for (CachedOperation* taken : cache) world().proactor().give_back(*taken);
}

// The timer of an earlier drain, still pending, serves the next one.
TEST_P(Regressions, a_second_drain_has_its_own_deadline) {
  world().drain(Deadline::after(1h, world().proactor().now()));
  world().join();
  world().proactor().restart();
  world().run();
  Idle idle(world());
  world().drain(Deadline::after(1ms, world().proactor().now()));
  EXPECT_TRUE(world().settle());
  world().join();
  for (const Account& read : idle.reads) EXPECT_TRUE(same(read.error, cancelled));
}

// A dedicated thread had seen that the drain was complete, and stopped the proactor after it was
// restarted.
TEST_P(Regressions, restart_after_a_drain_is_not_stopped_again) {
  for (int i = 0; i < 50; ++i) {
    world().drain(Deadline::never());
    world().join();
    world().proactor().restart();
    world().run();
    Account posted(world());
    world().start(posted, [&](auto& op, auto handler) {
      op.set_handler(handler);
      return world().proactor().post(op);
    });
    ASSERT_TRUE(world().settle()) << world().first_failure().message();
    ASSERT_FALSE(world().proactor().stopped());
  }
}

// An engine with nothing in flight answered busy to an operation it had no memory for, and the
// operation was never submitted again.
TEST_P(Regressions, a_start_without_memory_is_no_deferral_for_ever) {
  World fresh(GetParam(), 1, {});
  ASSERT_EQ(fresh.open(), "");
  char buffers[3][8] = {};
  std::array<std::optional<Account>, 3> accounts;
  auto pair = StreamSocket::pair(fresh.proactor());
  ASSERT_TRUE(pair);
  for (auto& account : accounts) {
    account.emplace(fresh, std::make_error_code(std::errc::not_enough_memory));
  }
  // Before any wait: a thread may need memory for its first wait only.
  {
    const NoMemory none;
    for (std::size_t i = 0; i < accounts.size(); ++i) {
      fresh.start(*accounts[i], [&](auto& op, auto handler) {
        return pair->first.read_exactly(op, buffers[i], handler);
      });
    }
  }
  fresh.run();
  const Text<24> text;
  ASSERT_EQ(::write(pair->second.native(), text.data, sizeof text.data), 24);
  EXPECT_TRUE(fresh.settle());
  for (const auto& account : accounts) {
    EXPECT_TRUE(account->bytes == 8 || same(account->error, account->expected));
  }
}

// The wait over a fixed set copied the set, and had no memory to do so.
TEST_P(Regressions, waiting_needs_no_memory) {
  const Text<8> text;
  char buffer[8] = {};
  Idle idle(world());
  Account reading(world()), writing(world());
  const NoMemory none;
  world().start(reading, [&](auto& op, auto handler) {
    return idle.right.read_exactly(op, buffer, handler);
  });
  world().start(writing, [&](auto& op, auto handler) {
    return idle.left.write_all(op, text.all(), handler);
  });
  EXPECT_TRUE(world().until([&] { return reading.done() && writing.done(); }));
  EXPECT_TRUE(is_sent(buffer, reading.bytes));
  EXPECT_FALSE(none.hit());
  world().end();
}

// Its connection could not be adopted, and the accept loops of programs ended with that error.
TEST_P(Regressions, an_accept_waits_for_the_memory_of_its_handle) {
  auto acceptor = Acceptor::listen(world().proactor(), Endpoint::loopback(0));
  ASSERT_TRUE(world().take(acceptor));
  const Endpoint address = acceptor->local_endpoint().value();
  const auto connect = [&](int client) {
    return ::connect(client, static_cast<const sockaddr*>(address.data()), address.size());
  };
  std::array<int, 50> clients{};
  for (int& one : clients) one = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  Account accepting(world());
  const auto accept = [&](auto& op, auto handler) { return acceptor->accept(op, handler); };
  std::vector<Handle*> others;
  std::vector<Result<StreamSocket>> taken;
  others.reserve(1'000);
  taken.reserve(clients.size());
  std::size_t next = 0;
  {
    const NoMemory none;
    for (;;) {  // uses up the memory that the tables have
      const int fd = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
      const auto handle = world().proactor().adopt(fd, HandleKind::datagram_socket);
      if (!handle || others.size() == others.capacity()) {
        ::close(fd);
        break;
      }
      others.push_back(*handle);
    }
    // It may have room for some of them.
    bool rests = false;
    while (!rests && next < clients.size() && connect(clients[next++]) == 0) {
      world().start(accepting, accept);
      if (!world().until([&] {
            const Exempt exempt;
            rests = world().proactor().statistics().accept_backoffs > 0;
            return rests || accepting.done();
          })) {
        break;
      }
      if (accepting.done()) taken.push_back(acceptor->take(accepting.operation));
    }
    const Exempt exempt;
    EXPECT_TRUE(rests);
  }
  for (const auto& one : taken) EXPECT_TRUE(one.has_value());
  EXPECT_TRUE(world().until([&] { return accepting.done(); }));
  EXPECT_TRUE(accepting.ok());
  for (Handle* other : others) world().proactor().close_detached(*other);
  for (const int client : clients) ::close(client);
}

INSTANTIATE_TEST_SUITE_P(every, Regressions, testing::ValuesIn(conformance::combinations()),
                         conformance::combination_name);

}  // namespace
}  // namespace baton::faults
