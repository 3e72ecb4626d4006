// Reason codes: their names and errors, and that the guide explains each.
#include "baton/reason_code.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "baton/error.hpp"

namespace baton {
namespace {

TEST(ReasonCode, NamesAreStableWordsAndAllDifferent) {
  std::set<std::string> names;
  for (int value = 0; value < reason_codes; ++value) {
    const std::string name = to_string(static_cast<ReasonCode>(value));
    EXPECT_EQ(name.find_first_not_of("abcdefghijklmnopqrstuvwxyz_"), std::string::npos) << name;
    EXPECT_TRUE(names.insert(name).second) << name;
  }
  EXPECT_STREQ(to_string(ReasonCode::taken_away), "taken_away");  // the last of the table
  EXPECT_STREQ(to_string(static_cast<ReasonCode>(200)), "unspecified");
}

TEST(ReasonCode, TheGuideHasARowForEach) {
  std::ifstream file{BATON_SOURCE_DIR "/docs/guide/operations.md"};
  std::stringstream guide;
  guide << file.rdbuf();
  for (int value = 0; value < reason_codes; ++value) {
    const std::string row =
        "\n| `" + std::string(to_string(static_cast<ReasonCode>(value))) + "` |";
    EXPECT_NE(guide.str().find(row), std::string::npos) << row;
  }
}

TEST(ReasonCode, AnErrorHasOneByItself) {
  const Failure full{std::make_error_code(std::errc::too_many_files_open), ""};
  EXPECT_EQ(full.reason_code, ReasonCode::limit_descriptors);
  EXPECT_EQ(reason_code_of(errc::engine_forbidden), ReasonCode::forbidden);
  EXPECT_EQ(reason_code_of(errc::bad_configuration), ReasonCode::bad_value);
  EXPECT_EQ(reason_code_of(std::make_error_code(std::errc::io_error)), ReasonCode::system_error);
  EXPECT_EQ(reason_code_of({EPERM, std::system_category()}), ReasonCode::denied);
  EXPECT_EQ(reason_code_of({}), ReasonCode::unspecified);
  const Failure given{errc::engine_unavailable, "", ReasonCode::denied_sysctl};
  EXPECT_EQ(given.reason_code, ReasonCode::denied_sysctl);
}

TEST(ReasonCode, FollowsTheSentence) {
  EXPECT_EQ(with_code("no descriptor left", ReasonCode::limit_descriptors),
            "no descriptor left [limit_descriptors]");
}

}  // namespace
}  // namespace baton
