// Error codes as values: the category, its texts, the equal conditions.
#include "baton/error.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <system_error>

namespace baton {
namespace {

constexpr int last_errc = static_cast<int>(errc::engine_lost);

TEST(Error, EveryCodeHasATextOfItsOwn) {
  std::set<std::string> texts;
  for (int value = 1; value <= last_errc; ++value) {
    const std::string text = std::error_code(value, error_category()).message();
    EXPECT_NE(text, "unknown error of Baton") << value;
    EXPECT_TRUE(texts.insert(text).second) << text;
  }
  EXPECT_EQ(std::error_code(last_errc + 1, error_category()).message(), "unknown error of Baton");
  EXPECT_STREQ(error_category().name(), "baton");
}

TEST(Error, ValuesArePartOfTheInterface) {
  EXPECT_EQ(static_cast<int>(errc::operation_in_use), 1);
  EXPECT_EQ(static_cast<int>(errc::timed_out), 6);
  EXPECT_EQ(static_cast<int>(errc::bad_configuration), 17);
  EXPECT_EQ(static_cast<int>(errc::after_fork), 18);
  EXPECT_EQ(static_cast<int>(errc::wrong_handle_kind), 19);
  EXPECT_EQ(static_cast<int>(errc::already_adopted), 20);
  EXPECT_EQ(static_cast<int>(errc::not_prepared), 21);
  EXPECT_EQ(static_cast<int>(errc::engine_lost), 22);
}

TEST(Error, ComparesWithTheSystemsConditionsWhereOneFits) {
  const std::error_code timed_out = errc::timed_out;
  EXPECT_EQ(timed_out, std::errc::timed_out);
  EXPECT_EQ(make_error_code(errc::not_supported), std::errc::operation_not_supported);
  EXPECT_EQ(make_error_code(errc::no_free_handles), std::errc::too_many_files_open);
  EXPECT_EQ(make_error_code(errc::limit_reached), std::errc::resource_unavailable_try_again);
  EXPECT_EQ(make_error_code(errc::handle_closed), std::errc::bad_file_descriptor);
  EXPECT_EQ(make_error_code(errc::pool_exhausted), std::errc::no_buffer_space);
  EXPECT_EQ(make_error_code(errc::unknown_name), std::errc::invalid_argument);
  EXPECT_NE(make_error_code(errc::stopped), std::errc::operation_canceled);
  EXPECT_NE(make_error_code(errc::timed_out), errc::stopped);
}

}  // namespace
}  // namespace baton
