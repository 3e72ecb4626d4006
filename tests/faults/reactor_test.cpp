// The Reactor with the n-th system call failing, for every call, every n and every error, on every
// wait strategy. A failing call returns an error or leads to on_close with an error, everything
// registered is closed exactly once, and the reactor works afterwards.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "../support/descriptors.hpp"
#include "../support/failing_system.hpp"
#include "../support/patience.hpp"
#include "allocations.hpp"
#include "baton/reactor.hpp"
#include "baton/registry.hpp"

namespace baton::faults {
namespace {

using test::FailingCalls;
using test::SocketPair;

std::vector<std::string> strategies() {
  std::vector<std::string> names;
  for (const auto& entry : registry().wait_strategies()) names.push_back(entry.name);
  return names;
}

struct Counting final : EventHandler {
  int registered = 0;
  int closed = 0;
  int calls = 0;
  Next on_input(NativeHandle fd) override {
    char buffer[16];
    if (::read(fd, buffer, sizeof buffer) > 0) ++calls;
    return Next::keep;
  }
  void on_close(NativeHandle, std::error_code) noexcept override { ++closed; }
};

class ReactorFaults : public testing::TestWithParam<std::string> {
 protected:
  std::unique_ptr<Reactor> opened() {
    ReactorConfig config;
    config.wait = GetParam();
    config.system = &test::failing_system();
    const test::OpensProactor opens;
    auto made = Reactor::open(config);
    EXPECT_TRUE(made.has_value()) << made.error().reason;
    return made ? std::move(*made) : nullptr;
  }

  static void look(Reactor& reactor, int times) {
    for (int i = 0; i < times; ++i) {
      static_cast<void>(reactor.handle_events(Deadline::immediately()));
    }
  }

  /// All functions, with their errors.
  static void use(Reactor& reactor, const std::array<SocketPair, 2>& pairs,
                  std::array<Counting, 2>& handlers, int& told) {
    std::array<RegistrationKey, 2> keys;
    for (std::size_t i = 0; i < 2; ++i) {
      const auto key = reactor.add(pairs[i].ours.get(), Interest::in, handlers[i]);
      if (!key) continue;
      ++handlers[i].registered;
      keys[i] = *key;
    }
    for (const SocketPair& pair : pairs) pair.make_readable();
    static_cast<void>(reactor.notify([&told] { ++told; }));
    static_cast<void>(reactor.schedule([&told](TimerKey, Deadline) { return ++told, Next::keep; },
                                       Deadline::immediately()));
    look(reactor, 4);
    static_cast<void>(reactor.change(keys[0], Interest::both));
    static_cast<void>(reactor.change(keys[0], Interest::none));
    static_cast<void>(reactor.change(keys[0], Interest::in));
    static_cast<void>(reactor.suspend(keys[1]));
    for (const SocketPair& pair : pairs) pair.make_readable();
    static_cast<void>(reactor.notify(keys[0], Interest::in));
    look(reactor, 2);
    static_cast<void>(reactor.resume(keys[1]));
    reactor.wake();
    look(reactor, 4);
    static_cast<void>(reactor.remove(keys[0]));
  }

  /// Whether a call failed.
  bool attempt(std::size_t call, std::size_t nth, int error, std::size_t times) {
    SCOPED_TRACE(std::string(test::failing_calls()[call].name) + " " + std::to_string(nth) +
                 (times > 1 ? " and later: " : ": ") + test::name_of_fault(error));
    const std::array<SocketPair, 2> pairs;
    const SocketPair last;
    std::array<Counting, 2> handlers;
    Counting after;
    int told = 0;
    auto reactor = opened();
    if (reactor == nullptr) return false;
    FailingCalls failing(FailingCalls::Whose::this_thread, call, nth, error, times);
    use(*reactor, pairs, handlers, told);
    const bool hit = failing.hit();
    failing.end();
    EXPECT_EQ(handlers[0].closed, handlers[0].registered);

    const auto key = reactor->add(last.ours.get(), Interest::in, after);
    EXPECT_TRUE(key.has_value()) << key.error().message();
    last.make_readable();
    const Deadline limit = test::at_last();
    while (after.calls == 0 || told < 2) {
      EXPECT_TRUE(reactor->handle_events(limit).has_value());
      if (Deadline::after(Duration{0}) > limit) {
        ADD_FAILURE() << "it does not work any more";
        break;
      }
    }
    reactor.reset();
    EXPECT_EQ(after.closed, 1);
    for (const Counting& handler : handlers) EXPECT_EQ(handler.closed, handler.registered);
    return hit;
  }
};

TEST_P(ReactorFaults, each_call_fails_in_turn) {
  constexpr std::size_t nth_max = 200;
  constexpr std::size_t far = 1'000'000;
  std::size_t hits = 0;
  for (std::size_t call = 0; call < test::failing_calls().size(); ++call) {
    for (const int error : test::failing_calls()[call].running) {
      for (const std::size_t times : {std::size_t{1}, far}) {
        std::size_t nth = 1;
        for (; nth < nth_max && attempt(call, nth, error, times); ++nth) ++hits;
        EXPECT_LT(nth, nth_max);
        if (HasFailure()) return;
      }
    }
  }
  EXPECT_GT(hits, 0U);
}

// Its tables, and the storage of the program's callables.
TEST_P(ReactorFaults, each_allocation_fails_in_turn) {
  bool hit = true;
  for (std::size_t nth = 1; hit; ++nth) {
    SCOPED_TRACE("allocation " + std::to_string(nth));
    const std::array<SocketPair, 2> pairs;
    const SocketPair third;
    std::array<Counting, 2> handlers;
    int told = 0;
    ReactorConfig config;
    config.wait = GetParam();
    config.system = &test::failing_system();
    FailingAllocations failing(nth);
    std::unique_ptr<Reactor> reactor;
    try {
      auto made = Reactor::open(config);
      if (made) reactor = std::move(*made);
    } catch (const std::bad_alloc&) {
      // says why
    }
    if (reactor != nullptr) {
      use(*reactor, pairs, handlers, told);
      const auto read = [](NativeHandle, Interest) { return Next::drop; };
      static_cast<void>(reactor->add(third.ours.get(), Interest::in, read));
      static_cast<void>(reactor->add_signal(SIGUSR1, [](int) { return Next::keep; }));
      static_cast<void>(reactor->remove_signal(SIGUSR1));
    }
    failing.end();
    hit = failing.hit();
    if (reactor == nullptr) {
      EXPECT_TRUE(hit);
      continue;
    }
    const Deadline limit = test::at_last();
    bool works = false;
    EXPECT_FALSE(reactor->notify([&works] { works = true; }));
    while (!works && Deadline::after(Duration{0}) < limit) {
      EXPECT_TRUE(reactor->handle_events(limit).has_value());
    }
    EXPECT_TRUE(works);
    reactor.reset();
    for (const Counting& handler : handlers) EXPECT_EQ(handler.closed, handler.registered);
  }
}

INSTANTIATE_TEST_SUITE_P(every, ReactorFaults, testing::ValuesIn(strategies()),
                         [](const auto& parameter) { return parameter.param; });

}  // namespace
}  // namespace baton::faults
