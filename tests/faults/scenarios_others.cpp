// Timers, posts, strands, limits, coroutines, reports.
#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <optional>

#include "baton/coro/cancellation.hpp"
#include "baton/coro/sleep.hpp"
#include "baton/coro/task.hpp"
#include "baton/strand.hpp"
#include "baton/stream_socket.hpp"
#include "baton/timer.hpp"
#include "world.hpp"

namespace baton::faults {
namespace {

using namespace std::chrono_literals;

const std::error_code cancelled = std::make_error_code(std::errc::operation_canceled);

void timers(World& world) {
  std::array<std::optional<Account>, 6> accounts;
  Proactor& proactor = world.proactor();
  const Deadline now = proactor.now();
  for (std::size_t i = 0; i < accounts.size(); ++i) {
    const bool far = i % 3 == 2;
    world.start(accounts[i].emplace(world, far ? cancelled : std::error_code{}),
                [&](auto& op, auto handler) {
                  op.set_handler(handler);
                  return proactor.start_timer(op, Deadline::after(far ? 1h : i * 500us, now));
                });
  }
  for (auto& account : accounts) {
    if (account->expected) proactor.cancel(account->operation);
  }
  world.settle();
  for (auto& account : accounts) {
    world.check(account->done() && same(account->error, account->expected),
                "each ended as it should");
  }
}

void posts(World& world) {
  std::array<std::optional<Account>, 8> accounts;
  for (auto& account : accounts) {
    // Each posts itself once more.
    account.emplace(world).then([](Account& self) {
      if (self.completions == 2) return;
      self.world.start(self, [&](auto& op, auto handler) {
        op.set_handler(handler);
        return self.world.proactor().post(op, Notify::follower);
      });
    });
    world.start(*account, [&](auto& op, auto handler) {
      op.set_handler(handler);
      return world.proactor().post(op);
    });
  }
  world.settle();
  for (auto& account : accounts) world.check(account->completions == 2, "each ran twice");
}

void posted_functions(World& world) {
  std::atomic<int> calls{0};
  const Account last(world);  // waits for them
  for (int i = 0; i < 4; ++i) {
    world.expect_one();
    if (const auto error = world.proactor().post([&] {
          ++calls;
          world.came({});
        })) {
      world.came_not(error);
    }
  }
  world.settle();
  world.check(calls == 4, "all ran");
}

void strands(World& world) {
  const Text<32> text;
  char buffer[32] = {};
  std::atomic<int> inside{0};
  // Outlives the operations that run in it.
  Strand strand{world.proactor()};
  std::array<std::optional<Account>, 8> accounts;
  auto pair = StreamSocket::pair(world.proactor());
  if (!world.take(pair)) return;
  for (auto& account : accounts) {
    account.emplace(world).then(
        [](Account& self) {
          auto& count = *static_cast<std::atomic<int>*>(self.of);
          EXPECT_EQ(count.fetch_add(1), 0) << "two handlers of a strand at once";
          std::this_thread::yield();
          count.fetch_sub(1);
        },
        &inside);
    account->operation.set_strand(&strand);
  }
  for (std::size_t i = 0; i < 4; ++i) {
    world.start(*accounts[i], [&](auto& op, auto handler) {
      return pair->first.read_exactly(op, MutableBuffer{buffer + i * 8, 8}, handler);
    });
    world.start(*accounts[i + 4], [&](auto& op, auto handler) {
      return pair->second.write_all(op, text.part(i * 8, 8), handler);
    });
  }
  if (world.settle()) {
    EXPECT_TRUE(is_sent(buffer, sizeof buffer));
  }
}

// Two at once, the others deferred; four in all, the others refused.
void limits_are_reached(World& world) {
  char buffer[8] = {};
  std::array<std::optional<Account>, 6> accounts;
  auto pair = StreamSocket::pair(world.proactor());
  if (!world.take(pair)) return;
  const std::error_code limit = make_error_code(errc::limit_reached);
  int refused = 0;
  for (auto& account : accounts) {
    account.emplace(world, cancelled);
    account->also_expected = limit;
    if (!world.start(*account, [&](auto& op, auto handler) {
          return pair->first.read(op, buffer, handler);
        })) {
      ++refused;
    }
  }
  // The thread of a lane refuses by a completion, if the cancel is not faster.
  const auto all_refused = [&] {
    return refused + std::count_if(accounts.begin(), accounts.end(), [&](const auto& account) {
             return account->done() && same(account->error, limit);
           });
  };
  world.until([&] { return all_refused() >= 2; });
  pair->first.cancel();
  world.settle();
  world.check(all_refused() == 2, "two were too many");
}

/// Later awaits end at once, when the world asks for the end.
struct Ending {
  explicit Ending(World& in) : world(in), source(in.proactor()) {
    world.at_end([](void* self) { static_cast<Ending*>(self)->source.cancel(); }, this);
  }
  ~Ending() {
    world.end();
    world.at_end(nullptr, nullptr);
  }
  Ending(const Ending&) = delete;
  Ending& operator=(const Ending&) = delete;
  World& world;
  CancellationSource source;
};

Task<void> answer(World& world, StreamSocket& socket, CancellationToken token) {
  char buffer[16];
  auto got = co_await socket.read_exactly(buffer).cancel_with(token);
  if (!world.take(got)) co_return;
  auto sent = co_await socket.write_all(ConstBuffer{buffer, *got}).cancel_with(token);
  static_cast<void>(world.take(sent));
}

Task<void> ask(World& world, StreamSocket& socket, CancellationToken token) {
  const Text<16> text;
  char buffer[16] = {};
  auto sent = co_await socket.write_all(text.all()).cancel_with(token);
  if (!world.take(sent)) co_return;
  auto slept = co_await sleep_for(world.proactor(), 1us).cancel_with(token);
  if (!world.take(slept)) co_return;
  auto got = co_await socket.read_exactly(buffer).timeout(1h).cancel_with(token);
  if (!world.take(got)) co_return;
  EXPECT_TRUE(is_sent(buffer, *got));
  auto late = co_await socket.read(buffer).timeout(1ms).cancel_with(token);
  world.check(!late && late.error() == make_error_code(errc::timed_out), "nothing more comes");
}

Task<void> counted(World& world, Task<void> task) {
  struct End {
    World& world;
    ~End() { world.came({}); }
  };
  world.expect_one();
  const End end{world};
  co_await std::move(task);
}

void coroutines(World& world) {
  auto pair = StreamSocket::pair(world.proactor());
  if (!world.take(pair)) return;
  world.proactor().on_task_exception([](std::exception_ptr) { ADD_FAILURE() << "an exception"; });
  Ending ending(world);
  const CancellationToken token = ending.source.token();
  world.proactor().spawn(counted(world, answer(world, pair->first, token)));
  world.proactor().spawn(counted(world, ask(world, pair->second, token)));
  world.settle();
}

// Over the first chunk of every table.
void many_handles(World& world) {
  std::vector<StreamSocket> sockets;
  std::vector<std::unique_ptr<Account>> accounts;
  char buffer[1];
  sockets.reserve(300);
  accounts.reserve(300);
  for (int i = 0; i < 150; ++i) {
    auto pair = StreamSocket::pair(world.proactor());
    if (!world.take(pair)) break;
    sockets.push_back(std::move(pair->first));
    sockets.push_back(std::move(pair->second));
  }
  for (StreamSocket& socket : sockets) {
    accounts.push_back(std::make_unique<Account>(world, cancelled));
    if (!world.start(*accounts.back(),
                     [&](auto& op, auto handler) { return socket.read(op, buffer, handler); })) {
      break;
    }
  }
  if (!world.failed()) world.proactor().cancel_all();
  world.settle();
  sockets.clear();
}

void reports(World& world) {
  Account reading(world, cancelled);
  char buffer[8];
  auto pair = StreamSocket::pair(world.proactor());
  if (!world.take(pair)) return;
  reading.operation.set_tag(7);
  world.proactor().name_tag(7, "a name that is too long for a short string");
  world.start(reading,
              [&](auto& op, auto handler) { return pair->first.read(op, buffer, handler); });
  const std::string text = world.proactor().pending().to_string();
  world.check(!text.empty() && !world.proactor().explain().empty(), "there is a report");
  pair->first.cancel();
  world.settle();
}

}  // namespace

void add_others(std::vector<Scenario>& list) {
  list.insert(list.end(), {{"timers", timers},
                           {"posts", posts, 2},
                           {"posted_functions", posted_functions},
                           {"strands", strands, 2},
                           {"limits_are_reached", limits_are_reached, 1,
                            [](Config& config) {
                              for (ProcessorConfig& processor : config.processors) {
                                processor.started_max = 2;
                                processor.operations_max = 4;
                              }
                            }},
                           {"coroutines", coroutines},
                           {"many_handles", many_handles},
                           {"reports", reports}});
}

}  // namespace baton::faults
