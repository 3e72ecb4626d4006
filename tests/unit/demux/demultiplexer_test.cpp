// The Demultiplexer alone: its cost, and that edge, one-shot and level reports look the same to its
// user.
#include "demux/demultiplexer.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "baton/log.hpp"
#include "baton/reactor.hpp"
#include "demux/registry.hpp"
#include "fake_strategies.hpp"
#include "support/child.hpp"
#include "support/counting_system.hpp"
#include "support/descriptors.hpp"
#include "support/fork_at_rest.h"
#include "support/patience.hpp"
#include "support/sleeping_thread.hpp"

namespace baton::test {
namespace {

using demux::Demultiplexer;
using demux::Options;
using demux::Watch;

struct Lines : Log {
  void write(LogLevel, std::string_view, std::string_view message) noexcept override {
    text += std::string(message) + "\n";
  }
  std::string text;
};

Result<std::unique_ptr<Demultiplexer>, Failure> open(Options options) {
  add_fake_strategies();
  options.system = &counting_system();
  if (options.descriptors_max == 0) options.descriptors_max = 64;
  return Demultiplexer::open(options);
}

std::unique_ptr<Demultiplexer> opened(std::string_view wait, std::string_view interrupt = "auto") {
  auto demux = open({.wait = wait, .interrupt = interrupt, .one_thread_waits = true});
  EXPECT_TRUE(demux.has_value()) << demux.error().reason;
  return demux ? std::move(*demux) : nullptr;
}

Watch watch(Demultiplexer& demux, std::uint32_t index, Interest interest) {
  std::error_code error;
  const Watch answer = demux.watch(index, interest, error);
  EXPECT_EQ(answer == Watch::failed, static_cast<bool>(error)) << error.message();
  return answer;
}

std::vector<Report> wait(Demultiplexer& demux, Deadline deadline = Deadline::immediately()) {
  std::vector<Report> reports(16);
  bool interrupted = false;
  reports.resize(demux.wait(reports, deadline, interrupted));
  return reports;
}

std::vector<Report> wait_long(Demultiplexer& demux) { return wait(demux, at_last()); }

// -- opening --------------------------------------------------------------------------------------

TEST(demux_open, auto_takes_the_first_that_opens) {
  auto demux = opened("auto");
  EXPECT_EQ(demux->info().name, "epoll");
  EXPECT_EQ(demux->interrupt_name(), "eventfd");
}

TEST(demux_open, auto_goes_on_where_one_is_missing) {
  add_fake_strategies();
  os::System system = os::real_system();
  system.epoll_create1 = [](int) {
    errno = ENOSYS;
    return -1;
  };
  system.eventfd = [](unsigned, int) {
    errno = ENOSYS;
    return -1;
  };
  std::vector<std::string> lines;
  Options options;
  options.system = &system;
  options.explain = [&](std::string_view line) { lines.emplace_back(line); };
  auto demux = Demultiplexer::open(options);
  ASSERT_TRUE(demux.has_value());
  EXPECT_EQ((*demux)->info().name, "poll");
  EXPECT_EQ((*demux)->interrupt_name(), "pipe");
  EXPECT_EQ(lines.size(), 2U);

  options.wait = "epoll";
  EXPECT_FALSE(Demultiplexer::open(options).has_value()) << "a name is not replaced";
  options.wait = "auto";
  options.interrupt = "eventfd";
  EXPECT_FALSE(Demultiplexer::open(options).has_value()) << "a name is not replaced";
}

TEST(demux_open, without_any_interrupt_it_says_so) {
  os::System system = os::real_system();
  system.epoll_create1 = [](int) {
    errno = EMFILE;
    return -1;
  };
  system.eventfd = [](unsigned, int) {
    errno = EMFILE;
    return -1;
  };
  system.pipe2 = [](int*, int) {
    errno = EMFILE;
    return -1;
  };
  system.sigaction = [](int, const struct sigaction*, struct sigaction*) {
    errno = EINVAL;
    return -1;
  };
  Options options;
  options.system = &system;  // and there is nowhere to report it
  auto demux = Demultiplexer::open(options);
  ASSERT_FALSE(demux.has_value());
  EXPECT_NE(demux.error().reason.find("interrupt=signal"), std::string::npos)
      << demux.error().reason;
}

TEST(demux_open, an_unknown_name_lists_the_known_ones) {
  for (const Options& options : {Options{.wait = "epol"}, Options{.interrupt = "eventfb"}}) {
    auto demux = open(options);
    ASSERT_FALSE(demux.has_value());
    EXPECT_EQ(demux.error().code, errc::unknown_name);
    const bool waits = options.wait != "auto";
    for (const char* name : {"auto", waits ? "epoll" : "eventfd", waits ? "select" : "signal"}) {
      EXPECT_NE(demux.error().reason.find(name), std::string::npos) << demux.error().reason;
    }
  }
}

TEST(demux_open, an_unfit_interrupt_is_replaced_visibly) {
  std::string line;
  auto demux = open(
      {.wait = "fake_unmasked", .interrupt = "signal", .explain = [&](auto said) { line = said; }});
  ASSERT_TRUE(demux.has_value());
  EXPECT_EQ((*demux)->interrupt_name(), "eventfd");
  EXPECT_EQ(line.rfind("interrupt: signal -> eventfd: ", 0), 0U) << line;
}

TEST(demux_open, a_wait_that_needs_one_thread_gets_it_or_says_so) {
  EXPECT_FALSE(open({.wait = "fake_pinned"}).has_value());
  EXPECT_TRUE(open({.wait = "fake_pinned", .one_thread_waits = true}).has_value());
}

Result<std::unique_ptr<Reactor>, Failure> reactor_that_waits_in_one_thread() {
  add_fake_strategies();
  ReactorConfig config;
  config.wait = "fake_pinned";
  return Reactor::open(config);
}

TEST(demux_open, a_reactor_whose_wait_stays_in_one_thread_refuses_others) {
  const auto opened = reactor_that_waits_in_one_thread();
  ASSERT_TRUE(opened.has_value()) << opened.error().reason;
  Reactor& reactor = **opened;
  ASSERT_TRUE(reactor.handle_events(Deadline::immediately()).has_value());
  std::thread([&] {
    EXPECT_EQ(reactor.handle_events(Deadline::immediately()).error(), errc::wrong_thread);
  }).join();
  EXPECT_TRUE(reactor.handle_events(Deadline::immediately()).has_value());
}

// The thread of the parent that has to wait does not exist in the child.
TEST(demux_open, a_reactor_in_a_child_of_fork_waits_in_another_thread) {
  const auto opened = reactor_that_waits_in_one_thread();
  ASSERT_TRUE(opened.has_value()) << opened.error().reason;
  Reactor& reactor = **opened;
  ASSERT_TRUE(reactor.handle_events(Deadline::immediately()).has_value());
  const pid_t child = fork_at_rest();
  if (child == 0) {
    ::_exit(reactor.reopen() && reactor.handle_events(Deadline::immediately()) ? 0 : 1);
  }
  EXPECT_EQ(status_of(child), 0);
}

// When no descriptor below FD_SETSIZE is left, an interrupt strategy without a descriptor still
// works.
TEST(demux_open, select_among_high_numbers_is_interrupted_by_signal) {
  add_fake_strategies();
  if (!allow_descriptors(1200)) GTEST_SKIP() << "RLIMIT_NOFILE";
  os::System system = os::real_system();
  system.eventfd = [](unsigned initial, int flags) {
    const Fd low(os::real_system().eventfd(initial, flags));
    return ::fcntl(low.get(), F_DUPFD_CLOEXEC, 1024);
  };
  system.pipe2 = [](int* ends, int flags) {
    if (os::real_system().pipe2(ends, flags) != 0) return -1;
    for (int i = 0; i < 2; ++i) ends[i] = ::fcntl(Fd(ends[i]).get(), F_DUPFD_CLOEXEC, 1024);
    return 0;
  };
  Options options;
  options.system = &system;
  options.wait = "select";
  auto demux = Demultiplexer::open(options);
  ASSERT_TRUE(demux.has_value()) << demux.error().reason;
  EXPECT_EQ((*demux)->interrupt_name(), "signal");
}

// -- cost -----------------------------------------------------------------------------------------

TEST(demux_cost, a_registration_stands) {
  const SocketPair pair;
  system_calls().clear();
  auto demux = opened("epoll");
  EXPECT_EQ(system_calls().epoll_ctl, 1U) << "the interrupter";
  ASSERT_FALSE(demux->attach(5, pair.ours.get()));
  EXPECT_EQ(system_calls().epoll_ctl, 1U) << "attach registers nothing";
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(watch(*demux, 5, Interest::in), Watch::armed);
    pair.make_readable();
    ASSERT_EQ(wait_long(*demux).size(), 1U);
    EXPECT_EQ(pair.drain(), 1);
  }
  EXPECT_EQ(system_calls().epoll_ctl, 2U) << "ten reads, one registration";
  EXPECT_EQ(watch(*demux, 5, Interest::out), Watch::armed);
  EXPECT_EQ(system_calls().epoll_ctl, 3U);
  demux->drop(5, Interest::out);
  EXPECT_EQ(system_calls().epoll_ctl, 4U);
  demux->drop(5, Interest::out);
  EXPECT_EQ(system_calls().epoll_ctl, 4U) << "nothing to drop";
  demux->detach(5);
  EXPECT_EQ(system_calls().epoll_ctl, 5U);
}

// A watch that covers more than the one that stands adds the rest.
TEST(demux_cost, a_watch_of_more_adds_what_is_missing) {
  const SocketPair pair;
  script() = {};
  auto demux = opened("scripted");
  ASSERT_FALSE(demux->attach(5, pair.ours.get()));
  for (const Interest interest : {Interest::in, Interest::both}) {
    EXPECT_EQ(watch(*demux, 5, interest), Watch::armed);
  }
  ASSERT_EQ(script().calls.size(), 2U);
  EXPECT_EQ(script().calls[1].verb, 'm');
  EXPECT_EQ(script().calls[1].interest, Interest::both);
  demux->detach(5);
}

TEST(demux_cost, never_watched_never_registered) {
  const SocketPair pair;
  auto demux = opened("epoll");
  system_calls().clear();
  ASSERT_FALSE(demux->attach(5, pair.ours.get()));
  demux->detach(5);
  EXPECT_EQ(system_calls().epoll_ctl, 0U);
}

TEST(demux_cost, dropped_is_not_registered) {
  const SocketPair pair;
  auto demux = opened("epoll");
  ASSERT_FALSE(demux->attach(5, pair.ours.get()));
  watch(*demux, 5, Interest::in);
  demux->drop(5, Interest::in);
  system_calls().clear();
  demux->detach(5);
  EXPECT_EQ(system_calls().epoll_ctl, 0U);
}

TEST(demux_cost, one_thread_takes_no_lock) {
  const SocketPair pair;
  auto demux = open({.wait = "epoll", .concurrent = false});
  ASSERT_TRUE(demux.has_value());
  system_calls().clear();
  ASSERT_FALSE((*demux)->attach(5, pair.ours.get()));
  watch(**demux, 5, Interest::in);
  pair.make_readable();
  EXPECT_EQ(wait_long(**demux).size(), 1U);
  (*demux)->drop(5, Interest::in);
  (*demux)->detach(5);
  EXPECT_EQ(system_calls().locks, 0U);
}

// Each write reports it again, so no read is needed.
TEST(demux_cost, an_interrupt_is_a_write_and_a_wait) {
  auto demux = opened("epoll", "eventfd");
  std::array<Report, 4> reports;
  system_calls().clear();
  for (std::uint64_t i = 1; i <= 5; ++i) {
    demux->interrupt();
    demux->interrupt();
    EXPECT_EQ(system_calls().writes, i) << "two interrupts are as good as one";
    bool interrupted = false;
    demux->wait(reports, at_last(), interrupted);
    EXPECT_TRUE(interrupted);
    demux->wait(reports, Deadline::immediately(), interrupted);
    EXPECT_FALSE(interrupted);
  }
  EXPECT_EQ(system_calls().reads, 0U);
  EXPECT_EQ(system_calls().waits, 10U);
}

TEST(demux_cost, an_edge_is_registered_once_for_both) {
  const SocketPair pair;
  pair.fill();
  script() = {.trigger = Trigger::edge};
  auto demux = opened("scripted");
  ASSERT_FALSE(demux->attach(5, pair.ours.get()));
  for (int i = 0; i < 3; ++i) {
    watch(*demux, 5, Interest::in);
    watch(*demux, 5, Interest::out);
    demux->drop(5, Interest::both);
  }
  ASSERT_EQ(script().calls.size(), 1U);
  EXPECT_EQ(script().calls[0].verb, 'a');
  EXPECT_EQ(script().calls[0].interest, Interest::all);
  demux->detach(5);
  EXPECT_EQ(script().calls.size(), 2U);
}

// Only unread data that is not asked for needs another look from time to time.
TEST(demux_cost, without_unread_data_select_waits_without_a_limit) {
  static std::vector<bool> limited;
  os::System system = os::real_system();
  system.pselect = [](int end, fd_set* in, fd_set* out, fd_set* urgent, const timespec* limit,
                      const sigset_t* mask) {
    limited.push_back(limit != nullptr);
    const timespec at_once{};
    return os::real_system().pselect(end, in, out, urgent, &at_once, mask);
  };
  limited.clear();
  const auto strategy = *demux::find_wait_strategy("select")->factory({.system = &system});
  std::vector<Report> reports(1);
  const auto waits = [&] {
    EXPECT_TRUE(strategy->wait(reports, Deadline::never(), nullptr).has_value());
    return limited.back();
  };
  for (const Interest interest : {Interest::out, Interest::urgent}) {
    const SocketPair pair;
    pair.fill();
    ASSERT_FALSE(strategy->add(pair.ours.get(), interest, {1, 1}));
    EXPECT_FALSE(waits());
    EXPECT_FALSE(waits());
    pair.make_readable();
    EXPECT_FALSE(waits()) << "it finds the data";
    EXPECT_TRUE(waits());
    ASSERT_FALSE(strategy->modify(pair.ours.get(), Interest::both, {1, 1}));
    EXPECT_FALSE(waits());
    EXPECT_EQ(pair.drain(), 1);
    ASSERT_FALSE(strategy->modify(pair.ours.get(), interest, {1, 1}));
    EXPECT_FALSE(waits());
    EXPECT_FALSE(waits());
    pair.make_readable();
    EXPECT_FALSE(waits());
    EXPECT_TRUE(waits());
    EXPECT_FALSE(strategy->remove(pair.ours.get()));
    EXPECT_FALSE(waits());
  }
}

// A borrowed descriptor is its owner's as soon as nothing is watched.
TEST(demux_cost, a_dropped_watch_is_not_registered) {
  for (const Trigger trigger : {Trigger::level, Trigger::edge, Trigger::one_shot}) {
    const SocketPair pair;
    pair.fill();
    script() = {.trigger = trigger};
    auto demux = opened("scripted");
    ASSERT_FALSE(demux->attach(5, pair.ours.get()));
    watch(*demux, 5, Interest::in);
    watch(*demux, 5, Interest::out);
    demux->let_go(5, Interest::in);
    EXPECT_NE(script().calls.back().verb, 'r') << "the other direction is still watched";
    demux->let_go(5, Interest::out);
    EXPECT_EQ(script().calls.back().verb, 'r');
    watch(*demux, 5, Interest::in);
    EXPECT_EQ(script().calls.back().verb, 'a') << "anew";
    demux->detach(5);
  }
}

// -- failures -------------------------------------------------------------------------------------

TEST(demux_failure, an_index_beyond_the_table) {
  const SocketPair pair;
  auto demux = opened("epoll");
  EXPECT_EQ(demux->attach(64, pair.ours.get()), errc::no_free_handles);
}

TEST(demux_failure, the_strategys_error_is_the_watchs) {
  const SocketPair pair;
  script() = {};
  auto demux = opened("scripted");
  ASSERT_FALSE(demux->attach(5, pair.ours.get()));
  script().add_answer = std::make_error_code(std::errc::operation_not_permitted);
  std::error_code error;
  EXPECT_EQ(demux->watch(5, Interest::in, error), Watch::failed);
  EXPECT_EQ(error, std::errc::operation_not_permitted);
  script().add_answer = {};
  EXPECT_EQ(demux->watch(5, Interest::in, error), Watch::armed);
  EXPECT_FALSE(error);
  demux->detach(5);
}

// Files without readiness are no failure; and one that lasts does not fill the log.
TEST(demux_failure, a_descriptor_that_cannot_be_watched_has_a_line_in_the_log) {
  Lines log;
  const SocketPair pair;
  script() = {};
  auto demux = open({.log = &log, .wait = "scripted", .one_thread_waits = true});
  ASSERT_TRUE(demux.has_value()) << demux.error().reason;
  ASSERT_FALSE((*demux)->attach(5, pair.ours.get()));
  for (const std::errc answer : {std::errc::operation_not_permitted, std::errc::not_enough_memory,
                                 std::errc::not_enough_memory}) {
    script().add_answer = std::make_error_code(answer);
    std::error_code error;
    EXPECT_EQ((*demux)->watch(5, Interest::in, error), Watch::failed);
    EXPECT_EQ(error, answer);
  }
  script().add_answer = {};
  EXPECT_EQ(log.text,
            "watching a descriptor by scripted fails: Cannot allocate memory; "
            "its operations end with that\n");
  (*demux)->detach(5);
}

// A one-shot report of one direction ends the watch of both, and the other cannot be watched again.
TEST(demux_failure, a_direction_that_cannot_be_armed_again_is_not_forgotten) {
  Lines log;
  const SocketPair pair;
  script() = {.trigger = Trigger::one_shot};
  auto demux = open({.log = &log, .wait = "scripted", .one_thread_waits = true});
  ASSERT_TRUE(demux.has_value()) << demux.error().reason;
  ASSERT_FALSE((*demux)->attach(5, pair.ours.get()));
  std::error_code error;
  ASSERT_EQ((*demux)->watch(5, Interest::both, error), Watch::armed);
  script().modify_answer = std::make_error_code(std::errc::not_enough_memory);
  script().reports = {{script().calls.back().token, Interest::in}};
  const auto ready = wait(**demux);
  ASSERT_EQ(ready.size(), 1U);
  EXPECT_EQ(ready[0].ready, Interest::both) << "the client tries both";
  EXPECT_EQ((*demux)->watch(5, Interest::out, error), Watch::failed) << "and hears why";
  EXPECT_EQ(error, std::errc::not_enough_memory);
  EXPECT_NE(log.text.find("watching a descriptor by scripted fails"), std::string::npos);
  script().reports = {{{UINT32_MAX, 1}, Interest::in}};
  EXPECT_TRUE(wait(**demux).empty());
  EXPECT_NE(log.text.find("watching the interrupter by scripted fails"), std::string::npos);
  script() = {};
  (*demux)->detach(5);
}

TEST(demux_failure, a_failed_wait_is_no_report_and_counted) {
  Lines log;
  script() = {};
  auto demux = *open({.log = &log, .wait = "scripted", .one_thread_waits = true});
  script().wait_answer = std::make_error_code(std::errc::not_enough_memory);
  for (unsigned i = 1; i <= 3; ++i) {
    system_calls().clear();
    EXPECT_TRUE(wait(*demux).empty());
    EXPECT_EQ(demux->failed_waits(), i);
    EXPECT_EQ(system_calls().waits, 1U) << "a pause, so that a lasting failure costs no CPU";
  }
  EXPECT_FALSE(demux->broken()) << "it may be mended";
  EXPECT_EQ(log.text,
            "waiting by scripted fails: Cannot allocate memory; it is tried again after a pause\n")
      << "one line, however long it lasts";
  script() = {};
}

// The program has closed the descriptor of the strategy. Its number is free, or names another file.
TEST(demux_failure, a_wait_without_its_descriptor_is_broken) {
  static int answer;
  os::System system = os::real_system();
  system.epoll_pwait = [](int, epoll_event*, int, int, const sigset_t*) {
    errno = answer;
    return -1;
  };
  system.ppoll = [](pollfd*, nfds_t, const timespec*, const sigset_t*) { return 0; };
  for (const auto& [error, broken] : {std::pair{ENOMEM, false}, {EBADF, true}, {EINVAL, true}}) {
    answer = error;
    auto demux = *Demultiplexer::open({.system = &system, .wait = "epoll"});
    EXPECT_TRUE(wait(*demux).empty());
    EXPECT_EQ(static_cast<bool>(demux->broken()), broken) << error;
  }
}

// No descriptor ends the pause, so an interrupt has to come as a signal.
TEST(demux_failure, a_signal_may_interrupt_the_pause) {
  static std::vector<bool> let_in;
  os::System system = os::real_system();
  system.epoll_pwait = [](int, epoll_event*, int, int, const sigset_t*) {
    errno = ENOMEM;
    return -1;
  };
  system.ppoll = [](pollfd*, nfds_t, const timespec*, const sigset_t* mask) {
    let_in.push_back(mask != nullptr);
    return 0;
  };
  let_in.clear();
  for (const char* interrupt : {"signal", "eventfd"}) {
    auto demux = *Demultiplexer::open({.system = &system, .wait = "epoll", .interrupt = interrupt});
    EXPECT_TRUE(wait(*demux).empty());
  }
  EXPECT_EQ(let_in, (std::vector{true, false}));
}

// The pause lasts as long as the wait at most: a millisecond, then longer ones.
TEST(demux_failure, a_failed_wait_pauses_until_its_deadline_at_most) {
  static std::int64_t paused_ns;
  os::System system = os::real_system();
  system.monotonic_ns = [] { return std::int64_t{1'000'000'000}; };
  system.ppoll = [](pollfd*, nfds_t, const timespec* pause, const sigset_t*) {
    paused_ns = pause->tv_nsec;
    return 0;
  };
  script() = {};
  add_fake_strategies();
  auto demux = *Demultiplexer::open({.system = &system, .wait = "scripted"});
  script().wait_answer = std::make_error_code(std::errc::not_enough_memory);
  const auto pause_until = [&](Deadline deadline) {
    paused_ns = -1;
    std::vector<Report> reports(1);
    EXPECT_EQ(demux->wait_raw(reports, deadline), 0U);
    return paused_ns;
  };
  EXPECT_EQ(pause_until(Deadline::never()), 1'000'000);
  EXPECT_EQ(pause_until(Deadline::at_ns(1'000'000'700)), 700);
  EXPECT_EQ(pause_until(Deadline::immediately()), 0);
  EXPECT_EQ(pause_until(Deadline::never()), 8'000'000);
  script() = {};
}

// -- stale reports --------------------------------------------------------------------------------

TEST(demux_stale, a_report_of_a_former_life_is_dropped_and_counted) {
  const SocketPair first;
  const SocketPair second;
  script() = {};
  auto demux = opened("scripted");
  ASSERT_FALSE(demux->attach(5, first.ours.get()));
  watch(*demux, 5, Interest::in);
  const Token old = script().calls.back().token;
  demux->detach(5);
  script().reports = {{old, Interest::in}};
  EXPECT_TRUE(wait(*demux).empty());
  EXPECT_EQ(demux->stale_reports(), 1U);

  ASSERT_FALSE(demux->attach(5, second.ours.get()));
  watch(*demux, 5, Interest::in);
  const Token now = script().calls.back().token;
  EXPECT_NE(now, old);
  script().reports = {{old, Interest::in}, {now, Interest::in}};
  const auto reports = wait(*demux);
  ASSERT_EQ(reports.size(), 1U);
  EXPECT_EQ(reports[0].token, now);
  EXPECT_EQ(demux->stale_reports(), 2U);
  demux->detach(5);
}

TEST(demux_stale, unwatched_changes_are_not_shown) {
  const SocketPair pair;
  script() = {};
  auto demux = opened("scripted");
  ASSERT_FALSE(demux->attach(5, pair.ours.get()));
  watch(*demux, 5, Interest::in);
  const Token token = script().calls.back().token;
  script().reports = {{token, Interest::both}};
  const auto reports = wait(*demux);
  ASSERT_EQ(reports.size(), 1U);
  EXPECT_EQ(reports[0].ready, Interest::in) << "hang-up is both; cut down to what is watched";
  script().reports = {{token, Interest::out}};
  EXPECT_TRUE(wait(*demux).empty());
  EXPECT_EQ(demux->stale_reports(), 0U);
  demux->detach(5);
}

TEST(demux_stale, a_reused_number_starts_anew) {
  for (const char* name : {"epoll", "poll", "select", "rt_signals", "fake_edge", "fake_one_shot"}) {
    SCOPED_TRACE(name);
    auto demux = opened(name);
    for (int round = 0; round < 20; ++round) {
      const SocketPair pair;  // the same two numbers each time
      ASSERT_FALSE(demux->attach(5, pair.ours.get()));
      if (watch(*demux, 5, Interest::in) == Watch::try_now) watch(*demux, 5, Interest::in);
      EXPECT_TRUE(wait(*demux).empty());
      pair.make_readable();
      EXPECT_EQ(wait_long(*demux).size(), 1U);
      demux->detach(5);
    }
  }
}

// -- edges ----------------------------------------------------------------------------------------

class demux_edge : public testing::Test {
 protected:
  void SetUp() override {
    demux_ = opened("fake_edge");
    ASSERT_FALSE(demux_->attach(5, pair_.ours.get()));
    EXPECT_EQ(watch(*demux_, 5, Interest::in), Watch::armed);
    EXPECT_TRUE(wait(*demux_).empty());  // it is writable, but not watched for that
  }
  void TearDown() override { demux_->detach(5); }

  SocketPair pair_;
  std::unique_ptr<Demultiplexer> demux_;
};

TEST_F(demux_edge, readiness_of_the_other_direction_is_remembered) {
  EXPECT_EQ(watch(*demux_, 5, Interest::out), Watch::try_now);
  pair_.fill();
  EXPECT_EQ(watch(*demux_, 5, Interest::out), Watch::armed);
}

TEST_F(demux_edge, readiness_before_the_watch_is_not_lost) {
  const SocketPair other;
  other.make_readable();
  ASSERT_FALSE(demux_->attach(6, other.ours.get()));
  EXPECT_EQ(watch(*demux_, 6, Interest::in), Watch::try_now);
  demux_->detach(6);
}

TEST_F(demux_edge, an_unwatched_edge_is_not_lost) {
  demux_->drop(5, Interest::in);
  pair_.make_readable();
  EXPECT_TRUE(wait(*demux_).empty());
  EXPECT_EQ(watch(*demux_, 5, Interest::in), Watch::try_now);
}

TEST_F(demux_edge, an_unwanted_report_is_not_lost) {
  pair_.make_readable();
  ASSERT_EQ(wait_long(*demux_).size(), 1U);
  demux_->drop(5, Interest::in);
  EXPECT_EQ(watch(*demux_, 5, Interest::in), Watch::try_now);
}

// What cannot be asked may be ready.
TEST_F(demux_edge, readiness_that_cannot_be_asked_is_not_lost) {
  os::System system = os::real_system();
  system.ppoll = [](pollfd*, nfds_t, const timespec*, const sigset_t*) {
    errno = ENOMEM;
    return -1;
  };
  const SocketPair other;
  auto demux = *Demultiplexer::open({.system = &system, .wait = "fake_edge"});
  ASSERT_FALSE(demux->attach(6, other.ours.get()));
  EXPECT_EQ(watch(*demux, 6, Interest::in), Watch::try_now);
  demux->detach(6);
}

// A hang-up alone: no input, no room. It is told to those that wait for urgent data, too.
TEST_F(demux_edge, a_hang_up_before_the_watch_is_not_lost) {
  for (const Interest interest : {Interest::in, Interest::urgent}) {
    int ends[2];
    ASSERT_EQ(::pipe2(ends, O_NONBLOCK | O_CLOEXEC), 0);
    const Fd reader(ends[0]);
    ::close(ends[1]);
    ASSERT_FALSE(demux_->attach(6, reader.get()));
    EXPECT_EQ(watch(*demux_, 6, interest), Watch::try_now);
    demux_->detach(6);
  }
}

TEST_F(demux_edge, a_hang_up_is_told_to_those_that_wait_for_urgent_data) {
  SocketPair other;
  ASSERT_FALSE(demux_->attach(6, other.ours.get()));
  EXPECT_EQ(watch(*demux_, 6, Interest::urgent), Watch::armed);
  EXPECT_TRUE(wait(*demux_).empty());
  other.peer.close();
  const auto reports = wait_long(*demux_);
  ASSERT_EQ(reports.size(), 1U);
  EXPECT_EQ(reports[0].ready, Interest::urgent);
  demux_->detach(6);
}

// The owner of a descriptor may close it before the next watch. Then no edge will come.
TEST_F(demux_edge, a_descriptor_that_was_closed_is_tried) {
  SocketPair other;
  other.make_readable();
  ASSERT_FALSE(demux_->attach(6, other.ours.get(), Ownership::borrowed));
  EXPECT_EQ(watch(*demux_, 6, Interest::in), Watch::try_now);
  demux_->drop(6, Interest::in);
  other.ours.close();
  EXPECT_EQ(watch(*demux_, 6, Interest::in), Watch::try_now);
  demux_->detach(6);
}

// A client that does not read to the end gets another report, because the edge will not repeat.
TEST_F(demux_edge, unread_bytes_are_not_lost) {
  for (int i = 0; i < 5; ++i) pair_.make_readable();
  ASSERT_EQ(wait_long(*demux_).size(), 1U);
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(watch(*demux_, 5, Interest::in), Watch::try_now);
    char byte = 0;
    ASSERT_EQ(::read(pair_.ours.get(), &byte, 1), 1);
  }
  EXPECT_EQ(watch(*demux_, 5, Interest::in), Watch::armed);
}

TEST_F(demux_edge, trying_makes_the_check_needless) {
  pair_.make_readable();
  ASSERT_EQ(wait_long(*demux_).size(), 1U);
  demux_->trying(5, Interest::in);
  EXPECT_EQ(pair_.drain(), 1);
  system_calls().clear();
  EXPECT_EQ(watch(*demux_, 5, Interest::in), Watch::armed);
  EXPECT_EQ(system_calls().waits, 0U);
  // An edge after the attempt counts.
  demux_->trying(5, Interest::in);
  EXPECT_EQ(pair_.drain(), 0);
  demux_->drop(5, Interest::in);
  pair_.make_readable();
  EXPECT_TRUE(wait(*demux_).empty());
  EXPECT_EQ(watch(*demux_, 5, Interest::in), Watch::try_now);
}

TEST_F(demux_edge, sticky_interrupts) {
  std::array<Report, 4> reports;
  for (int i = 0; i < 5; ++i) {
    demux_->interrupt();
    demux_->interrupt();
    bool interrupted = false;
    demux_->wait(reports, at_last(), interrupted);
    EXPECT_TRUE(interrupted);
  }
}

// -- one shot -------------------------------------------------------------------------------------

TEST(demux_one_shot, watch_arms_again) {
  const SocketPair pair;
  auto demux = opened("fake_one_shot");
  ASSERT_FALSE(demux->attach(5, pair.ours.get()));
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(watch(*demux, 5, Interest::in), Watch::armed);
    pair.make_readable();
    ASSERT_EQ(wait_long(*demux).size(), 1U);
    EXPECT_TRUE(wait(*demux).empty());
    EXPECT_EQ(pair.drain(), 1);
  }
  demux->detach(5);
}

TEST(demux_one_shot, the_other_direction_stays_armed) {
  const SocketPair pair;
  auto demux = opened("fake_one_shot");
  ASSERT_FALSE(demux->attach(5, pair.ours.get()));
  EXPECT_EQ(watch(*demux, 5, Interest::both), Watch::armed);
  auto reports = wait_long(*demux);
  ASSERT_EQ(reports.size(), 1U);
  EXPECT_EQ(reports[0].ready, Interest::out);
  EXPECT_TRUE(wait(*demux).empty());
  pair.make_readable();
  reports = wait_long(*demux);
  ASSERT_EQ(reports.size(), 1U);
  EXPECT_EQ(reports[0].ready, Interest::in);
  demux->detach(5);
}

// The report has disarmed it, and it is registered still.
TEST(demux_one_shot, a_reported_descriptor_that_is_dropped_is_not_registered) {
  const SocketPair pair;
  script() = {.trigger = Trigger::one_shot};
  auto demux = opened("scripted");
  ASSERT_FALSE(demux->attach(5, pair.ours.get()));
  EXPECT_EQ(watch(*demux, 5, Interest::in), Watch::armed);
  script().reports = {{script().calls.back().token, Interest::in}};
  ASSERT_EQ(wait(*demux).size(), 1U);
  demux->drop(5, Interest::in);
  EXPECT_EQ(script().calls.back().verb, 'r');
  demux->detach(5);
}

TEST(demux_one_shot, the_interrupter_is_armed_again) {
  auto demux = opened("fake_one_shot");
  std::array<Report, 4> reports;
  for (int i = 0; i < 5; ++i) {
    demux->interrupt();
    bool interrupted = false;
    demux->wait(reports, at_last(), interrupted);
    EXPECT_TRUE(interrupted);
    demux->wait(reports, Deadline::immediately(), interrupted);
    EXPECT_FALSE(interrupted);
  }
}

// -- a wait whose set is fixed --------------------------------------------------------------------

class demux_running_wait : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(, demux_running_wait,
                         testing::Values("epoll", "poll", "select", "rt_signals", "fake_edge",
                                         "fake_one_shot"),
                         [](const auto& parameter) { return std::string(parameter.param); });

TEST_P(demux_running_wait, sees_what_is_watched_meanwhile) {
  const SocketPair pair;
  auto demux = opened(GetParam());
  ASSERT_FALSE(demux->attach(5, pair.ours.get()));
  system_calls().clear();
  std::atomic<bool> entered{false};
  std::atomic<bool> reported{false};
  WatchedThread waiter([&] {
    entered = true;
    while (!reported) {
      for (const Report& report : wait(*demux, Deadline::never())) {
        reported = reported || report.token.index == 5;
      }
    }
  });
  waiter.until_asleep([&] { return entered.load(); });
  if (watch(*demux, 5, Interest::in) == Watch::try_now) {
    EXPECT_EQ(watch(*demux, 5, Interest::in), Watch::armed);
  }
  pair.make_readable();
  waiter.join();
  EXPECT_TRUE(reported);
  demux->detach(5);
}

// A wait over a fixed set keeps the file open inside the kernel; detach ends that wait, so that the
// close takes effect and the peer sees the end.
TEST_P(demux_running_wait, releases_detached_descriptors) {
  SocketPair pair;
  auto demux = opened(GetParam());
  ASSERT_FALSE(demux->attach(5, pair.ours.get()));
  static_cast<void>(watch(*demux, 5, Interest::in));
  std::atomic<bool> entered{false};
  std::atomic<bool> stop{false};
  WatchedThread waiter([&] {
    entered = true;
    while (!stop) wait(*demux, Deadline::never());
  });
  waiter.until_asleep([&] { return entered.load(); });
  demux->detach(5);
  pair.ours.close();
  pollfd end{};
  end.fd = pair.peer.get();
  end.events = POLLIN;
  EXPECT_EQ(::poll(&end, 1, 10'000), 1);
  stop = true;
  demux->interrupt();
}

// -- descriptor -----------------------------------------------------------------------------------

TEST(demux_descriptor, tells_of_reports_and_interrupts) {
  const SocketPair pair;
  auto demux = opened("epoll");
  ASSERT_FALSE(demux->attach(5, pair.ours.get()));
  watch(*demux, 5, Interest::in);
  pollfd set{};
  set.fd = demux->descriptor();
  set.events = POLLIN;
  ASSERT_GE(set.fd, 0);
  EXPECT_EQ(::poll(&set, 1, 0), 0);
  demux->interrupt();
  EXPECT_EQ(::poll(&set, 1, 10'000), 1);
  EXPECT_TRUE(wait(*demux).empty());
  EXPECT_EQ(::poll(&set, 1, 0), 0);
  pair.make_readable();
  EXPECT_EQ(::poll(&set, 1, 10'000), 1);
  demux->detach(5);
}

TEST(demux_descriptor, none_where_a_signal_would_be_missed) {
  EXPECT_EQ(opened("epoll", "signal")->descriptor(), invalid_handle);
  EXPECT_EQ(opened("poll")->descriptor(), invalid_handle);
}

}  // namespace
}  // namespace baton::test
