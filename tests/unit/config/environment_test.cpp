// Precedence: code, then file, then BATON, then BATON_FORBID.
#include <system_error>

#include "support.hpp"

namespace baton {
namespace {

Config environment_ok(Config base = {}) {
  Result<Config, Failure> parsed = Config::parse_environment(std::move(base));
  EXPECT_TRUE(parsed.has_value()) << parsed.error().reason;
  return parsed.has_value() ? *parsed : Config{};
}

TEST(ConfigEnvironment, WithoutVariablesItIsTheProgramsOwn) {
  Config base;
  base.handles_max = 50;
  base.processors = {{.engine = "emulated", .wait = "poll"}};
  const Config config = environment_ok(base);
  EXPECT_EQ(config.processors[0].wait, "poll");
  EXPECT_TRUE(has_source(config, "handles=50 from the program")) << account(config);
  EXPECT_TRUE(has_source(config, "wait=poll from the program")) << account(config);
}

TEST(ConfigEnvironment, TheFileWinsOverTheProgramAndTheVariableOverBoth) {
  const TemporaryFile file{
      "<baton><processor engine='emulated' wait='poll' interrupt='pipe'/></baton>"};
  const Variable config_file{"BATON_CONFIG", file.path()};
  const Variable text{"BATON", "wait=epoll"};
  Config base;
  base.processors = {{.engine = "io_uring", .workers = 3}};
  const Config config = environment_ok(base);
  ASSERT_EQ(config.processors.size(), 1U);
  EXPECT_EQ(config.processors[0].engine, "emulated");
  EXPECT_EQ(config.processors[0].interrupt, "pipe");
  EXPECT_EQ(config.processors[0].wait, "epoll");
  EXPECT_EQ(config.processors[0].workers, 0U);  // the file described the team
  EXPECT_TRUE(has_source(config, "engine=io_uring from the program")) << account(config);
  EXPECT_TRUE(has_source(config, "engine=emulated from " + file.path() + ":1")) << account(config);
  EXPECT_TRUE(has_source(config, "wait=epoll from BATON, instead of poll")) << account(config);
}

TEST(ConfigEnvironment, ProgramsThatReadATextOrAFileFirstAreAccountedForToo) {
  const TemporaryFile file{"<baton handles='60'/>"};
  Config base;
  base.processors = {{.engine = "emulated", .wait = "poll"}};
  for (const auto& read :
       {Config::load_xml(file.path(), base), Config::parse("handles=60", base)}) {
    ASSERT_TRUE(read.has_value()) << read.error().reason;
    const Config config = environment_ok(*read);
    EXPECT_TRUE(has_source(config, "wait=poll from the program")) << account(config);
    EXPECT_FALSE(has_source(config, "handles=60 from the program")) << account(config);
  }
}

TEST(ConfigEnvironment, ForbiddingComesLast) {
  const Variable text{"BATON", "forbid=emulated"};
  const Variable forbid{"BATON_FORBID", "io_uring"};
  const Result<Config, Failure> parsed = Config::parse_environment({});
  ASSERT_TRUE(parsed.has_value()) << parsed.error().reason;
  EXPECT_EQ(parsed->forbid, (std::vector<std::string>{"emulated", "io_uring"}));
  EXPECT_TRUE(has_source(*parsed, "forbid=io_uring from BATON_FORBID"));
}

TEST(ConfigEnvironment, AnEngineThatIsNamedAndForbiddenIsAContradiction) {
  const Variable text{"BATON", "engine=io_uring"};
  const Variable forbid{"BATON_FORBID", "io_uring"};
  const Result<Config, Failure> parsed = Config::parse_environment({});
  ASSERT_FALSE(parsed.has_value());
  EXPECT_EQ(parsed.error().code, errc::engine_forbidden);
}

TEST(ConfigEnvironment, MistakesNameTheVariable) {
  {
    const Variable text{"BATON", "wait=epol"};
    expect_words(reason_of(Config::parse_environment({})), {"BATON: wait=\"epol\"", "epoll"});
  }
  {
    const Variable forbid{"BATON_FORBID", "iouring"};
    expect_words(reason_of(Config::parse_environment({})),
                 {"BATON_FORBID", "\"iouring\"", "io_uring"});
  }
  {
    const Variable file{"BATON_CONFIG", "/nowhere/x.xml"};
    expect_words(reason_of(Config::parse_environment({})), {"BATON_CONFIG: /nowhere/x.xml"});
  }
  Config base;
  base.processors.resize(2);
  base.processors[1].engine = "none";
  expect_words(reason_of(Config::parse_environment(base)), {"processor 1", "\"none\"", "emulated"});
}

TEST(ConfigEnvironment, TheShortFormThrowsTheReason) {
  const Variable text{"BATON", "mode=both"};
  try {
    (void)Config::from_environment();
    FAIL() << "accepted";
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), errc::unknown_name);
    expect_words(error.what(), {"BATON: mode=\"both\"", "shared, dedicated, per_thread"});
  }
}

TEST(ConfigEnvironment, EmptyVariablesAreNotSet) {
  const Variable file{"BATON_CONFIG", ""};
  const Variable text{"BATON", ""};
  const Variable forbid{"BATON_FORBID", ""};
  EXPECT_TRUE(environment_ok().sources.empty());
}

}  // namespace
}  // namespace baton
