// Bugs that the simulator found or could have found: each as the smallest program that shows it,
// run under many schedules. Named after the bug.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "baton/acceptor.hpp"
#include "baton/connector.hpp"
#include "baton/file.hpp"
#include "baton/proactor.hpp"
#include "baton/strand.hpp"
#include "baton/stream_socket.hpp"
#include "schedules.hpp"

namespace baton {
namespace {

using sim::Faults;
using sim::World;
using test::in_many_schedules;
using test::Thread;

constexpr std::int64_t ms = 1'000'000;

Config config_of(const ProcessorConfig& processor) {
  Config config;
  config.system = &sim::system();
  config.handles_max = 64;
  config.processors = {processor};
  return config;
}

// A stop and a restart at the same time stopped one lane and restarted the other: run() returned at
// once there, for ever, while stopped() was false.
TEST(Regression, StopAndRestartAtTheSameTimeMix) {
  in_many_schedules(Faults::none(), [](World& here) {
    Proactor proactor{config_of({.engine = "simulated", .mode = Mode::per_thread, .threads = 2})};
    {
      const Thread stops{here, [&] { proactor.stop(); }};
      const Thread restarts{here, [&] { proactor.restart(); }};
    }
    if (proactor.stopped()) return;
    for (std::uint32_t lane = 0; lane < 2; ++lane) {
      bool ran = false;
      Operation operation;
      operation.set_handler([&ran](Operation&) { ran = true; });
      here.check(!proactor.post(operation, Notify::strong, {.lane = lane}), "a post is taken");
      // A thread takes the first lane that is free, so both are visited.
      const Thread one{
          here, [&] { proactor.handle_events(Deadline::after(Duration{ms}, proactor.now())); }};
      const Thread two{
          here, [&] { proactor.handle_events(Deadline::after(Duration{ms}, proactor.now())); }};
      std::atomic<std::uint32_t> nobody{0};
      while (!ran && here.scheduler().now() < 2'000 * ms) {
        here.scheduler().sleep(&nobody, here.scheduler().now() + ms);
      }
      here.check(ran, "a lane of a proactor that is not stopped is stopped");
    }
  });
}

// A lane that had last been quiet before the drain counted as quiet while it took back what the
// drain's deadline had cancelled: another lane ended the drain before the handlers had run.
TEST(Regression, DrainEndedBeforeAnotherLaneHadRunItsHandlers) {
  in_many_schedules(Faults::none(), [](World& here) {
    Proactor proactor{config_of({.engine = "emulated",
                                 .wait = "epoll",
                                 .interrupt = "eventfd",
                                 .mode = Mode::per_thread,
                                 .threads = 2})};
    for (int round = 0; round < 20; ++round) {
      int fds[2];
      here.check(sim::system().socketpair(0, 0, 0, fds) == 0, "a pair opens");
      auto one = StreamSocket::adopt(proactor, fds[0], Ownership::owned, {.lane = 0});
      auto two = StreamSocket::adopt(proactor, fds[1], Ownership::owned, {.lane = 1});
      here.check(one.has_value() && two.has_value(), "sockets are adopted");
      char buffers[2][8];
      int completed = 0;
      int expected = 0;
      Operation reads[2];
      {
        const Thread first{here, [&] { proactor.run(); }};
        const Thread second{here, [&] { proactor.run(); }};
        int started = 0;
        for (auto* const socket : {&*one, &*two}) {
          const std::error_code error = socket->read(
              reads[started], MutableBuffer{buffers[started]}, [&](Operation&) { ++completed; });
          here.check(!error, "a read starts");
          if (++started > static_cast<int>(here.random.below(2))) break;
        }
        expected = started;
        std::atomic<std::uint32_t> nobody{0};
        here.scheduler().sleep(&nobody, here.scheduler().now() + here.random.below(ms / 10));
        proactor.drain(proactor.now());
      }
      here.check(proactor.stopped(), "the drain has ended");
      here.check(completed == expected, "every handler has run");
      proactor.restart();
    }
  });
}

// The accounts of a drain do not show posted work that a lane has taken out of its mail. So a lane
// that was quiet has to count as at work before it takes mail.
void drain_waits_for_posted_work(World& here, std::size_t processors) {
  Config config = config_of({.engine = "emulated",
                             .wait = "epoll",
                             .interrupt = "eventfd",
                             .mode = Mode::per_thread,
                             .threads = 2});
  config.processors.resize(processors, config.processors.front());
  Proactor proactor{config};
  std::atomic<std::uint32_t> nobody{0};
  const auto pause = [&] {
    here.scheduler().sleep(&nobody, here.scheduler().now() + here.random.below(ms / 10));
  };
  int ran = 0;
  const auto handle = [&] {
    ++ran;
    pause();  // here the first lane sees nothing left to do
  };
  Operation of_the_other[3];
  for (Operation& operation : of_the_other) {
    operation.set_handler([&handle](Operation&) { handle(); });
  }
  const auto begin = [&] {
    proactor.drain(Deadline::never());
    pause();  // here the other lane finds nothing to do and waits
    for (Operation& operation : of_the_other) {
      here.check(!proactor.post(operation, Notify::strong, {.lane = 1}), "a post is taken");
    }
  };
  Operation first;
  first.set_handler([&begin](Operation&) { begin(); });
  here.check(!proactor.post(first, Notify::strong, {.lane = 0}), "a post is taken");
  {
    const Thread one{here, [&] { proactor.run(); }};
    const Thread two{here, [&] { proactor.run(); }};
  }
  here.check(proactor.stopped(), "the drain has ended");
  here.check(ran == 3, "every handler has run");
}

TEST(Regression, DrainWaitsForPostedWorkThatAQuietLaneHasTaken) {
  for (const std::size_t processors : {1U, 2U}) {
    in_many_schedules(Faults::none(),
                      [&](World& here) { drain_waits_for_posted_work(here, processors); });
  }
}

// A lane's thread left with an exception during a drain, its pinned engine had to be emptied, and
// the timer of the drain's deadline was cancelled with the others.
TEST(Regression, PinnedLaneLeftDuringADrainForgetsItsDeadline) {
  in_many_schedules(Faults::none(), [](World& here) {
    here.traits.pinned = true;
    Proactor proactor{config_of({.engine = "simulated", .mode = Mode::per_thread, .threads = 1})};
    int fds[2];
    here.check(sim::system().socketpair(0, 0, 0, fds) == 0, "a pair opens");
    auto one = StreamSocket::adopt(proactor, fds[0]);
    auto two = StreamSocket::adopt(proactor, fds[1]);
    here.check(one.has_value() && two.has_value(), "sockets are adopted");

    // Throws once, after the drain has begun.
    Operation thrower;
    thrower.set_handler([&proactor](Operation&) {
      proactor.drain(Deadline::after(Duration{5 * ms}, proactor.now()));
      throw 1;
    });
    here.check(!proactor.post(thrower), "a post is taken");
    try {
      proactor.run();
      here.violated("the exception was swallowed");
    } catch (int) {
    }
    // A read that only the deadline ends.
    std::byte byte{};
    Operation read;
    const bool started = !one->read(read, {&byte, 1});
    proactor.run();
    here.check(proactor.stopped(), "the drain has ended");
    here.check(!started || !read.is_pending(), "and with it what was pending");
  });
}

// cancel_all by a user took the timer of a drain's deadline along.
TEST(Regression, CancelAllForgetsTheDeadlineOfADrain) {
  for (const Mode mode : {Mode::shared, Mode::per_thread}) {
    in_many_schedules(Faults::none(), [mode](World& here) {
      Proactor proactor{config_of({.engine = "simulated", .mode = mode, .threads = 1})};
      int fds[2];
      here.check(sim::system().socketpair(0, 0, 0, fds) == 0, "a pair opens");
      auto one = StreamSocket::adopt(proactor, fds[0]);
      auto two = StreamSocket::adopt(proactor, fds[1]);
      here.check(one.has_value() && two.has_value(), "sockets are adopted");
      std::byte byte{};
      Operation read;
      Operation begin;
      const auto go = [&] {
        proactor.drain(Deadline::after(Duration{5 * ms}, proactor.now()));
        proactor.cancel_all();
        static_cast<void>(one->read(read, {&byte, 1}));
      };
      begin.set_handler([&go](Operation&) { go(); });
      here.check(!proactor.post(begin), "a post is taken");
      proactor.run();
      here.check(!read.is_pending(), "the deadline has ended what would last for ever");
    });
  }
}

// Two drains at the same time: the first overwrote the deadline of the second, or the second
// compared its own with that of a drain long over. run() did not return.
TEST(Regression, TwoDrainsAtTheSameTimeForgetTheEarlierDeadline) {
  for (const Mode mode : {Mode::shared, Mode::dedicated, Mode::per_thread}) {
    in_many_schedules(Faults::none(), [mode](World& here) {
      Proactor proactor{config_of({.engine = "simulated", .mode = mode, .threads = 2})};
      int fds[2];
      here.check(sim::system().socketpair(0, 0, 0, fds) == 0, "a pair opens");
      auto one = StreamSocket::adopt(proactor, fds[0]);
      here.check(one.has_value(), "a socket is adopted");
      std::byte byte{};
      Operation read;
      here.check(!one->read(read, {&byte, 1}), "a read starts");
      {
        const Thread runs{here, [&] { proactor.run(); }};
        const Thread runs_too{here, [&] { proactor.run(); }};
        const Thread waits{here, [&] { proactor.drain(Deadline::never()); }};
        const Thread hurries{
            here, [&] { proactor.drain(Deadline::after(Duration{ms}, proactor.now())); }};
      }
      here.check(!read.is_pending(), "the deadline has ended the read");
      sim::system().close(fds[1]);
    });
  }
}

// The deadline of a drain came while another thread ended that drain by stop(), restarted, and
// began something new: its read was cancelled, or its drain ended.
TEST(Regression, DeadlineOfAFinishedDrainEndsLaterOperations) {
  for (const Mode mode : {Mode::shared, Mode::dedicated, Mode::per_thread}) {
    for (const bool drains_again : {false, true}) {
      in_many_schedules(Faults::none(), [&](World& here) {
        Proactor proactor{
            config_of({.engine = "emulated", .wait = "epoll", .mode = mode, .threads = 1})};
        int fds[2];
        here.check(sim::system().socketpair(0, 0, 0, fds) == 0, "a pair opens");
        auto one = StreamSocket::adopt(proactor, fds[0]);
        auto two = StreamSocket::adopt(proactor, fds[1]);
        here.check(one.has_value() && two.has_value(), "sockets are adopted");
        std::byte bytes[2];
        Operation reads[2];
        std::atomic<std::uint32_t> nobody{0};
        const auto sleep = [&](std::int64_t ns) {
          here.scheduler().sleep(&nobody, here.scheduler().now() + ns);
        };
        bool ends = false;
        for (int round = 0; round < 20; ++round) {
          ends = false;
          here.check(!one->read(reads[0], {&bytes[0], 1}), "a read starts");
          proactor.drain(Deadline::after(Duration{ms}, proactor.now()));
          {
            const Thread runs{here, [&] {
                                while (!ends) {
                                  proactor.run();
                                  sleep(1'000);
                                }
                              }};
            sleep(ms + here.random.below(40'000));
            proactor.stop();
            proactor.restart();
            here.check(!two->read(reads[1], {&bytes[1], 1}), "a read starts after a restart");
            if (drains_again) proactor.drain(Deadline::never());
            sleep(2 * ms);
            here.check(reads[1].is_pending(), "the next read goes on");
            here.check(!proactor.stopped(), "the next drain goes on");
            proactor.restart();  // ends it
            proactor.cancel_all();
            while (reads[0].is_pending() || reads[1].is_pending()) sleep(ms);
            ends = true;
            proactor.stop();
          }
          proactor.restart();
        }
      });
    }
  }
}

// A read on a connecting socket got the error of the connect, and the connect waited for readiness
// for ever.
TEST(Regression, AReadGotTheErrorOfAConnect) {
  Faults refusing;
  refusing.refuse = 65'536;
  refusing.latency_least_ns = 1000;
  refusing.latency_most_ns = 5000;
  for (const char* wait : {"epoll", "poll", "select"}) {
    in_many_schedules(refusing, [wait](World& here) {
      Proactor proactor{config_of({.engine = "emulated", .wait = wait, .mode = Mode::shared})};
      const int fd = sim::system().socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
      auto socket = StreamSocket::adopt(proactor, fd);
      here.check(socket.has_value(), "a socket is adopted");
      Endpoint nobody = Endpoint::loopback(9);
      int done = 0;
      const auto count = [&](Operation& operation) {
        here.check(operation.failed(), "neither succeeds");
        if (++done == 2) proactor.stop();
      };
      Operation connect;
      connect.prepare(OperationKind::connect, socket->handle());
      connect.set_endpoint(&nobody);
      connect.set_handler([&count](Operation& operation) { count(operation); });
      here.check(!proactor.start(connect), "the connect starts");
      std::byte byte{};
      Operation read;
      here.check(
          !socket->read(read, {&byte, 1}, [&count](Operation& operation) { count(operation); }),
          "the read starts");
      proactor.run();
      here.check(done == 2, "both are complete");
    });
  }
}

// Several writes in one system call that ended in the middle of the last one: the last waited for a
// report that had not been requested.
TEST(Regression, MergedWritesThatEndInAPart) {
  Faults cutting;
  cutting.short_transfer = 40'000;
  cutting.buffer_least = 96;
  cutting.buffer_most = 200;
  for (const char* wait : {"epoll", "poll", "select"}) {
    in_many_schedules(cutting, [wait](World& here) {
      Proactor proactor{config_of({.engine = "emulated", .wait = wait, .mode = Mode::shared})};
      int fds[2];
      here.check(sim::system().socketpair(0, 0, 0, fds) == 0, "a pair opens");
      auto writer = StreamSocket::adopt(proactor, fds[0]);
      auto reader = StreamSocket::adopt(proactor, fds[1]);
      here.check(writer.has_value() && reader.has_value(), "sockets are adopted");
      std::vector<std::byte> sent(600);
      for (std::size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<std::byte>(i * 7);
      std::vector<std::byte> came(sent.size());
      Operation writes[4];
      int written = 0;
      for (std::size_t i = 0; i < 4; ++i) {
        here.check(!writer->write_all(writes[i], ConstBuffer{sent.data() + i * 150, 150},
                                      [&written](Operation&) { ++written; }),
                   "a write starts");
      }
      Operation read;
      here.check(!reader->read_exactly(read, MutableBuffer{came.data(), came.size()},
                                       [&proactor](Operation&) { proactor.stop(); }),
                 "the read starts");
      proactor.run();
      while (written < 4) {
        proactor.restart();
        proactor.run_one();
      }
      here.check(came == sent, "every byte came, in order");
    });
  }
}

// A dedicated engine that only its leader may call, beside lanes that cancel and detach by
// themselves: the request was never carried out. It is refused now, with a message.
TEST(Regression, DedicatedEngineOfItsLeaderOnlyBesideLanes) {
  in_many_schedules(Faults::none(), [](World& here) {
    here.traits.start_from_any_thread = false;
    Config config =
        config_of({.operations = file_operations, .engine = "simulated", .mode = Mode::dedicated});
    config.processors.push_back({.engine = "simulated", .mode = Mode::per_thread, .threads = 1});
    config.require = {"simulated"};
    const auto opened = Proactor::open(config);
    here.check(!opened.has_value(), "the team is refused");
    here.check(opened.error().reason.find("per_thread") != std::string::npos,
               "and the reason names what would go");
  });
}

// Timers that were due more often than the standby looks postponed its look each time: beside a
// long handler no thread took the queued operations.
TEST(Regression, FrequentTimersDelayTheStandbysLook) {
  in_many_schedules(Faults::none(), [](World& here) {
    Config config = config_of({.engine = "simulated", .mode = Mode::shared});
    config.understudy_look_us = 1'000;
    char buffers[3][8] = {};
    Operation operations[3];
    Proactor proactor{config};
    const auto wait = [&here, nobody = 0](std::int64_t ns) {
      here.scheduler().sleep(&nobody, here.scheduler().now() + ns);
    };
    int fds[2];
    here.check(sim::system().socketpair(0, 0, 0, fds) == 0, "a pair opens");
    auto near = StreamSocket::adopt(proactor, fds[0]);
    auto far = StreamSocket::adopt(proactor, fds[1]);
    here.check(near.has_value() && far.has_value(), "sockets are adopted");
    // An operation stays pending, so that the processor has a leader.
    here.check(!far->read(operations[0], MutableBuffer{buffers[0]}, [](Operation&) {}),
               "a read starts");
    {
      const Thread one{here, [&] { proactor.run(); }};
      const Thread two{here, [&] { proactor.run(); }};
      wait(10 * ms);
      // The leader is in a handler for long, with work queued behind it.
      bool in_handler = false;
      here.check(!near->read(operations[1], MutableBuffer{buffers[1]},
                             [&](Operation&) {
                               in_handler = true;
                               here.scheduler().work(100 * ms);
                             }),
                 "a read starts");
      here.check(!far->write(operations[2], ConstBuffer{buffers[2]}, [](Operation&) {}),
                 "a write starts");
      while (!in_handler) wait(ms / 100);
      const std::int64_t begin = here.scheduler().now();
      bool ran = false;
      Operation queued;
      queued.set_handler([&ran](Operation&) { ran = true; });
      here.check(!proactor.post(queued), "a post is taken");
      std::vector<std::unique_ptr<Operation>> timers;
      while (!ran && here.scheduler().now() < begin + 50 * ms) {
        timers.push_back(std::make_unique<Operation>());
        timers.back()->set_handler([](Operation&) {});
        const Deadline soon = Deadline::after(Duration{ms / 5}, proactor.now());
        here.check(!proactor.start_timer(*timers.back(), soon), "a timer starts");
        wait(ms / 5);
      }
      here.check(ran, "what is queued is taken beside a long handler");
      wait(200 * ms);
      proactor.stop();
    }
  });
}

// A thread that is in poll(), or waits for less than a look takes, left before it could look: while
// the leader was in a long handler, no thread asked the engine.
TEST(Regression, ThreadsThatComeForAMomentNoticeNoLongHandler) {
  for (const std::int64_t stay : {std::int64_t{0}, ms / 5}) {
    in_many_schedules(Faults::none(), [stay](World& here) {
      Config config = config_of({.engine = "simulated", .mode = Mode::shared});
      config.understudy_look_us = 1'000;
      char bytes[2] = {};
      Operation reads[2];
      Proactor proactor{config};
      int fds[2][2];
      std::vector<StreamSocket> near;
      for (auto& pair : fds) {
        here.check(sim::system().socketpair(0, 0, 0, pair) == 0, "a pair opens");
        near.push_back(StreamSocket::adopt(proactor, pair[0]).value());
      }
      bool in_handler = false;
      bool ran = false;
      const auto lasts = [&](Operation&) {
        in_handler = true;
        here.scheduler().work(100 * ms);
      };
      here.check(!near[0].read(reads[0], MutableBuffer{&bytes[0], 1}, lasts), "a read starts");
      const auto is_short = [&ran](Operation&) { ran = true; };
      here.check(!near[1].read(reads[1], MutableBuffer{&bytes[1], 1}, is_short), "a read starts");
      {
        const Thread runs{here, [&] { proactor.run(); }};
        here.scheduler().work(5 * ms);  // it leads
        here.check(sim::system().write(fds[0][1], "x", 1) == 1, "a byte is sent");
        while (!in_handler) here.scheduler().work(ms / 100);
        here.check(sim::system().write(fds[1][1], "x", 1) == 1, "a byte is sent");
        const std::int64_t begin = here.scheduler().now();
        while (!ran && here.scheduler().now() < begin + 50 * ms) {
          proactor.handle_events(Deadline::after(Duration{stay}, proactor.now()));
          here.scheduler().work(ms / 2);
        }
        here.check(ran, "what is ready is taken beside a long handler");
        here.scheduler().work(100 * ms);
        proactor.stop();
      }
      for (const auto& pair : fds) sim::system().close(pair[1]);
    });
  }
}

// The other side of it: handlers are short, and a poll comes while one runs, again and again.
TEST(Regression, ThreadsThatComeForAMomentTakeNoSeatOfShortHandlers) {
  in_many_schedules(Faults::none(), [](World& here) {
    Config config = config_of({.engine = "simulated", .mode = Mode::shared});
    config.understudy_look_us = 1'000;
    char byte = 0;
    Operation read;
    Proactor proactor{config};
    int fds[2];
    here.check(sim::system().socketpair(0, 0, 0, fds) == 0, "a pair opens");
    StreamSocket near = StreamSocket::adopt(proactor, fds[0]).value();
    std::function<void()> start = [&] {
      const auto again = [&](Operation& done) {
        here.scheduler().work(ms / 4);
        if (!done.failed()) start();
      };
      const bool refused{near.read(read, MutableBuffer{&byte, 1}, again)};
      here.check(!refused || proactor.stopped(), "a read starts");
    };
    start();
    {
      const Thread runs{here, [&] { proactor.run(); }};
      here.scheduler().work(5 * ms);
      const std::string bytes(200, 'x');
      here.check(sim::system().write(fds[1], bytes.data(), 200) == 200, "bytes are sent");
      for (int polls = 0; polls < 30; ++polls) {
        proactor.poll();
        here.scheduler().work(here.random.between(ms / 4, 3 * ms));
      }
      here.check(proactor.statistics().seats_taken == 0, "a short handler costs the seat");
      proactor.stop();
    }
    proactor.finish();
    sim::system().close(fds[1]);
  });
}

// The promise of docs/decisions/0005 (I11): beside a handler that never ends everything continues,
// also with as many threads as processors, where each leads one.
class EndlessHandler : public testing::TestWithParam<unsigned> {};

TEST_P(EndlessHandler, BesideTwoSharedProcessors) {
  in_many_schedules(Faults::none(), [&](World& here) {
    Config config = config_of({.engine = "simulated", .mode = Mode::shared});
    config.processors[0].operations = file_operations;
    config.processors[0].operations |= accept_operations;
    config.processors.push_back({.engine = "simulated", .mode = Mode::shared});
    char buffers[5][8] = {};
    Operation operations[6];
    Proactor proactor{config};
    const auto wait = [&here](std::int64_t ns) { here.scheduler().work(ns); };
    std::vector<StreamSocket> ends;
    for (int i = 0; i < 2; ++i) {
      int fds[2];
      here.check(sim::system().socketpair(0, 0, 0, fds) == 0, "a pair opens");
      for (const int fd : fds) {
        auto end = StreamSocket::adopt(proactor, fd);
        here.check(end.has_value(), "a socket is adopted");
        ends.push_back(std::move(*end));
      }
    }
    auto file = File::open(proactor, "/file", FileFlags::read_write | FileFlags::create);
    here.check(file.has_value(), "a file opens");
    // Both processors have a leader while the accept is pending.
    auto acceptor = Acceptor::listen(proactor, Endpoint::loopback(0));
    here.check(acceptor.has_value() && !acceptor->accept(operations[5]), "an accept starts");
    std::vector<std::unique_ptr<Thread>> threads;
    for (unsigned i = 0; i < GetParam(); ++i) {
      threads.push_back(std::make_unique<Thread>(here, [&] { proactor.run(); }));
    }
    struct {
      bool entered = false;
      bool released = false;
    } handler;
    here.check(!ends[0].read(operations[0], MutableBuffer{buffers[0]},
                             [&here, &handler](Operation&) {
                               handler.entered = true;
                               while (!handler.released) here.scheduler().work(ms);
                             }),
               "a read starts");
    bool read = false;
    here.check(
        !ends[2].read(operations[1], MutableBuffer{buffers[1]}, [&](Operation&) { read = true; }),
        "a read starts");
    wait(10 * ms);
    here.check(sim::system().write(ends[1].native(), "x", 1) == 1, "a byte is sent");
    while (!handler.entered) wait(ms / 100);
    wait(10 * ms);  // the others may have gone to sleep for good
    here.check(sim::system().write(ends[3].native(), "x", 1) == 1, "a byte is sent");
    wait(20 * ms);
    here.check(read, "this engine's operations go on");
    bool written = false;
    bool posted = false;
    bool timed = false;
    here.check(!file->write_at(operations[2], 0, ConstBuffer{buffers[2]},
                               [&](Operation&) { written = true; }),
               "a write starts");
    operations[3].set_handler([&](Operation&) { posted = true; });
    here.check(!proactor.post(operations[3]), "a post is taken");
    operations[4].set_handler([&](Operation&) { timed = true; });
    here.check(!proactor.start_timer(operations[4], Deadline::after(Duration{ms}, proactor.now())),
               "a timer starts");
    wait(20 * ms);
    here.check(written, "the other engine's operations go on");
    here.check(posted, "posted work is done");
    here.check(timed, "timers run");
    handler.released = true;
    wait(20 * ms);
    proactor.stop();
    threads.clear();
  });
}

INSTANTIATE_TEST_SUITE_P(Threads, EndlessHandler, testing::Values(2U, 3U));

// The strand was entered after the results were taken, by whichever thread was faster.
TEST(Regression, AStrandTookPostedWorkInAnyOrder) {
  in_many_schedules(Faults::none(), [](World& here) {
    Proactor proactor{config_of({.engine = "simulated"})};
    Strand strand{proactor};
    constexpr std::uint32_t count = 24;
    struct Shared {
      World& here;
      Proactor& proactor;
      std::vector<Operation> members = std::vector<Operation>(count);
      std::vector<std::uint32_t> order = {};
    } shared{.here = here, .proactor = proactor};
    Operation first;
    first.set_strand(&strand);
    first.set_handler([to = &shared](Operation&) {
      for (Operation& each : to->members) {
        to->here.check(!to->proactor.post(each), "a post is taken");
      }
    });
    for (std::uint32_t i = 0; i < count; ++i) {
      shared.members[i].set_strand(&strand);
      shared.members[i].set_tag(i);
      shared.members[i].set_handler([to = &shared](Operation& self) {
        to->order.push_back(self.tag());
        if (to->order.size() == count) to->proactor.stop();
      });
    }
    here.check(!proactor.post(first), "a post is taken");
    {
      const Thread one{here, [&] { proactor.run(); }};
      const Thread two{here, [&] { proactor.run(); }};
      const Thread three{here, [&] { proactor.run(); }};
    }
    here.check(std::is_sorted(shared.order.begin(), shared.order.end()),
               "the order of posting is kept");
  });
}

// A read that had seen its handle open before it waited for the mutex, which another thread's close
// held.
TEST(Regression, ReadOvertakesAClose) {
  in_many_schedules(Faults::none(), [](World& here) {
    Proactor proactor{config_of({.engine = "simulated", .mode = Mode::shared})};
    int fds[2];
    here.check(sim::system().socketpair(0, 0, 0, fds) == 0, "a pair opens");
    Handle* const handle = proactor.adopt(fds[0], HandleKind::stream_socket).value();
    const StreamSocket peer = StreamSocket::adopt(proactor, fds[1]).value();
    char byte = 0;
    Operation reads[2];
    for (Operation& read : reads) {
      read.prepare(OperationKind::read_stream, handle);
      read.set_buffer(MutableBuffer{&byte, 1});
    }
    // Later reads take the fast path.
    here.check(!proactor.start(reads[0]), "a read starts");
    here.check(sim::system().write(fds[1], "x", 1) == 1, "a byte is sent");
    while (reads[0].is_pending()) proactor.run_one();
    Operation close;
    close.prepare(OperationKind::close, handle);
    {
      const Thread closes{here, [&] { here.check(!proactor.start(close), "the close starts"); }};
      const Thread starts{here, [&] { static_cast<void>(proactor.start(reads[1])); }};
    }
    while (close.is_pending()) {
      here.check(proactor.run_one() == 1, "the close is complete");
    }
    here.check(!reads[1].is_pending(), "a close is complete after the operations of its handle");
  });
}

// A handle that two engines knew, each of which only its leader may call. The leader of the first
// detached it there and went to wait, while the second had no leader: the close never completed.
TEST(Regression, HandleOfTwoEnginesOfTheirLeadersOnly) {
  in_many_schedules(Faults::none(), [](World& here) {
    here.traits.start_from_any_thread = false;
    Config config = config_of(
        {.operations = {OperationKind::write_stream}, .engine = "simulated", .mode = Mode::shared});
    config.processors.push_back(
        {.operations = {OperationKind::read_stream}, .engine = "simulated", .mode = Mode::shared});
    struct End {
      Handle* handle = nullptr;
      char byte = 0;
      Operation write;
      Operation read;
      Operation close;
    };
    std::vector<End> ends(8);
    Proactor proactor{config};
    for (std::size_t i = 0; i < ends.size(); i += 2) {
      int fds[2];
      here.check(sim::system().socketpair(0, 0, 0, fds) == 0, "a pair opens");
      ends[i].handle = proactor.adopt(fds[0], HandleKind::stream_socket).value();
      ends[i + 1].handle = proactor.adopt(fds[1], HandleKind::stream_socket).value();
    }
    const Thread runs{here, [&] { proactor.run(); }};
    const auto all_are_over = [&](Operation End::* which) {
      const std::int64_t until = here.scheduler().now() + 1'000 * ms;
      const auto pends = [which](End& end) { return (end.*which).is_pending(); };
      while (std::ranges::any_of(ends, pends) && here.scheduler().now() < until) {
        here.scheduler().work(ms / 10);
      }
      return std::ranges::none_of(ends, pends);
    };
    // Every second one is known to both engines: while the leader closes one of the others, the
    // interrupt that announces the next is used up.
    for (std::size_t i = 0; i < ends.size(); ++i) {
      End& end = ends[i];
      end.write.prepare(OperationKind::write_stream, end.handle);
      end.write.set_buffer(ConstBuffer{"w", 1});
      here.check(!proactor.start(end.write), "a write starts");
      if (i % 2 == 0) continue;
      end.read.prepare(OperationKind::read_stream, end.handle);
      end.read.set_buffer(MutableBuffer{&end.byte, 1});
      here.check(!proactor.start(end.read), "a read starts");
    }
    here.check(all_are_over(&End::write) && all_are_over(&End::read), "each byte comes");
    for (End& end : ends) {
      end.close.prepare(OperationKind::close, end.handle);
      here.check(!proactor.start(end.close), "the close starts");
      here.scheduler().work(here.random.between(0, 1'000));
    }
    here.check(all_are_over(&End::close), "each close completes");
    proactor.stop();
  });
}

}  // namespace
}  // namespace baton
