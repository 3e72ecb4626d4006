// Errors and notes about a whole configuration.
#include "support.hpp"

namespace baton {
namespace {

TEST(ConfigValidate, TheDefaultIsValid) {
  EXPECT_TRUE(Config{}.validate().has_value());
  Config config;
  config.processors.resize(2);
  EXPECT_TRUE(config.validate().has_value());
}

TEST(ConfigValidate, LooksAtEveryValueThatCodeMaySet) {
  const auto reason = [](auto&& change) {
    Config config;
    config.processors.resize(1);
    change(config, config.processors[0]);
    return reason_of(config.validate());
  };
  expect_words(reason([](Config&, ProcessorConfig& p) { p.engine = "uring"; }),
               {"processor 0", "engine=\"uring\"", "io_uring"});
  for (std::string ProcessorConfig::* const name :
       {&ProcessorConfig::engine, &ProcessorConfig::wait, &ProcessorConfig::interrupt,
        &ProcessorConfig::profile, &ProcessorConfig::notify, &ProcessorConfig::inner}) {
    expect_words(reason([name](Config&, ProcessorConfig& p) { p.*name = ""; }), {"empty", "auto"});
  }
  expect_words(reason([](Config&, ProcessorConfig& p) { p.mode = static_cast<Mode>(9); }),
               {"mode", "unknown", "per_thread"});
  expect_words(reason([](Config&, ProcessorConfig& p) { p.threads = 1'000; }), {"threads", "256"});
  expect_words(reason([](Config&, ProcessorConfig& p) { p.ring_entries = 3; }), {"power of two"});
  expect_words(reason([](Config&, ProcessorConfig& p) { p.wait_signal = -4; }), {"wait_signal"});
  expect_words(reason([](Config&, ProcessorConfig& p) { p.interrupt_signal = 9; }), {"caught"});
  expect_words(reason([](Config&, ProcessorConfig& p) { p.operations.add(OperationKind::timer); }),
               {"operations", "\"timer\""});
  expect_words(reason([](Config& c, ProcessorConfig&) { c.understudy_look_us = 1; }),
               {"understudy_look_us", "10 to"});
  expect_words(reason([](Config& c, ProcessorConfig&) { c.forbid = {"x"}; }), {"forbid", "\"x\""});
  expect_words(reason([](Config& c, ProcessorConfig&) { c.processors.resize(17); }),
               {"17 processors", "at most 16"});
}

TEST(ConfigValidate, TeamsThatWork) {
  Config config;
  config.processors = {{.operations = stream_operations, .mode = Mode::per_thread, .threads = 2},
                       {.operations = file_operations, .mode = Mode::dedicated},
                       {.mode = Mode::per_thread, .threads = 2}};
  EXPECT_TRUE(config.validate().has_value()) << config.validate().error().reason;
}

TEST(ConfigNotes, ASettingWithoutEffectIsANoteAndNoError) {
  const Config config =
      parse_ok("engine=io_uring,wait=epoll,threads=4,mode=shared,started_max=10,operations_max=5");
  EXPECT_TRUE(
      has_source(config, "note: wait=epoll is not used: engine io_uring waits in its own way"))
      << account(config);
  EXPECT_TRUE(has_source(config, "note: threads=4 is not used: it is for mode per_thread"))
      << account(config);
  EXPECT_TRUE(
      has_source(config, "note: started_max=10 is never reached: operations_max=5 comes first"))
      << account(config);
  const Config reached = parse_ok("started_max=5,operations_max=5");
  EXPECT_EQ(account(reached).find("never reached"), std::string::npos) << account(reached);
}

TEST(ConfigNotes, OperationsWithoutAProcessorAndProcessorsWithoutOperations) {
  const Config config = parse_ok("operations=stream+accept+connect+datagram;operations=accept");
  EXPECT_TRUE(has_source(config, "note: processor 1 is never used: others take all its operations"))
      << account(config);
  EXPECT_TRUE(has_source(config,
                         "note: no processor takes read_file, write_file, sync_file: starting one "
                         "fails with not_supported"))
      << account(config);
}

TEST(ConfigNotes, AHalfCloseAndASyncComeWithTheWrites) {
  const Config config =
      parse_ok("operations=read_stream+write_stream+accept+connect+datagram+read_file+write_file");
  EXPECT_TRUE(has_source(config,
                         "note: no processor takes wait_ready: starting one fails with "
                         "not_supported"))
      << account(config);
  const Config team = parse_ok("operations=shutdown+sync_file;operations=stream+file");
  EXPECT_TRUE(has_source(team, "note: processor 0 is never used: others take all its operations"))
      << account(team);
  const Config alone = parse_ok("operations=read_stream+shutdown;operations=accept");
  EXPECT_EQ(account(alone).find("never used"), std::string::npos) << account(alone);
}

TEST(ConfigNotes, AreWrittenAnewByEachSource) {
  const Config first = parse_ok("operations=stream;operations=stream");
  EXPECT_EQ(first.sources.back().substr(0, 5), "note:");
  const Config second = parse_ok("operations=all", first);
  for (const std::string& line : second.sources) EXPECT_NE(line.substr(0, 5), "note:") << line;
}

}  // namespace
}  // namespace baton
