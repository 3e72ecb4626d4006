// The interface for users' scenarios: baton/testing/simulation.hpp.
#include <gtest/gtest.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "baton/baton.hpp"
#include "baton/testing/simulation.hpp"

namespace baton::testing {
namespace {

using namespace std::chrono_literals;

/// For the time of one test.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { ::setenv(name, value, 1); }
  ~Variable() { ::unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

Task<void> echo(StreamSocket peer) {
  std::array<char, 64> buffer;
  for (;;) {
    const auto received = co_await peer.read(buffer);
    if (!received || *received == 0) co_return;
    if (!co_await peer.write_all(std::string_view{buffer.data(), *received})) co_return;
  }
}

Task<void> serve(Acceptor acceptor) {
  while (auto peer = co_await acceptor.accept()) acceptor.proactor().spawn(echo(std::move(*peer)));
}

Task<void> ask(Simulation& here, Proactor& proactor, Endpoint server, int& answered) {
  Connector connector{proactor};
  if (auto peer = co_await connector.connect(server).timeout(5s); peer) {
    for (int i = 0; i < 10; ++i) {
      const std::string question = std::to_string(here.random(1'000'000));
      if (!co_await peer->write_all(question).timeout(5s)) break;
      std::string answer(question.size(), '\0');
      if (!co_await peer->read_exactly(answer).timeout(5s)) break;
      here.check(answer == question, "the answer is the question");
      ++answered;
    }
  }
  proactor.stop();
}

/// One client of an echo server; how often it was answered.
int echo_in(Simulation& here, SimulatedLevel level) {
  Proactor proactor{here.config(level)};
  auto acceptor = Acceptor::listen(proactor, Endpoint::loopback(7));
  if (!acceptor) return 0;
  int answered = 0;
  const Endpoint server = acceptor->local_endpoint().value();
  proactor.spawn(serve(std::move(*acceptor)));
  proactor.spawn(ask(here, proactor, server, answered));
  here.start_thread([&] { proactor.run(); });
  proactor.run();
  here.join_threads();
  return answered;
}

class UserSimulation : public ::testing::TestWithParam<SimulatedLevel> {};
INSTANTIATE_TEST_SUITE_P(Levels, UserSimulation,
                         ::testing::Values(SimulatedLevel::operations,
                                           SimulatedLevel::system_calls),
                         [](const auto& level) {
                           return level.param == SimulatedLevel::operations ? "operations"
                                                                            : "system_calls";
                         });

TEST_P(UserSimulation, without_faults_everything_is_answered) {
  const auto result = simulate({.seeds = 20, .faults = false}, [](Simulation& here) {
    here.check(echo_in(here, GetParam()) == 10, "ten answers");
  });
  EXPECT_TRUE(result.ok()) << result.report;
  EXPECT_EQ(result.seeds, 20U);
}

TEST_P(UserSimulation, handlers_of_a_strand_do_not_overlap) {
  const auto result = simulate({.seeds = 20, .faults = false}, [](Simulation& here) {
    Proactor proactor{here.config(GetParam())};
    struct Shared {
      Simulation& here;
      Proactor& proactor;
      Strand strand{proactor};
      int inside = 0;
      int left = 20;
    } shared{here, proactor};
    std::array<Operation, 20> posted;
    for (Operation& operation : posted) {
      operation.set_strand(&shared.strand);
      operation.set_handler([of = &shared](Operation&) {
        of->here.check(++of->inside == 1, "one at a time");
        of->here.check(of->strand.running_in_this_thread(), "in this thread");
        --of->inside;
        if (--of->left == 0) of->proactor.stop();
      });
      here.check(!proactor.post(operation), "it is posted");
    }
    here.start_thread([&] { proactor.run(); });
    proactor.run();
    here.join_threads();
    here.check(shared.left == 0, "all of them");
  });
  EXPECT_TRUE(result.ok()) << result.report;
}

TEST_P(UserSimulation, with_faults_answers_are_right_and_some_are_missing) {
  int complete = 0;
  const auto result = simulate({.seeds = 100}, [&](Simulation& here) {
    if (echo_in(here, GetParam()) == 10) ++complete;
  });
  EXPECT_TRUE(result.ok()) << result.report;
  EXPECT_GT(complete, 0);
  EXPECT_LT(complete, 100);
}

// What the real system refuses must not pass here: a mistake in the program would be found in the
// field.
TEST_P(UserSimulation, a_file_is_read_or_written_only_as_it_was_opened) {
  const auto result = simulate({.seeds = 20}, [](Simulation& here) {
    Proactor proactor{here.config(GetParam())};
    std::array<char, 3> buffer{'a', 'b', 'c'};
    for (const FileFlags flags : {FileFlags::read, FileFlags::write}) {
      auto file = File::open(proactor, "/file", flags | FileFlags::create);
      if (!file) continue;  // no descriptor
      Operation operation;
      here.check(!(flags == FileFlags::read ? file->write_all_at(operation, 0, ConstBuffer{buffer})
                                            : file->read_at(operation, 0, MutableBuffer{buffer})),
                 "it is started");
      while (operation.is_pending()) proactor.run_one();
      here.check(operation.error() == std::errc::bad_file_descriptor, "it fails");
    }
  });
  EXPECT_TRUE(result.ok()) << result.report;
}

TEST_P(UserSimulation, a_refused_open_leaves_the_file_as_it_is) {
  const auto result = simulate({.seeds = 20, .faults = false}, [](Simulation& here) {
    Proactor proactor{here.config(GetParam())};
    auto file = File::open(proactor, "/file", FileFlags::write | FileFlags::create);
    here.check(file.has_value(), "the first is opened");
    Operation operation;
    here.check(!file->write_all_at(operation, 0, ConstBuffer{std::string_view{"text"}}), "started");
    while (operation.is_pending()) proactor.run_one();
    std::vector<File> others;
    while (auto other = File::open(proactor, "/other", FileFlags::write | FileFlags::create)) {
      others.push_back(std::move(*other));
    }
    here.check(!File::open(proactor, "/file", FileFlags::write | FileFlags::truncate), "refused");
    here.check(file->size().value() == operation.bytes(), "all bytes are there");
  });
  EXPECT_TRUE(result.ok()) << result.report;
}

TEST_P(UserSimulation, a_port_has_one_listener_or_several_that_share_it) {
  std::array<int, 2> taken{};
  const auto result = simulate({.seeds = 20, .faults = false}, [&](Simulation& here) {
    Proactor proactor{here.config(GetParam())};
    const ListenOptions shared{.reuse_port = true};
    auto first = Acceptor::listen(proactor, Endpoint::loopback(0), shared);
    here.check(first.has_value(), "the first listens");
    Endpoint port = first->local_endpoint().value();
    here.check(Acceptor::listen(proactor, port).error() == std::errc::address_in_use, "refused");
    auto second = Acceptor::listen(proactor, port, shared);
    here.check(second.has_value(), "it shares the port");
    std::array<Operation, 2> accepts;
    here.check(!first->accept(accepts[0]) && !second->accept(accepts[1]), "both accept");
    Connector connector{proactor};
    Operation connect;
    here.check(!connector.connect(connect, port), "connecting");
    while (accepts[0].is_pending() && accepts[1].is_pending()) proactor.run_one();
    ++taken[accepts[0].is_pending() ? 1 : 0];
    proactor.finish();
  });
  EXPECT_TRUE(result.ok()) << result.report;
  EXPECT_GT(taken[0], 0);
  EXPECT_GT(taken[1], 0);
}

Task<void> hear(DatagramSocket socket, std::set<std::string>& heard) {
  std::array<char, 16> buffer;
  const auto received = co_await socket.read(buffer).timeout(1s);
  if (received) heard.emplace(buffer.data(), *received);
  socket.proactor().stop();
}

TEST_P(UserSimulation, a_connected_datagram_socket_hears_its_peer_only) {
  std::set<std::string> heard;
  const auto result = simulate({.seeds = 20}, [&](Simulation& here) {
    Proactor proactor{here.config(GetParam())};
    auto peer = DatagramSocket::bind(proactor, Endpoint::loopback(7));
    auto stranger = DatagramSocket::bind(proactor, Endpoint::loopback(8));
    auto ours = DatagramSocket::bind(proactor, Endpoint::loopback(9));
    if (!peer || !stranger || !ours || ours->connect(Endpoint::loopback(7))) return;
    proactor.spawn(hear(std::move(*ours), heard));
    const auto sent = [](Operation&) {};
    ASSERT_FALSE(stranger->send_to(std::string_view{"stranger"}, Endpoint::loopback(9), sent));
    ASSERT_FALSE(peer->send_to(std::string_view{"peer"}, Endpoint::loopback(9), sent));
    proactor.run();
  });
  EXPECT_TRUE(result.ok()) << result.report;
  EXPECT_EQ(heard, std::set<std::string>{"peer"});
}

TEST_P(UserSimulation, the_same_seeds_are_the_same_runs) {
  const auto run = [](std::uint64_t first) {
    return simulate({.first_seed = first, .seeds = 10},
                    [](Simulation& here) { echo_in(here, GetParam()); })
        .history;
  };
  EXPECT_EQ(run(1), run(1));
  EXPECT_NE(run(1), run(2));
}

TEST(UserSimulationResult, a_failure_names_its_seed_and_can_be_replayed) {
  const auto scenario = [](Simulation& here) { here.check(here.random(10) != 3, "not three"); };
  const auto all = simulate({.seeds = 1'000}, scenario);
  ASSERT_FALSE(all.ok());
  EXPECT_EQ(all.failures, 1U);
  const std::uint64_t seed = all.seeds;  // it ended with the first
  EXPECT_NE(all.report.find("seed " + std::to_string(seed) + ": not three"), std::string::npos);
  const std::string variable = "BATON_SIM_SEED=" + std::to_string(seed) + " ";
  EXPECT_NE(all.report.find(variable), std::string::npos);
  const Variable environment{"BATON_SIM_SEED", std::to_string(seed).c_str()};
  const auto one = simulate({.seeds = 1'000}, scenario);
  EXPECT_EQ(one.seeds, 1U);
  EXPECT_EQ(one.report, all.report);
}

TEST(UserSimulationResult, all_failures_if_wanted) {
  const auto result = simulate({.seeds = 100, .failures_max = 0},
                               [](Simulation& here) { here.check(here.random(2) == 0, "even"); });
  EXPECT_EQ(result.seeds, 100U);
  EXPECT_GT(result.failures, 20U);
  EXPECT_LT(result.failures, 80U);
  const auto some = simulate({.seeds = 100, .failures_max = 2},
                             [](Simulation& here) { here.check(here.random(2) == 0, "even"); });
  EXPECT_EQ(some.failures, 2U);
}

TEST(UserSimulationResult, exceptions_are_failures) {
  const auto thrown = simulate({.seeds = 3}, [](Simulation&) { throw std::runtime_error("mine"); });
  EXPECT_NE(thrown.report.find("mine"), std::string::npos);
  const auto in_thread = simulate({.seeds = 3}, [](Simulation& here) {
    here.start_thread([] { throw std::runtime_error("of a thread"); });
  });
  EXPECT_NE(in_thread.report.find("of a thread"), std::string::npos);
}

TEST(UserSimulationResult, exceptions_of_any_type_are_failures) {
  const auto thrown = simulate({.seeds = 3}, [](Simulation&) { throw 42; });
  EXPECT_NE(thrown.report.find("seed 1: an exception left the scenario"), std::string::npos)
      << thrown.report;
  const auto in_thread =
      simulate({.seeds = 3}, [](Simulation& here) { here.start_thread([] { throw 42; }); });
  EXPECT_NE(in_thread.report.find("seed 1: an exception left a thread"), std::string::npos)
      << in_thread.report;
}

TEST(UserSimulationResult, more_threads_than_it_can_have_are_a_failure) {
  const auto nothing = [] {};
  const auto result = simulate({.seeds = 3}, [&](Simulation& here) {
    for (int i = 0; i < 100'000; ++i) here.start_thread(nothing);
  });
  EXPECT_EQ(result.failures, 1U);
  EXPECT_NE(result.report.find("seed 1: start_thread: "), std::string::npos) << result.report;
  // Any number of threads is allowed if they are joined.
  const auto joined = simulate({.seeds = 1, .faults = false}, [&](Simulation& here) {
    for (int i = 0; i < 10'000; ++i) {
      here.start_thread(nothing);
      if (i % 1'000 == 999) here.join_threads();
    }
  });
  EXPECT_TRUE(joined.ok()) << joined.report;
}

// A recursion of a given depth; each call takes more than a page.
std::uint64_t deep(std::uint64_t calls) {
  volatile char page[5'000];
  page[calls % sizeof(page)] = 1;
  return calls == 0 ? 0 : deep(calls - 1) + static_cast<std::uint64_t>(page[calls % sizeof(page)]);
}

// A frame so large that it skips a guard of some pages.
std::uint64_t large() {
  volatile char all[700'000];
  all[0] = 1;
  return static_cast<std::uint64_t>(all[0]);
}

TEST(UserSimulationDeathTest, an_overflow_of_a_stack_names_seed_and_thread) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto run = [](const std::function<std::uint64_t()>& body) {
    static_cast<void>(simulate({.first_seed = 7, .seeds = 1}, [&](Simulation& here) {
      here.start_thread([&] { here.check(body() > 0, "it is deep"); });
    }));
  };
  EXPECT_DEATH(run([] { return deep(10'000); }),
               "seed 7: thread 2 has used up its stack of 512 KiB\n"
               "replay: BATON_SIM_SEED=7 ");
  EXPECT_DEATH(run(large), "seed 7: thread 2 has used up its stack");
}

TEST(UserSimulationDeathTest, a_seed_that_ends_the_program_is_named) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(simulate({.first_seed = 7, .seeds = 1}, [](Simulation&) { std::abort(); }),
               "seed 7: thread 1 ended the program by SIGABRT\n"
               "replay: BATON_SIM_SEED=7 ");
  const auto thrown_in_noexcept = [](Simulation& here) {
    here.start_thread([]() noexcept { static_cast<void>(std::vector<int>{}.at(0)); });
  };
  EXPECT_DEATH(simulate({.first_seed = 0, .seeds = 1}, thrown_in_noexcept),
               "seed 0: thread 2 ended the program by SIGABRT");
}

TEST(UserSimulationResult, the_program_has_its_signals_back) {
  struct sigaction before{};
  ASSERT_EQ(::sigaction(SIGSEGV, nullptr, &before), 0);
  EXPECT_TRUE(simulate({.seeds = 2}, [](Simulation& here) { here.sleep(1ms); }).ok());
  EXPECT_FALSE(simulate({.seeds = 2}, [](Simulation& here) { here.fail("it ends"); }).ok());
  struct sigaction after{};
  ASSERT_EQ(::sigaction(SIGSEGV, nullptr, &after), 0);
  EXPECT_EQ(after.sa_handler, before.sa_handler);
}

TEST(UserSimulationResult, a_scenario_that_never_ends_is_a_failure) {
  const auto result = simulate({.seeds = 1}, [](Simulation& here) {
    Proactor proactor{here.config()};
    proactor.run();  // it is never stopped
  });
  EXPECT_FALSE(result.ok());
}

TEST(UserSimulationResult, time_passes_and_threads_are_joined) {
  int ended = 0;
  const auto result = simulate({.seeds = 5}, [&](Simulation& here) {
    const Proactor proactor{here.config()};
    const Deadline before = proactor.now();
    for (int i = 0; i < 4; ++i) {
      here.start_thread([&] {
        here.sleep(1h);
        ++ended;
      });
    }
    here.join_threads();
    here.check(proactor.now() >= Deadline::after(1h, before), "an hour has passed");
  });
  EXPECT_TRUE(result.ok()) << result.report;
  EXPECT_EQ(ended, 20);
}

TEST(UserSimulationResult, the_environment_says_how_many_and_how_loud) {
  const Variable seeds{"BATON_SIM_SEEDS", "7"};
  const Variable verbose{"BATON_SIM_VERBOSE", "1"};
  ::testing::internal::CaptureStderr();
  const auto result = simulate({.seeds = 3}, [](Simulation& here) { here.sleep(1ms); });
  ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(result.seeds, 7U);
  const Variable quiet{"BATON_SIM_VERBOSE", "0"};
  ::testing::internal::CaptureStderr();
  EXPECT_TRUE(simulate({.verbose = true}, [](Simulation& here) { here.sleep(1ms); }).ok());
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

TEST(UserSimulationResult, seed_0_is_a_seed) {
  const auto fails = [](Simulation& here) { here.fail("always"); };
  const auto given = simulate({.first_seed = 0, .seeds = 1}, fails);
  ASSERT_NE(given.report.find("BATON_SIM_SEED=0 "), std::string::npos) << given.report;
  const Variable environment{"BATON_SIM_SEED", "0"};
  EXPECT_EQ(simulate({}, fails).report, given.report);
}

TEST(UserSimulationResult, values_without_sense_are_refused) {
  const auto nothing = [](Simulation&) {};
  EXPECT_THROW(simulate({.seeds = 0}, nothing), std::invalid_argument);
  for (const char* const text : {"", "-1", "seven", "7 "}) {
    const Variable environment{"BATON_SIM_SEED", text};
    EXPECT_THROW(simulate({}, nothing), std::invalid_argument) << text;
    EXPECT_NO_THROW(simulate({.from_environment = false}, nothing));
  }
  const Variable environment{"BATON_SIM_SEEDS", "0"};
  EXPECT_THROW(simulate({}, nothing), std::invalid_argument);
}

TEST(UserSimulationResult, a_refused_value_is_named_and_cut) {
  const Variable environment{"BATON_SIM_VERBOSE", std::string(70'000, 'x').c_str()};
  try {
    (void)simulate({}, [](Simulation&) {});
    FAIL() << "accepted";
  } catch (const std::invalid_argument& error) {
    EXPECT_EQ(std::string_view{error.what()},
              "BATON_SIM_VERBOSE is '" + std::string(60, 'x') +
                  "...': it takes a number from 0 to 18446744073709551615");
  }
}

}  // namespace
}  // namespace baton::testing
