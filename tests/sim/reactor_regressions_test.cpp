// Bugs of the Reactor found by `baton sim --reactor`: each as the smallest program that shows it.
// Named after the bug.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <deque>
#include <stdexcept>

#include "../regressions/schedules.hpp"
#include "baton/reactor.hpp"
#include "simulation/epoll_forms.hpp"

namespace baton {
namespace {

using sim::Faults;
using sim::World;
using test::in_many_schedules;
using test::Thread;
using tools::simulation::reactor_system;

constexpr std::int64_t ms = 1'000'000;
constexpr std::uint32_t always = 65'536;

std::unique_ptr<Reactor> opened(const char* wait, const ReactorTuning& tuning = {}) {
  tools::simulation::add_epoll_forms();
  ReactorConfig config;
  config.wait = wait;
  config.handles_max = 16;
  config.tuning = tuning;
  config.system = &reactor_system(0);
  auto reactor = Reactor::open(config);
  if (!reactor) World::current()->violated(reactor.error().reason);
  return std::move(*reactor);
}

/// Two ends of a connection; closed at the end of its scope.
struct Pair {
  Pair() { sim::system().socketpair(AF_UNIX, SOCK_STREAM, 0, ends); }
  ~Pair() {
    for (const int end : ends) sim::system().close(end);
  }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;
  void send(std::size_t size) const {
    const std::array<char, 16> bytes{};
    sim::system().write(ends[1], bytes.data(), size);
  }
  int ends[2];
};

/// Reads one byte for each call.
struct Reader : EventHandler {
  int calls = 0;
  int closed = 0;
  std::function<void()> also{};
  Next on_input(NativeHandle fd) override {
    char byte;
    static_cast<void>(sim::system().read(fd, &byte, 1));
    ++calls;
    if (also) also();
    return Next::keep;
  }
  void on_close(NativeHandle, std::error_code) noexcept override { ++closed; }
};

/// Connections with their readers; they outlive the reactor.
template <std::size_t Count>
struct Connections {
  void add(Reactor& reactor, const std::function<void()>& also = {}) {
    for (std::size_t i = 0; i < Count; ++i) {
      readers[i].also = also;
      const auto key = reactor.add(pairs[i].ends[0], Interest::in, readers[i]);
      World::current()->check(key.has_value(), "it is added");
    }
  }
  const std::array<Pair, Count> pairs;
  std::array<Reader, Count> readers;
};

/// Threads in run(). Joined at the end of the scope: the reactor has to be ended by then.
class Crew {
 public:
  Crew(World& world, Reactor& reactor, int threads) {
    for (int i = 0; i < threads; ++i) {
      threads_.emplace_back(world, [&reactor] { static_cast<void>(reactor.run()); });
    }
  }

 private:
  std::deque<Thread> threads_;
};

TEST(ReactorRegression, AnExceptionLosesOtherNotifications) {
  struct Throws final : Reader {
    Next on_output(NativeHandle) override { throw std::runtime_error("expected"); }
  };
  in_many_schedules(Faults::none(), [](World& here) {
    const Pair pair;
    Throws handler;
    const auto reactor = opened("poll");
    const auto key = reactor->add(pair.ends[0], Interest::none, handler);
    here.check(key.has_value() && !reactor->notify(*key, Interest::both), "it is told");
    try {
      static_cast<void>(reactor->handle_events(Deadline::immediately()));
      here.violated("the exception does not come through");
    } catch (const std::runtime_error&) {
    }
    static_cast<void>(reactor->handle_events(Deadline::immediately()));
    here.check(handler.calls == 1, "input comes after the exception of output");
  });
}

TEST(ReactorRegression, ResumedAtOnceAnEdgeLeavesTheOthersBehind) {
  in_many_schedules(Faults::none(), [](World& here) {
    Connections<3> all;
    const auto& pairs = all.pairs;
    const auto reactor =
        opened("sim_edge", {.resumption = ReactorTuning::Resumption::immediate, .reports_max = 1});
    all.add(*reactor);
    pairs[0].send(16);
    for (int turn = 0; turn < 3; ++turn) {
      here.check(reactor->handle_one(Deadline::immediately()).has_value(), "a turn");
    }
    pairs[1].send(16);
    pairs[2].send(16);
    here.scheduler().work(ms);
    for (int turn = 0; turn < 6; ++turn) {
      here.check(reactor->handle_one(Deadline::immediately()).has_value(), "a turn");
    }
    here.check(all.readers[1].calls > 0 && all.readers[2].calls > 0, "each has a turn");
  });
}

TEST(ReactorRegression, ALongCallOfAPinnedLeaderHoldsUpTheOthers) {
  in_many_schedules(Faults::none(), [](World& here) {
    const Pair pair;
    Reader reader;
    bool told = false;
    const auto reactor = opened("sim_one_thread", {.keep_lead = false});
    reader.also = [&] {
      here.scheduler().work(20 * ms);
      here.check(told, "a notification waits for a long call to return");
      reactor->end();
    };
    here.check(reactor->add(pair.ends[0], Interest::in, reader).has_value(), "it is added");
    const Crew crew{here, *reactor, 2};
    here.scheduler().work(5 * ms);
    pair.send(1);
    here.scheduler().work(5 * ms);
    here.check(!reactor->notify([&] { told = true; }), "it is told");
    here.scheduler().work(30 * ms);
  });
}

TEST(ReactorRegression, AWaitingLeaderLeavesAllToOneInALongCall) {
  in_many_schedules(Faults::none(), [](World& here) {
    Connections<3> all;
    const auto& pairs = all.pairs;
    const auto reactor = opened("sim_one_thread");
    int inside = 0;
    all.add(*reactor, [&] {
      ++inside;
      here.scheduler().work(20 * ms);
      --inside;
    });
    const Crew crew{here, *reactor, 2};
    here.scheduler().work(5 * ms);
    pairs[0].send(1);  // it runs long, so the lead moves, and the leader leaves calls to others
    here.scheduler().work(40 * ms);
    for (std::size_t i = 1; i < pairs.size(); ++i) pairs[i].send(1);
    here.scheduler().work(10 * ms);
    here.check(inside == 2, "a thread waits for more, and what is ready waits for the other");
    here.scheduler().work(80 * ms);
    reactor->end();
  });
}

// Eight threads have a quarter of the time that one would need: twice their share. The calls end
// before the next look of a standby, so that it finds no leader that is stuck in one.
TEST(ReactorRegression, ThreadsAreIdleWhileRegistrationsAreReady) {
  constexpr int each = 16;
  constexpr int count = 8;
  constexpr std::int64_t lasts = ms / 5;
  for (const char* const wait : {"epoll", "sim_one_thread"}) {
    in_many_schedules(Faults::none(), [wait](World& here) {
      Connections<count> all;
      const auto reactor = opened(wait);
      int calls = 0;
      all.add(*reactor, [&] {
        ++calls;
        here.scheduler().work(lasts);
      });
      const Crew crew{here, *reactor, count};
      here.scheduler().work(5 * ms);
      for (const Pair& pair : all.pairs) pair.send(each);
      here.scheduler().work(each * count * lasts / 4);
      here.check(calls == each * count, "a thread is idle, and another calls what is ready alone");
      reactor->end();
    });
  }
}

TEST(ReactorRegression, AWorkerInALongCallLeavesTheRestBehindAWaitingLeader) {
  for (const bool keep_lead : {true, false}) {
    in_many_schedules(Faults::none(), [keep_lead](World& here) {
      const auto reactor = opened("epoll", {.keep_lead = keep_lead});
      int inside = 0;
      const auto last_long = [&] {
        ++inside;
        here.scheduler().work(20 * ms);
        --inside;
      };
      const Crew crew{here, *reactor, 2};
      here.scheduler().work(5 * ms);  // one waits, the other sleeps
      for (int i = 0; i < 2; ++i) here.check(!reactor->notify(last_long), "it is told");
      here.scheduler().work(10 * ms);
      here.check(inside == 2, "a thread waits for more, and what is queued waits for the other");
      here.scheduler().work(40 * ms);
      reactor->end();
    });
  }
}

TEST(ReactorRegression, AThreadWhoseLookFoundNothingSleepsThroughALongCall) {
  in_many_schedules(Faults::none(), [](World& here) {
    Connections<2> all;
    const auto reactor = opened("epoll");
    int calls = 0;
    all.add(*reactor, [&] {
      ++calls;
      here.scheduler().work(60 * ms);
    });
    const Crew crew{here, *reactor, 3};
    here.scheduler().work(5 * ms);  // one waits, the others sleep
    here.check(!reactor->notify([] {}), "it is told");
    // The standby looks at that moment, and takes the work for which another thread was woken.
    here.scheduler().work(ms + here.random.between(-1000, 5000));
    here.check(!reactor->notify([&] { here.scheduler().work(10 * ms); }), "it is told");
    here.scheduler().work(ms);
    here.check(!reactor->notify([&] { here.scheduler().work(60 * ms); }), "it is told");
    here.scheduler().work(ms);
    for (const Pair& pair : all.pairs) pair.send(1);
    here.scheduler().work(30 * ms);
    here.check(calls == 2, "a thread is free, and what is ready waits for a long call");
    reactor->end();
  });
}

// Each wake ended the standby's stay, and its next one began with a look that was far away.
TEST(ReactorRegression, FrequentWakesPutTheStandbysLookOff) {
  in_many_schedules(Faults::none(), [](World& here) {
    Connections<2> all;
    const auto reactor = opened("epoll");
    int inside = 0;
    all.add(*reactor, [&] {
      ++inside;
      here.scheduler().work(100 * ms);
    });
    const auto come_again = [&reactor] {
      while (reactor->handle_events().has_value() && !reactor->ended()) {
      }
    };
    const Thread one{here, come_again};
    const Thread two{here, come_again};
    here.scheduler().work(5 * ms);
    for (int i = 0; i < 100; ++i) {
      if (i == 10 || i == 14) all.pairs[i == 14].send(1);
      reactor->wake();
      here.scheduler().work(ms / 4);
    }
    here.check(inside == 2, "what is ready waits for a long call, though a thread comes and goes");
    reactor->end();
  });
}

// A thread that only polls took the lead of any leader that was in a call at that moment.
TEST(ReactorRegression, APollTakesTheLeadOfAShortCall) {
  in_many_schedules(Faults::none(), [](World& here) {
    Connections<1> all;
    const auto reactor = opened("epoll");
    all.add(*reactor, [&here] { here.scheduler().work(ms / 5); });
    const Crew crew{here, *reactor, 1};
    here.scheduler().work(5 * ms);
    for (int i = 0; i < 8; ++i) {
      all.pairs[0].send(16);
      for (int polls = 0; polls < 4; ++polls) {
        static_cast<void>(reactor->handle_events(Deadline::immediately()));
        here.scheduler().work(ms + here.random.between(-ms / 2, ms / 2));
      }
    }
    here.check(reactor->statistics().leads_taken == 0, "a short call costs the leader its lead");
    reactor->end();
  });
}

TEST(ReactorRegression, AFailedChangeHasEndedTheWatch) {
  in_many_schedules(Faults::none(), [](World& here) {
    const Pair pair;
    Reader reader;
    const auto reactor = opened("epoll");
    const auto key = reactor->add(pair.ends[0], Interest::in, reader);
    here.check(key.has_value(), "it is added");
    reactor_system(always);
    const std::error_code error = reactor->change(*key, Interest::out);
    reactor_system(0);
    if (!error) here.check(!reactor->change(*key, Interest::in), "it is changed back");
    pair.send(1);
    static_cast<void>(reactor->handle_events(Deadline::immediately()));
    here.check(reader.calls == 1, "what is watched is told");
  });
}

TEST(ReactorRegression, AFailedResumeResumes) {
  in_many_schedules(Faults::none(), [](World& here) {
    const Pair pair;
    Reader reader;
    const auto reactor = opened("epoll");
    const auto key = reactor->add(pair.ends[0], Interest::in, reader);
    here.check(key.has_value() && !reactor->suspend(*key), "it is suspended");
    reactor_system(always);
    here.check(reactor->resume(*key) == std::errc::not_enough_memory, "the resume fails");
    reactor_system(0);
    pair.send(1);
    here.check(!reactor->change(*key, Interest::both), "it is changed");
    static_cast<void>(reactor->handle_events(Deadline::immediately()));
    here.check(reader.calls == 0, "it is still suspended");
    here.check(!reactor->resume(*key), "it is resumed");
    static_cast<void>(reactor->handle_events(Deadline::immediately()));
    here.check(reader.calls == 1, "and called");
  });
}

TEST(ReactorRegression, AResumeWaitsForTheTokenBehindLeaders) {
  in_many_schedules(Faults::none(), [](World& here) {
    const Pair pair;
    Reader reader;
    const auto reactor = opened("epoll", {.suspension = ReactorTuning::Suspension::eager,
                                          .resumption = ReactorTuning::Resumption::token,
                                          .keep_lead = false,
                                          .token_line = true});
    here.check(reactor->add(pair.ends[0], Interest::in, reader).has_value(), "it is added");
    {
      const Crew crew{here, *reactor, 3};
      for (int i = 1; i <= 5; ++i) {
        pair.send(1);
        here.scheduler().work(100 * ms);
        here.check(reader.calls == i, "a resume waits for another event");
      }
      reactor->end();
    }
  });
}

TEST(ReactorRegression, ARemovalWaitsForACloseOfItsOwnThread) {
  in_many_schedules(Faults::none(), [](World& here) {
    const Pair first;
    const Pair second;
    Reader removed;
    Reader removes;
    const auto reactor = opened("epoll", {.suspension = ReactorTuning::Suspension::eager,
                                          .resumption = ReactorTuning::Resumption::immediate});
    const auto one = reactor->add(first.ends[0], Interest::in, removed);
    const auto two = reactor->add(second.ends[0], Interest::in, removes);
    here.check(one.has_value() && two.has_value(), "both are added");
    removes.also = [&] {
      // Its own call was the last: it could not be watched again after that.
      here.check(reactor->remove_and_wait(*one) == Reactor::Removal::unknown, "it has ended");
      here.check(removed.closed == 1, "and is closed");
    };
    first.send(1);
    second.send(1);
    here.check(!reactor->notify(*one, Interest::in) && !reactor->notify(*two, Interest::in),
               "told");
    reactor_system(always);
    static_cast<void>(reactor->handle_events(Deadline::immediately()));
    reactor_system(0);
    here.check(removed.calls == 1 && removes.calls == 1, "both are called");
  });
}

}  // namespace
}  // namespace baton
