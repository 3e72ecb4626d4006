// The XML form of a configuration.
#include "support.hpp"

namespace baton {
namespace {

TEST(ConfigXml, TheTeamOfTheGuide) {
  const Config config = parse_xml_ok(R"(<?xml version="1.0" encoding="UTF-8"?>
<baton handles="4096" accept="least_loaded">
  <!-- sockets here -->
  <processor operations="stream accept connect datagram" engine="emulated" wait="epoll"
             interrupt="eventfd" mode="shared"/>
  <processor operations="file" engine="io_uring" mode="dedicated" operations_max="4096"></processor>
</baton>
)");
  ASSERT_EQ(config.processors.size(), 2U);
  EXPECT_EQ(config.handles_max, 4096U);
  EXPECT_EQ(config.processors[0].wait, "epoll");
  EXPECT_EQ(config.processors[1].operations, file_operations);
  EXPECT_EQ(config.processors[1].operations_max, 4096U);
  EXPECT_TRUE(has_source(config, "handles=4096 from XML:2")) << account(config);
  EXPECT_TRUE(has_source(config, "processor 0: wait=epoll from XML:4")) << account(config);
  EXPECT_TRUE(has_source(config, "processor 1: mode=dedicated from XML:6")) << account(config);
}

TEST(ConfigXml, AFileDescribesTheWholeTeamOrNothingOfIt) {
  Config base;
  base.processors = {{.wait = "poll"}, {.mode = Mode::dedicated}};
  EXPECT_EQ(parse_xml_ok("<baton handles='7'/>", base).processors.size(), 2U);
  const Config config = parse_xml_ok("<baton><processor mode='shared'/></baton>", base);
  ASSERT_EQ(config.processors.size(), 1U);
  EXPECT_EQ(config.processors[0].wait, "auto");
  EXPECT_TRUE(has_source(config, "processors from XML, instead of those set before"));
}

TEST(ConfigXml, ReadsAFileAndNamesIt) {
  const TemporaryFile file{"<baton>\n\n<processor\n wait='poll'/></baton>"};
  const Result<Config, Failure> loaded = Config::load_xml(file.path(), {});
  ASSERT_TRUE(loaded.has_value()) << loaded.error().reason;
  EXPECT_TRUE(has_source(*loaded, "wait=poll from " + file.path() + ":3")) << account(*loaded);

  const TemporaryFile bad{"<baton>\n\n<processor\n wait='pol'/></baton>"};
  expect_words(reason_of(Config::load_xml(bad.path(), {})), {bad.path() + ":3: wait=\"pol\""});
}

TEST(ConfigXml, AFileThatCannotBeReadSaysWhy) {
  const Result<Config, Failure> absent = Config::load_xml("/nowhere/baton.xml", {});
  expect_words(reason_of(absent), {"/nowhere/baton.xml", "No such file"});
  EXPECT_EQ(absent.error().code, std::errc::no_such_file_or_directory);
  EXPECT_EQ(Config::load_xml("/", {}).error().code, std::errc::is_a_directory);
  for (const char* device : {"/dev/zero", "/dev/null"}) {
    expect_words(reason_of(Config::load_xml(device, {})), {device, "not a regular file"});
  }
  EXPECT_LT(reason_of(Config::load_xml(std::string(70'000, 'x'), {})).size(), 200U);
}

struct Mistake {
  const char* document;
  errc code;
  std::vector<std::string> words;
};

class ConfigXmlMistakes : public testing::TestWithParam<Mistake> {};

TEST_P(ConfigXmlMistakes, AreNamedWithTheirLine) {
  const Mistake& mistake = GetParam();
  const Result<Config, Failure> parsed = Config::parse_xml(mistake.document, {});
  ASSERT_FALSE(parsed.has_value()) << mistake.document;
  EXPECT_EQ(parsed.error().code, mistake.code) << parsed.error().reason;
  expect_words(parsed.error().reason, mistake.words);
}

const Mistake mistakes[] = {
    {"", errc::bad_configuration, {"XML", "no element"}},
    {"<!-- -->", errc::bad_configuration, {"no element", "<baton>"}},
    {"<baton>\n<processor>\n</baton>", errc::bad_configuration, {"XML:3", "not well-formed"}},
    {"<baton", errc::bad_configuration, {"XML:1", "not well-formed"}},
    {"<proactor/>", errc::unknown_name, {"\"proactor\"", "not a known element", "<processor>"}},
    {"<baton/><baton/>", errc::bad_configuration, {"second <baton>"}},
    {"<baton>\n<engine/></baton>", errc::unknown_name, {"XML:2", "\"engine\"", "<processor>"}},
    {"<baton><processor><wait/></processor></baton>",
     errc::bad_configuration,
     {"<processor> holds nothing but attributes"}},
    {"<baton>\n\n<processor engin='x'/></baton>",
     errc::unknown_name,
     {"XML:3", "\"engin\"", "attribute of <processor>", "engine", "completion_entries"}},
    {"<baton wait='epoll'/>",
     errc::unknown_name,
     {"\"wait\"", "attribute of <baton>",
      "handles, accept, require, prefer, forbid, understudy_look_us"}},
    {"<baton handles='1' handles='2'/>", errc::bad_configuration, {"handles", "given twice"}},
    {"<baton><processor threads='1000'/></baton>",
     errc::bad_configuration,
     {"XML:1: threads=\"1000\""}},
    {"<baton>epoll</baton>", errc::bad_configuration, {"text \"epoll\"", "attributes"}},
    {"hello <baton/>", errc::bad_configuration, {"text \"hello\""}},
    {"<baton><![CDATA[x]]></baton>", errc::bad_configuration, {"text"}},
    {"<!DOCTYPE baton [<!ENTITY a SYSTEM 'file:///etc/passwd'>]>\n<baton/>",
     errc::bad_configuration,
     {"DOCTYPE", "not accepted"}},
    {"<?php x ?><baton/>", errc::bad_configuration, {"processing instruction"}},
    {"<baton><processor mode='per_thread'/>\n<processor/></baton>",
     errc::bad_configuration,
     {"XML:2", "mode=shared", "per_thread of processor 0"}},
    {"<baton forbid='emulated'>\n<processor engine='emulated'/></baton>",
     errc::engine_forbidden,
     {"XML:2", "forbidden"}},
};
INSTANTIATE_TEST_SUITE_P(All, ConfigXmlMistakes, testing::ValuesIn(mistakes));

TEST(ConfigXml, EntitiesOfOnesOwnStayText) {
  // Even without a document type nothing is looked up.
  expect_words(reason_of(Config::parse_xml("<baton><processor wait='&a;'/></baton>", {})),
               {"\"&a;\""});
}

TEST(ConfigXml, DocumentsAreBounded) {
  const std::string padding(1U << 20, ' ');
  expect_words(reason_of(Config::parse_xml("<baton/>" + padding, {})), {"larger than 1048576"});
  expect_words(reason_of(Config::parse_xml(std::string("<baton/>\0", 9), {})), {"NUL"});
  std::string deep;
  while (deep.size() < 900'000) deep += "<baton>";
  expect_words(reason_of(Config::parse_xml(deep, {})), {"not well-formed"});
  std::string many = "<baton>";
  for (int i = 0; i < 17; ++i) many += "<processor/>";
  expect_words(reason_of(Config::parse_xml(many + "</baton>", {})), {"at most 16"});
}

TEST(ConfigXml, FilesAreBoundedLikeDocuments) {
  const std::string padding((1U << 20) - 8, ' ');
  const TemporaryFile longest{"<baton/>" + padding};
  EXPECT_TRUE(Config::load_xml(longest.path(), {}).has_value());
  const TemporaryFile too_long{"<baton/>" + padding + " "};
  expect_words(reason_of(Config::load_xml(too_long.path(), {})),
               {too_long.path(), "larger than 1048576"});
}

TEST(ConfigXml, PrintsOnlySettingsThatAreSet) {
  EXPECT_EQ(Config{}.to_xml(), "<baton />\n");
  Config config;
  config.forbid = {"io_uring", "emulated"};
  config.processors.resize(2);
  config.processors[1].wait = "epoll";
  EXPECT_EQ(config.to_xml(),
            "<baton forbid=\"io_uring,emulated\">\n"
            "  <processor />\n"
            "  <processor wait=\"epoll\" />\n"
            "</baton>\n");
}

TEST(ConfigXml, PrintsEveryCharacterSoThatItIsReadBack) {
  Config config;
  config.processors = {{.engine = "<a&b>\"c\"\n\t'\xC3\xA9"}};
  EXPECT_EQ(config.to_xml(),
            "<baton>\n"
            "  <processor engine=\"&lt;a&amp;b&gt;&quot;c&quot;&#10;&#9;'\xC3\xA9\" />\n"
            "</baton>\n");
  // No engine has this name, so the message shows the value as read.
  expect_words(reason_of(Config::parse_xml(config.to_xml(), {})), {"<a&b>\"c\"?"
                                                                   "?'"});
}

}  // namespace
}  // namespace baton
