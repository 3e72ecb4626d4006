// A setting is refused with the same words wherever it is written.
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "config/apply.hpp"
#include "support.hpp"

namespace baton {
namespace {

std::string escaped(std::string_view value) {
  std::string out;
  for (const char c : value) {
    out += c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '"' ? "&quot;" : std::string(1, c);
  }
  return out;
}

/// Without the place in front.
std::string words_of(const Result<Config, Failure>& parsed) {
  if (parsed.has_value()) return "taken";
  const std::string& reason = parsed.error().reason;
  return reason.substr(reason.find(": ") + 2);
}

struct Setting {
  const char* name;
  const char* value;
  bool of_proactor = false;
};

TEST(SameWords, InEveryForm) {
  constexpr Setting settings[] = {
      {"engine", "nope"},         {"engine", "kqueue"},     {"engine", ""},
      {"engine", "io_uring x"},   {"wait", "nope"},         {"interrupt", "-1"},
      {"mode", "Shared"},         {"start", "nope"},        {"threads", "nan"},
      {"threads", "-1"},          {"threads", "1e3"},       {"threads", "99999999999999999999"},
      {"ring_entries", "3"},      {"profile", "nope"},      {"notify", "nope"},
      {"wait_signal", "SIGKILL"}, {"debug", "2"},           {"operations", "nope"},
      {"handles", "x", true},     {"accept", "nope", true}, {"require", "nope", true},
      {"forbid", "\xff", true},   {"prefer", "nope", true}, {"understudy_look_us", "1", true},
      {"no_such_setting", "1"},
  };
  for (const Setting& one : settings) {
    const std::string pair = std::string(one.name) + "=" + one.value;
    const std::string by_name =
        words_of(config::set_named(one.name, one.value, Config{}, "--option"));
    EXPECT_NE(by_name, "taken") << pair;
    EXPECT_EQ(words_of(Config::parse(pair, Config{})), by_name);
    if (std::string_view(one.name) == "no_such_setting") continue;  // XML names its element, too
    const std::string attribute = std::string(one.name) + "=\"" + escaped(one.value) + "\"";
    const std::string document = one.of_proactor ? "<baton " + attribute + "/>"
                                                 : "<baton><processor " + attribute + "/></baton>";
    EXPECT_EQ(words_of(Config::parse_xml(document, Config{})).substr(0, by_name.size()), by_name)
        << document;
  }
}

TEST(SameWords, PolicyVariablesSpeakLikeSettings) {
  ::setenv("BATON_FORBID", "nope", 1);
  const auto parsed = Config::parse_environment(Config{});
  ::unsetenv("BATON_FORBID");
  EXPECT_EQ(words_of(parsed), words_of(Config::parse("forbid=nope", Config{})));
}

TEST(SameWords, ValueIsOneSetting) {
  for (const char* value : {"emulated;mode=dedicated", "emulated,mode=dedicated", "emulated;"}) {
    const auto parsed = config::set_named("engine", value, Config{}, "--engine");
    ASSERT_FALSE(parsed.has_value()) << value;
    expect_words(parsed.error().reason, {"--engine: engine=", "valid:"});
  }
}

TEST(SameWords, OneOfSeveralProcessors) {
  Config team;
  team.processors.resize(2);
  const auto parsed = config::set_named("wait", "poll", team, "--wait", 1);
  ASSERT_TRUE(parsed.has_value()) << parsed.error().reason;
  EXPECT_EQ(parsed->processors[0].wait, "auto");
  EXPECT_EQ(parsed->processors[1].wait, "poll");
  expect_words(reason_of(config::set_named("wait", "poll", team, "--wait", 2)),
               {"no processor 2", "valid: 0 to 1"});
}

TEST(SameWords, OneSettingRenewsTheNotes) {
  constexpr const char* note = "note: threads=4 is not used: it is for mode per_thread";
  const Config unused = config::set_named("threads", "4", Config{}, "--threads").value();
  EXPECT_TRUE(has_source(unused, note)) << account(unused);
  const Config used = config::set_named("mode", "per_thread", unused, "--mode").value();
  EXPECT_FALSE(has_source(used, note)) << account(used);
}

TEST(SameWords, ByteOrderMarkIsRefused) {
  EXPECT_EQ(words_of(Config::parse("\xEF\xBB\xBF"
                                   "mode=shared",
                                   Config{})),
            words_of(Config::parse_xml("\xEF\xBB\xBF<baton/>", Config{})));
  expect_words(reason_of(Config::parse("\xEF\xBB\xBF"
                                       "mode=shared",
                                       Config{})),
               {"byte order mark"});
}

TEST(SameWords, ReferenceToNoCharacterCutsNoValue) {
  for (const char* reference : {"&#0;", "&#x0;", "&#00;", "&#4294967296;", "&#x100000000;",
                                "&#1114112;", "&#x110000;", "&#99999999999999999999;"}) {
    const std::string document =
        "<baton><processor engine=\"emulated" + std::string(reference) + "x\"/></baton>";
    expect_words(reason_of(Config::parse_xml(document, Config{})), {"reference to no character"});
  }
  for (const char* reference : {"&#1;", "&#x10ffff;", "&#1114111;"}) {
    const std::string document =
        "<baton><processor engine=\"" + std::string(reference) + "\"/></baton>";
    expect_words(reason_of(Config::parse_xml(document, Config{})), {"engine=", "emulated"});
  }
}

TEST(SameWords, EmptySectionMakesNoProcessor) {
  expect_words(reason_of(Config::parse("engine=emulated;", Config{})),
               {"processor 1 is new and has no settings", "leave out"});
  Config team;
  team.processors.resize(2);
  const auto parsed = Config::parse("engine=emulated;", team);
  ASSERT_TRUE(parsed.has_value()) << parsed.error().reason;
  EXPECT_EQ(parsed->processors.size(), 2U);
  EXPECT_EQ(parsed->processors[1].engine, "auto");
}

TEST(SameWords, SettingOfAnotherEngineHasANote) {
  const auto noted = [](const std::string& text, const std::string& name) {
    const auto parsed = Config::parse(text, Config{});
    EXPECT_TRUE(parsed.has_value()) << parsed.error().reason;
    for (const std::string& line : parsed->sources) {
      if (line.starts_with("note: " + name)) return true;
    }
    return false;
  };
  EXPECT_TRUE(noted("engine=emulated,ring_entries=64", "ring_entries=64"));
  EXPECT_TRUE(noted("engine=emulated,profile=any", "profile=any"));
  EXPECT_TRUE(noted("engine=emulated,notify=suspend", "notify=suspend"));
  EXPECT_TRUE(noted("engine=emulated,wait=epoll,wait_signal=40", "wait_signal=40"));
  EXPECT_TRUE(noted("engine=emulated,interrupt=pipe,interrupt_signal=40", "interrupt_signal=40"));
  EXPECT_TRUE(noted("engine=emulated,chaos_error=5", "chaos_error=5"));
  EXPECT_FALSE(noted("ring_entries=64", "ring_entries"));  // "auto" may be io_uring
  EXPECT_FALSE(noted("engine=emulated,wait=rt_signals,wait_signal=40", "wait_signal"));
  EXPECT_FALSE(noted("engine=chaos,inner=io_uring,ring_entries=64", "ring_entries"));
}

TEST(SameWords, FileIsRegular) {
  std::string folder = testing::TempDir() + "configXXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  const std::string fifo = folder + "/fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  const int lowest_free = ::dup(STDIN_FILENO);
  ::close(lowest_free);
  expect_words(reason_of(Config::load_xml(fifo, Config{})), {fifo, "not a regular file"});
  expect_words(reason_of(Config::load_xml(folder, Config{})), {folder, "cannot be read"});
  expect_words(reason_of(Config::load_xml("/dev/zero", Config{})), {"not a regular file"});
  const int still_free = ::dup(STDIN_FILENO);
  ::close(still_free);
  EXPECT_EQ(still_free, lowest_free) << "none of them was left open";
  ::unlink(fifo.c_str());
  ::rmdir(folder.c_str());
}

}  // namespace
}  // namespace baton
