// The one-line form of a configuration.
#include <signal.h>

#include "support.hpp"

namespace baton {
namespace {

TEST(ConfigText, NothingChangesNothing) {
  EXPECT_TRUE(parse_ok("").processors.empty());
  EXPECT_TRUE(parse_ok(" \t\n").processors.empty());
  EXPECT_TRUE(parse_ok("").sources.empty());
}

TEST(ConfigText, SettingsReachTheProcessorThatIsMadeForThem) {
  const Config config = parse_ok(" engine = emulated , wait=epoll,mode=shared ");
  ASSERT_EQ(config.processors.size(), 1U);
  EXPECT_EQ(config.processors[0].engine, "emulated");
  EXPECT_EQ(config.processors[0].wait, "epoll");
  EXPECT_EQ(config.processors[0].mode, Mode::shared);
  EXPECT_EQ(config.processors[0].interrupt, "auto");
}

TEST(ConfigText, EverySettingIsRead) {
  const Config config = parse_ok(
      "operations=stream+file,engine=emulated,wait=poll,interrupt=pipe,mode=per_thread,"
      "start=leader_only,started_max=100,operations_max=200,threads=3,workers=5,"
      "wait_signal=SIGRTMIN+1,interrupt_signal=SIGUSR1,ring_entries=64,completion_entries=256,"
      "profile=pinned,handles=4096,accept=least_loaded,forbid=io_uring,understudy_look_us=500");
  ASSERT_EQ(config.processors.size(), 1U);
  const ProcessorConfig& processor = config.processors[0];
  OperationKinds kinds = stream_operations;
  kinds |= file_operations;
  EXPECT_EQ(processor.operations, kinds);
  EXPECT_EQ(processor.wait, "poll");
  EXPECT_EQ(processor.interrupt, "pipe");
  EXPECT_EQ(processor.mode, Mode::per_thread);
  EXPECT_EQ(processor.start, StartRule::leader_only);
  EXPECT_EQ(processor.started_max, 100U);
  EXPECT_EQ(processor.operations_max, 200U);
  EXPECT_EQ(processor.threads, 3U);
  EXPECT_EQ(processor.workers, 5U);
  EXPECT_EQ(processor.wait_signal, SIGRTMIN + 1);
  EXPECT_EQ(processor.interrupt_signal, SIGUSR1);
  EXPECT_EQ(processor.ring_entries, 64U);
  EXPECT_EQ(processor.completion_entries, 256U);
  EXPECT_EQ(processor.profile, "pinned");
  EXPECT_EQ(config.handles_max, 4096U);
  EXPECT_EQ(config.accept_policy, AcceptPolicy::least_loaded);
  EXPECT_EQ(config.forbid, std::vector<std::string>{"io_uring"});
  EXPECT_EQ(config.understudy_look_us, 500U);
}

TEST(ConfigText, OneSectionIsForAllProcessors) {
  Config base;
  base.processors.resize(3);
  const Config config = parse_ok("mode=dedicated", base);
  for (const ProcessorConfig& processor : config.processors) {
    EXPECT_EQ(processor.mode, Mode::dedicated);
  }
}

TEST(ConfigText, SectionsGoOneByOne) {
  Config base;
  base.processors.resize(2);
  const Config config = parse_ok("wait=poll,operations=stream;;engine=io_uring", base);
  ASSERT_EQ(config.processors.size(), 3U);
  EXPECT_EQ(config.processors[0].wait, "poll");
  EXPECT_EQ(config.processors[1].wait, "auto");
  EXPECT_EQ(config.processors[2].engine, "io_uring");
}

TEST(ConfigText, ThereMayBeAsManySectionsAsProcessors) {
  std::string text = "engine=emulated";
  for (std::size_t i = 1; i < limits::processors_max; ++i) text += ";engine=emulated";
  EXPECT_EQ(parse_ok(text).processors.size(), limits::processors_max);
  expect_words(reason_of(Config::parse(text + ";engine=emulated", {})), {"at most 16"});
}

TEST(ConfigText, OperationsByGroupByKindAndAll) {
  EXPECT_EQ(parse_ok("operations=accept connect").processors[0].operations,
            (OperationKinds{OperationKind::accept, OperationKind::connect}));
  EXPECT_EQ(parse_ok("operations=read_file").processors[0].operations,
            OperationKinds{OperationKind::read_file});
  Config base;
  base.processors = {{.operations = file_operations}};
  EXPECT_TRUE(parse_ok("operations=all", base).processors[0].operations.empty());
}

TEST(ConfigText, ForbidAddsAndNeverAllows) {
  Config base;
  base.forbid = {"emulated"};
  const Config config = parse_ok("forbid=io_uring+emulated", base);
  EXPECT_EQ(config.forbid, (std::vector<std::string>{"emulated", "io_uring"}));
}

TEST(ConfigText, NamesTheSourcesOfValuesAndTheReplacedOnes) {
  Config base;
  base.processors = {{.wait = "poll"}};
  const Config config = parse_ok("wait=epoll,mode=shared", base);
  EXPECT_TRUE(has_source(config, "wait=epoll from configuration text, instead of poll"))
      << account(config);
  EXPECT_TRUE(has_source(config, "mode=shared from configuration text")) << account(config);
  base.processors.resize(2, base.processors[0]);
  const Config alike = parse_ok("wait=epoll", base);
  EXPECT_TRUE(has_source(alike, "wait=epoll from configuration text, instead of poll"))
      << account(alike);
  const Config two = parse_ok("wait=epoll;wait=poll");
  EXPECT_TRUE(has_source(two, "processor 1: wait=poll from configuration text")) << account(two);
}

struct Mistake {
  const char* text;
  errc code;
  std::vector<std::string> words;
};

class ConfigTextMistakes : public testing::TestWithParam<Mistake> {};

TEST_P(ConfigTextMistakes, AreNamedWithTheValidValues) {
  const Mistake& mistake = GetParam();
  const Result<Config, Failure> parsed = Config::parse(mistake.text, {});
  ASSERT_FALSE(parsed.has_value()) << mistake.text;
  EXPECT_EQ(parsed.error().code, mistake.code) << parsed.error().reason;
  expect_words(parsed.error().reason, mistake.words);
}

const Mistake mistakes[] = {
    {"engine=iouring",
     errc::unknown_name,
     {"\"iouring\"", "engine", "auto", "io_uring", "emulated"}},
    {"wait=epol", errc::unknown_name, {"\"epol\"", "wait strategy", "epoll", "poll", "select"}},
    {"interrupt=pip", errc::unknown_name, {"\"pip\"", "interrupt strategy", "pipe", "eventfd"}},
    {"mode=both", errc::unknown_name, {"\"both\"", "mode", "shared, dedicated, per_thread"}},
    {"start=later", errc::unknown_name, {"\"later\"", "any_thread, leader_only"}},
    {"accept=fair", errc::unknown_name, {"round_robin, least_loaded, same_thread"}},
    {"profile=fast", errc::unknown_name, {"\"fast\"", "auto, any, pinned"}},
    {"notify=kqueue", errc::unknown_name, {"\"kqueue\"", "auto, suspend, sigwait, callback"}},
    {"debug=2", errc::bad_configuration, {"\"2\"", "out of range", "0 to 1"}},
    {"inner=ring", errc::unknown_name, {"\"ring\"", "engine", "io_uring"}},
    {"chaos_error=101", errc::bad_configuration, {"\"101\"", "out of range", "0 to 100"}},
    {"modes=shared", errc::unknown_name, {"\"modes\"", "not a known setting", "mode", "handles"}},
    {"operations=socket", errc::unknown_name, {"\"socket\"", "stream", "file", "read_stream"}},
    {"operations=timer", errc::unknown_name, {"\"timer\"", "valid"}},
    {"operations=", errc::bad_configuration, {"names no operation", "stream"}},
    {"forbid=io_urng", errc::unknown_name, {"\"io_urng\"", "io_uring"}},
    {"threads=many", errc::bad_configuration, {"\"many\"", "whole number", "0", "1 to 256"}},
    {"threads=", errc::bad_configuration, {"\"\"", "whole number"}},
    {"threads=257", errc::bad_configuration, {"\"257\"", "out of range", "1 to 256"}},
    {"threads=-1", errc::bad_configuration, {"\"-1\"", "whole number"}},
    {"threads=1.5", errc::bad_configuration, {"\"1.5\"", "whole number"}},
    {"threads=99999999999999999999999", errc::bad_configuration, {"out of range"}},
    {"handles=2000000", errc::bad_configuration, {"handles", "out of range", "1048576"}},
    {"understudy_look_us=0", errc::bad_configuration, {"out of range", "10 to 10000000"}},
    {"ring_entries=100", errc::bad_configuration, {"power of two", "64 and 128"}},
    {"ring_entries=65536", errc::bad_configuration, {"out of range", "32768"}},
    {"completion_entries=64,ring_entries=128",
     errc::bad_configuration,
     {"completion_entries=64", "ring_entries=128", "as many or more"}},
    {"wait_signal=9", errc::bad_configuration, {"\"9\"", "caught", "SIGRTMIN+n"}},
    {"wait_signal=19", errc::bad_configuration, {"caught"}},
    {"interrupt_signal=11", errc::bad_configuration, {"fault"}},
    {"interrupt_signal=33", errc::bad_configuration, {"C library"}},
    {"interrupt_signal=65", errc::bad_configuration, {"out of range"}},
    {"interrupt_signal=SIGRTMAX-99", errc::bad_configuration, {"valid"}},
    {"interrupt_signal=SIGFOO", errc::bad_configuration, {"not a signal", "SIGUSR1"}},
    {"interrupt_signal=SIGUSR1,wait_signal=SIGUSR1",
     errc::bad_configuration,
     {"each needs its own"}},
    {"engine=emulated,engine=io_uring", errc::bad_configuration, {"engine", "given twice"}},
    {"handles=5;handles=6", errc::bad_configuration, {"processor 1", "handles", "given twice"}},
    {"engine", errc::bad_configuration, {"\"engine\"", "name=value"}},
    {"engine=emulated,", errc::bad_configuration, {"\"\"", "name=value"}},
    {"=5", errc::unknown_name, {"\"\"", "not a known setting"}},
    {"mode=per_thread;mode=shared",
     errc::bad_configuration,
     {"processor 1", "shared", "per_thread"}},
    {"mode=per_thread;engine=auto", errc::bad_configuration, {"processor 1", "dedicated"}},
    {"mode=per_thread,threads=2;mode=per_thread,threads=4",
     errc::bad_configuration,
     {"threads=4", "threads=2", "same number"}},
    {"engine=io_uring,forbid=io_uring", errc::engine_forbidden, {"\"io_uring\"", "forbidden"}},
    {";;;;;;;;;;;;;;;;;;", errc::bad_configuration, {"processors", "at most 16"}},
    {"wait=ep\noll", errc::unknown_name, {"\"ep?oll\""}},
};
INSTANTIATE_TEST_SUITE_P(All, ConfigTextMistakes, testing::ValuesIn(mistakes));

TEST(ConfigText, LongTextsAreRefusedAndNotRepeated) {
  const std::string reason = reason_of(Config::parse("engine=" + std::string(1'000, 'x'), {}));
  EXPECT_LT(reason.size(), 250U);
  expect_words(reason, {"xxx...\""});
  expect_words(reason_of(Config::parse(std::string(1'000'000, ','), {})), {"longer than"});
}

TEST(ConfigText, ThreadsThatChangeAreBoundToNoRingUnlessTheProfileSaysSo) {
  Config config;
  config.processors = {{.mode = Mode::per_thread},
                       {.mode = Mode::per_thread, .profile = "pinned"},
                       {.mode = Mode::dedicated}};
  config.let_threads_change("a test");
  EXPECT_EQ(config.processors[0].profile, "any");
  EXPECT_EQ(config.processors[1].profile, "pinned");
  EXPECT_EQ(config.processors[2].profile, "auto");
  ASSERT_EQ(config.sources.size(), 1U);
  EXPECT_EQ(config.sources[0], "profile=any from a test: its threads come and go");
}

}  // namespace
}  // namespace baton
