// The list of known problems: its form, its conditions, and the built-in list.
#include "doctor/known_bad.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "baton/registry.hpp"

namespace baton::doctor {
namespace {

constexpr const char* rest = "level: note\nwhat: w\nso: s\ndo: d\nsource: u\n";

std::vector<KnownBad> parsed(const std::string& text) {
  auto list = parse_known_bad(text, "test");
  EXPECT_TRUE(list.has_value()) << list.error().reason;
  return list ? *list : std::vector<KnownBad>{};
}

std::string fault(const std::string& text) {
  const auto list = parse_known_bad(text, "test");
  return list ? "no fault" : list.error().reason;
}

Facts machine(const std::string& kernel) {
  Facts facts;
  facts.add("kernel", kernel);
  facts.add("machine.arch", std::string("x86_64"));
  facts.add("machine.cores", 4);
  facts.add_limit("cgroup.cpus", INFINITY);
  facts.add("rlimit.nofile_hard", 64);
  return facts;
}

TEST(Versions, AreComparedNumberByNumber) {
  EXPECT_LT(compare_versions("5.9", "5.10"), 0);
  EXPECT_GT(compare_versions("5.10.186", "5.10.99"), 0);
  EXPECT_EQ(compare_versions("6.1", "6.1.0"), 0);
  EXPECT_GT(compare_versions("6.1.1", "6.1"), 0);
  EXPECT_LT(compare_versions("", "1"), 0);
}

TEST(KnownBadCondition, RangeOfKernels) {
  const std::string range = "kernel >= 5.7 & kernel < 5.10.186";
  EXPECT_FALSE(holds(range, machine("5.4.3")));
  EXPECT_TRUE(holds(range, machine("5.7")));
  EXPECT_TRUE(holds(range, machine("5.10.185")));
  EXPECT_FALSE(holds(range, machine("5.10.186")));
  EXPECT_FALSE(holds(range, machine("6.18.44")));
}

TEST(KnownBadCondition, VersionsOfTheCLibrary) {
  Facts facts = machine("6.1");
  facts.add("glibc", std::string("2.36"));
  EXPECT_TRUE(holds("glibc >= 2.4", facts));
  EXPECT_FALSE(holds("glibc < 2.4", facts));
}

TEST(KnownBadCondition, NumbersWordsAndOtherFacts) {
  const Facts facts = machine("6.1");
  EXPECT_TRUE(holds("rlimit.nofile_hard < 4096", facts));
  EXPECT_FALSE(holds("rlimit.nofile_hard > 64", facts));
  EXPECT_TRUE(holds("rlimit.nofile_hard >= 64 & rlimit.nofile_hard <= 64", facts));
  EXPECT_TRUE(holds("machine.arch = x86_64", facts));
  EXPECT_TRUE(holds("machine.arch != armv7l", facts));
  EXPECT_FALSE(holds("machine.arch = armv7l", facts));
  EXPECT_FALSE(holds("cgroup.cpus < machine.cores", facts));  // there is no quota
  Facts small = machine("6.1");
  EXPECT_TRUE(holds("rlimit.nofile_hard > machine.cores", small));
}

TEST(KnownBadCondition, UnknownFactsAreNeverTrue) {
  EXPECT_FALSE(holds("nothing = 1", machine("6.1")));
  EXPECT_FALSE(holds("nothing != 1", machine("6.1")));
  EXPECT_FALSE(holds("kernel > 1 & nothing < 1", machine("6.1")));
  EXPECT_FALSE(holds("machine.arch < 3", machine("6.1")));
}

TEST(KnownBadList, ParagraphsAndLinesThatGoOn) {
  const auto list = parsed(
      "# a comment\n\nwhen: kernel < 6\nabout: engine x\nlevel: avoid\nwhat: one\n  two\nso: s\n"
      "do: d\nsource: u\n\n\nwhen: kernel > 6\nabout: system\n" +
      std::string(rest));
  ASSERT_EQ(list.size(), 2U);
  EXPECT_EQ(list[0].what, "one two");
  EXPECT_EQ(list[0].level, KnownBad::Level::avoid);
  EXPECT_EQ(list[1].level, KnownBad::Level::note);
  EXPECT_EQ(known_bad_of(list, machine("5.4")).size(), 1U);
  EXPECT_EQ(known_bad_of(list, machine("5.4")).front().about, "engine x");
}

TEST(KnownBadList, FaultsNameTheirLine) {
  EXPECT_EQ(fault("when: kernel < 6\nabout: you\n" + std::string(rest)),
            "test:8: about: valid: system, engine NAME, wait NAME, interrupt NAME");
  EXPECT_NE(fault("colour: red\n").find("test:1: unknown key \"colour\"; valid: when"),
            std::string::npos);
  EXPECT_NE(fault(" goes on\n").find("test:1: "), std::string::npos);
  EXPECT_NE(fault("level: bad\n").find("avoid, last, note"), std::string::npos);
  for (const char* wrong : {"kernel", "kernel < ", "< 6", "kernel < 6 7", "a & b", "kernel ! 6"}) {
    EXPECT_NE(fault("when: " + std::string(wrong) + "\nabout: system\n" + rest).find("condition"),
              std::string::npos)
        << wrong;
  }
  EXPECT_NE(fault("when: kernel < 6\nabout: system\n").find("missing"), std::string::npos);
  EXPECT_NE(
      fault("when: kernl < 6\nabout: system\n" + std::string(rest)).find("\"kernl\" is not a fact"),
      std::string::npos);
  for (const char* version : {"99999999999", "6.x", "5..1", "-1"}) {
    EXPECT_NE(fault("when: kernel < " + std::string(version) + "\nabout: system\n" + rest)
                  .find("is not a version"),
              std::string::npos)
        << version;
  }
  EXPECT_NE(fault("when: kernel < 6\nwhen: kernel < 7\nabout: system\n" + std::string(rest))
                .find("given twice"),
            std::string::npos);
}

TEST(KnownBadList, BuiltInOneIsWellFormed) {
  const auto list = parsed(std::string(known_bad_built_in()));
  EXPECT_GE(list.size(), 10U);
  for (const KnownBad& one : list) {
    EXPECT_TRUE(one.source.starts_with("https://")) << one.what;
    EXPECT_EQ(one.what.back() == '.', false) << one.what;
  }
}

TEST(KnownBadList, KernelsThatAreKnown) {
  const auto list = parsed(std::string(known_bad_built_in()));
  const auto avoids_rings = [&](const std::string& kernel) {
    for (const KnownBad& one : known_bad_of(list, machine(kernel))) {
      if (one.level == KnownBad::Level::avoid && one.about == "engine io_uring") return true;
    }
    return false;
  };
  EXPECT_TRUE(avoids_rings("5.8.3"));
  EXPECT_TRUE(avoids_rings("5.10.170"));
  EXPECT_FALSE(avoids_rings("5.10.209"));
  EXPECT_FALSE(avoids_rings("6.1.115"));
  EXPECT_FALSE(avoids_rings("6.18.44"));
}

}  // namespace
}  // namespace baton::doctor
