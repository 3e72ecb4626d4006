// Rare settings and their results.
#include <errno.h>
#include <unistd.h>

#include <string>
#include <system_error>
#include <utility>

#include "baton/proactor.hpp"
#include "os/system.hpp"
#include "support.hpp"

namespace baton {
namespace {

TEST(ConfigCorners, AnInnerEngineMayBeForbiddenToo) {
  Config config;
  config.forbid = {"emulated"};
  config.processors = {{.engine = "chaos", .inner = "emulated"}};
  const auto checked = config.validate();
  expect_words(reason_of(checked), {"inner=\"emulated\"", "forbidden"});
  EXPECT_EQ(checked.error().code, errc::engine_forbidden);
}

TEST(ConfigCorners, AnInnerEngineIsForChaosOnly) {
  const Config used = parse_ok("engine=chaos,inner=emulated");
  for (const std::string& line : used.sources) EXPECT_EQ(line.find("not used"), std::string::npos);
  const Config unused = parse_ok("engine=emulated,inner=emulated");
  EXPECT_TRUE(has_source(unused, "note: inner=emulated is not used: it is for engine=chaos"))
      << account(unused);
}

TEST(ConfigCorners, AWaitStrategyIsForTheEngineInsideChaos) {
  const Config used = parse_ok("engine=chaos,inner=emulated,wait=poll");
  for (const std::string& line : used.sources) EXPECT_EQ(line.find("not used"), std::string::npos);
  const Config unused = parse_ok("engine=chaos,inner=io_uring,wait=poll");
  EXPECT_TRUE(
      has_source(unused, "note: wait=poll is not used: engine io_uring waits in its own way"))
      << account(unused);
}

TEST(ConfigCorners, SettingsForAPartThatAutoDidNotChooseAreNoted) {
  const auto explained = [](Config config) {
    const auto opened = Proactor::open(std::move(config));
    return opened ? (*opened)->explain() : opened.error().reason;
  };
  const auto tells = [](const std::string& text, const char* note) {
    EXPECT_NE(text.find(std::string{"source: note: "} + note + "\n"), std::string::npos) << text;
  };
  const std::string signals =
      explained(parse_ok("engine=emulated,wait_signal=40,interrupt_signal=41"));
  tells(signals, "wait_signal=40 is not used: it is for wait=rt_signals and notify=sigwait");
  tells(signals, "interrupt_signal=41 is not used: it is for interrupt=signal");

  Config preferring = parse_ok("ring_entries=64,wait=poll");
  preferring.prefer = {"emulated"};
  const std::string ring = explained(preferring);
  tells(ring, "ring_entries=64 is not used: it is for engine=io_uring");
  EXPECT_EQ(ring.find("wait=poll is not used"), std::string::npos) << ring;

  const std::string used =
      explained(parse_ok("engine=emulated,wait=rt_signals,mode=per_thread,threads=1,wait_signal=40,"
                         "interrupt=signal,interrupt_signal=41"));
  EXPECT_NE(used.find("wait=rt_signals interrupt=signal"), std::string::npos) << used;
  EXPECT_EQ(used.find("not used"), std::string::npos) << used;
}

TEST(ConfigCorners, KindsThatTheOpenEngineDoesNotTakeAreNoted) {
  const auto explained = [](const char* text) {
    const auto opened = Proactor::open(parse_ok(text));
    return opened ? (*opened)->explain() : opened.error().reason;
  };
  constexpr const char* note = "source: note: no processor takes read_stream, ";
  const std::string files = explained("engine=posix_aio");
  if (files.find("engine=posix_aio") == std::string::npos) GTEST_SKIP() << files;
  EXPECT_NE(files.find(note), std::string::npos) << files;
  const std::string team = explained("engine=posix_aio;engine=emulated");
  EXPECT_EQ(team.find(note), std::string::npos) << team;
  EXPECT_EQ(team.find("never used"), std::string::npos) << team;
}

TEST(ConfigCorners, PowersOfTwoMayBeLeftToTheLibrary) {
  EXPECT_EQ(parse_ok("ring_entries=0").processors[0].ring_entries, 0U);
  EXPECT_EQ(parse_ok("completion_entries=0").processors[0].completion_entries, 0U);
  EXPECT_EQ(parse_ok("completion_entries=64").processors[0].completion_entries, 64U);
  expect_words(reason_of(Config::parse("completion_entries=65", Config{})),
               {"power of two", "64 and 128"});
  expect_words(reason_of(Config::parse("completion_entries=x", Config{})), {"whole number"});
}

TEST(ConfigCorners, SignalsBeyondEveryNumberAreRefused) {
  expect_words(reason_of(Config::parse("wait_signal=99999999999999999999", Config{})),
               {"wait_signal", "SIGRTMAX"});
  expect_words(reason_of(Config::parse("wait_signal=5000", Config{})), {"wait_signal", "SIGRTMAX"});
}

TEST(ConfigCorners, ARequiredEngineWithoutAPlaceNamesTheWholeTeam) {
  Config config;
  config.require = {"io_uring"};
  config.processors = {{.engine = "emulated", .wait = "poll"}, {.engine = "emulated"}};
  expect_words(reason_of(config.validate()),
               {"processor 0 says engine=emulated, processor 1 says engine=emulated"});
}

TEST(ConfigCorners, TheAccountOfAnEarlierSourceIsKept) {
  Config base = parse_ok("engine=emulated");
  const std::size_t before = base.sources.size();
  const Variable text{"BATON", "wait=poll"};
  const auto parsed = Config::parse_environment(base);
  ASSERT_TRUE(parsed.has_value()) << parsed.error().reason;
  EXPECT_EQ(parsed->sources.size(), before + 1) << account(*parsed);
  EXPECT_TRUE(has_source(*parsed, "wait=poll from BATON")) << account(*parsed);
}

TEST(ConfigCorners, TheSameValueOnceMoreReplacesNothing) {
  const Config again = parse_ok("wait=poll", parse_ok("wait=poll"));
  for (const std::string& line : again.sources) EXPECT_EQ(line.find("instead"), std::string::npos);
}

TEST(ConfigCorners, FromTheEnvironmentOrAnException) {
  {
    const Variable text{"BATON", "engine=emulated"};
    EXPECT_EQ(Config::from_environment().processors.at(0).engine, "emulated");
  }
  const Variable text{"BATON", "engine=nonsense"};
  try {
    static_cast<void>(Config::from_environment());
    FAIL() << "nonsense was taken";
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), errc::unknown_name);
    EXPECT_NE(std::string(error.what()).find("nonsense"), std::string::npos) << error.what();
  }
}

TEST(ConfigCorners, AnInterruptedReadOfAFileGoesOn) {
  static int interrupted;
  interrupted = 0;
  static const os::System table = [] {
    os::System made = os::real_system();
    made.read = [](int fd, void* buffer, std::size_t size) -> ssize_t {
      if (interrupted++ < 2) {
        errno = EINTR;
        return -1;
      }
      return ::read(fd, buffer, size);
    };
    return made;
  }();
  const TemporaryFile file{"<baton handles='77'/>"};
  Config base;
  base.system = &table;
  const auto loaded = Config::load_xml(file.path(), base);
  ASSERT_TRUE(loaded.has_value()) << loaded.error().reason;
  EXPECT_EQ(loaded->handles_max, 77U);
  EXPECT_GT(interrupted, 2);
}

}  // namespace
}  // namespace baton
