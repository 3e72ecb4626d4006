// The rules of HTTP that httpd follows: targets, ranges, conditions, dates, media types.
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <string_view>

#include "conditional.hpp"
#include "date.hpp"
#include "mime.hpp"
#include "range.hpp"
#include "target.hpp"

namespace httpd {
namespace {

// -- targets --------------------------------------------------------------------------------------

std::string resolved(std::string_view target, bool hidden = false) {
  Path path;
  const Status status = resolve_target(target, hidden, path);
  if (status != Status::ok) return std::to_string(static_cast<int>(status));
  return path.text + (path.folder ? " folder" : "");
}

TEST(Target, becomes_a_path_below_the_root) {
  EXPECT_EQ(resolved("/"), " folder");
  EXPECT_EQ(resolved("/a/b.html"), "a/b.html");
  EXPECT_EQ(resolved("/a/b/"), "a/b folder");
  EXPECT_EQ(resolved("//a///b"), "a/b");
  EXPECT_EQ(resolved("/a/./b/."), "a/b folder");
  EXPECT_EQ(resolved("/a?b/../c"), "a");
  EXPECT_EQ(resolved("/a%20b%C3%A4"), "a b\xC3\xA4");
  EXPECT_EQ(resolved("/a..b/...c..."), "404");
  EXPECT_EQ(resolved("/a..b/c..."), "a..b/c...");
  EXPECT_EQ(resolved("/%252e%252e/x"), "%2e%2e/x");
  EXPECT_EQ(resolved("http://host/a"), "a");
  EXPECT_EQ(resolved("http://host"), " folder");
  EXPECT_EQ(resolved("http://host?x=/y"), " folder");
}

TEST(Target, that_climbs_or_is_malformed_is_refused) {
  for (const char* target : {"",
                             "*",
                             "a",
                             "?",
                             "/..",
                             "/../a",
                             "/a/..",
                             "/a/../b",
                             "/%2e%2e/a",
                             "/.%2E/a",
                             "/%2E%2e",
                             "/a%2fb",
                             "/a%2Fb",
                             "/%00",
                             "/a%0d%0aX:y",
                             "/%7f",
                             "/%",
                             "/%4",
                             "/%zz",
                             "/%4g",
                             "/a#b",
                             "http://host/../a",
                             "host:80",
                             "/.git/../../x"}) {
    EXPECT_EQ(resolved(target), "400") << target;
  }
  EXPECT_EQ(resolved(std::string_view("/a\0b", 4)), "400");
}

TEST(Target, hidden_names_are_nobodys_business) {
  EXPECT_EQ(resolved("/.git/config"), "404");
  EXPECT_EQ(resolved("/a/.htpasswd"), "404");
  EXPECT_EQ(resolved("/%2egit"), "404");
  EXPECT_EQ(resolved("/.well-known/acme"), ".well-known/acme");
  EXPECT_EQ(resolved("/.git/config", true), ".git/config");
}

TEST(Target, of_a_path_is_escaped_and_names_no_host) {
  EXPECT_EQ(to_target({"", true}), "/");
  EXPECT_EQ(to_target({"a b/c", true}), "/a%20b/c/");
  EXPECT_EQ(to_target({"a\r\nX: y", false}), "/a%0D%0AX%3A%20y");
  Path path;
  ASSERT_EQ(resolve_target("//evil.example/x", false, path), Status::ok);
  EXPECT_EQ(to_target(path), "/evil.example/x");
}

// -- ranges ---------------------------------------------------------------------------------------

std::string range(std::string_view header, std::uint64_t size) {
  const Range found = parse_range(header, size);
  if (found.kind == Range::Kind::whole) return "whole";
  if (found.kind == Range::Kind::unsatisfiable) return "none";
  return std::to_string(found.offset) + "+" + std::to_string(found.length);
}

TEST(RangeHeader, one_range) {
  EXPECT_EQ(range("bytes=0-0", 10), "0+1");
  EXPECT_EQ(range("bytes=2-5", 10), "2+4");
  EXPECT_EQ(range("Bytes= 2-5 ", 10), "2+4");
  EXPECT_EQ(range("bytes=7-", 10), "7+3");
  EXPECT_EQ(range("bytes=7-9", 10), "7+3");
  EXPECT_EQ(range("bytes=7-10", 10), "7+3");
  EXPECT_EQ(range("bytes=7-100", 10), "7+3");
  EXPECT_EQ(range("bytes=-3", 10), "7+3");
  EXPECT_EQ(range("bytes=-30", 10), "0+10");
  EXPECT_EQ(range("bytes=5-99999999999999999999999999", 10), "5+5");
  EXPECT_EQ(range("bytes=0-18446744073709551615", 10), "0+10");
  EXPECT_EQ(range("bytes=0-18446744073709551619", 10), "0+10") << "3 more than 64 bits hold";
}

TEST(RangeHeader, beyond_the_end) {
  EXPECT_EQ(range("bytes=10-", 10), "none");
  EXPECT_EQ(range("bytes=10-20", 10), "none");
  EXPECT_EQ(range("bytes=-0", 10), "none");
  EXPECT_EQ(range("bytes=0-", 0), "none");
  EXPECT_EQ(range("bytes=-1", 0), "none");
  EXPECT_EQ(range("bytes=99999999999999999999999999-", 10), "none");
}

TEST(RangeHeader, what_is_ignored) {
  for (const char* header : {"", "bytes", "bytes=", "bytes=-", "bytes=a-b", "bytes=5-2", "bytes=1",
                             "bytes=0-1,3-4", "lines=0-1", "bytes=1-2-3", "bytes=+1-2"}) {
    EXPECT_EQ(range(header, 10), "whole") << header;
  }
}

// -- conditions and dates -------------------------------------------------------------------------

constexpr Validators file{"\"abc\"", 784'111'777};
constexpr std::string_view date = "Sun, 06 Nov 1994 08:49:37 GMT";
constexpr std::string_view earlier = "Sun, 06 Nov 1994 08:49:36 GMT";

TEST(Conditions, by_entity_tag) {
  const auto none_match = [](std::string_view list) {
    return evaluate({.if_none_match = list}, file);
  };
  EXPECT_EQ(none_match("\"abc\""), Verdict::not_modified);
  EXPECT_EQ(none_match("W/\"abc\""), Verdict::not_modified);
  EXPECT_EQ(none_match("\"x\", \"abc\""), Verdict::not_modified);
  EXPECT_EQ(none_match("*"), Verdict::not_modified);
  EXPECT_EQ(none_match("\"x\""), Verdict::go_on);
  EXPECT_EQ(none_match("abc"), Verdict::go_on);
  EXPECT_EQ(none_match("\"abc"), Verdict::go_on);
  EXPECT_EQ(evaluate({.if_match = "\"abc\""}, file), Verdict::go_on);
  EXPECT_EQ(evaluate({.if_match = "W/\"abc\""}, file), Verdict::precondition_failed);
  EXPECT_EQ(evaluate({.if_match = "\"x\""}, file), Verdict::precondition_failed);
}

TEST(Conditions, by_date_and_in_order) {
  EXPECT_EQ(evaluate({}, file), Verdict::go_on);
  EXPECT_EQ(evaluate({.if_modified_since = date}, file), Verdict::not_modified);
  EXPECT_EQ(evaluate({.if_modified_since = earlier}, file), Verdict::go_on);
  EXPECT_EQ(evaluate({.if_modified_since = "soon"}, file), Verdict::go_on);
  EXPECT_EQ(evaluate({.if_unmodified_since = earlier}, file), Verdict::precondition_failed);
  EXPECT_EQ(evaluate({.if_unmodified_since = date}, file), Verdict::go_on);
  // A tag counts, and the date beside it does not.
  EXPECT_EQ(evaluate({.if_none_match = "\"x\"", .if_modified_since = date}, file), Verdict::go_on);
}

TEST(Conditions, of_a_range) {
  const Seconds later = file.modified + 100;
  EXPECT_TRUE(range_applies("", file, later));
  EXPECT_TRUE(range_applies("\"abc\"", file, later));
  EXPECT_FALSE(range_applies("W/\"abc\"", file, later));
  EXPECT_FALSE(range_applies("\"x\"", file, later));
  EXPECT_TRUE(range_applies(date, file, later));
  EXPECT_FALSE(range_applies(earlier, file, later));
  EXPECT_FALSE(range_applies(date, file, file.modified + 1)) << "it may change in this second";
}

TEST(Date, there_and_back) {
  EXPECT_EQ(to_http_date(file.modified), date);
  EXPECT_EQ(from_http_date(date), file.modified);
  EXPECT_EQ(to_http_date(0), "Thu, 01 Jan 1970 00:00:00 GMT");
  EXPECT_EQ(from_http_date(to_http_date(1'709'164'800)), 1'709'164'800);  // a 29th of February
  for (const char* text :
       {"", "now", "Sun, 06 Nov 1994 08:49:37 CET", "Sun, 31 Feb 1994 08:49:37 GMT",
        "Sun, 06 Now 1994 08:49:37 GMT", "Sun, 06 Nov 1994 24:49:37 GMT",
        "Sunday, 06-Nov-94 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:-7 GMT"}) {
    EXPECT_FALSE(from_http_date(text)) << text;
  }
  EXPECT_EQ(date_line().substr(0, 6), "Date: ");
  EXPECT_EQ(date_line().size(), 6 + date.size() + 2);
}

// Found by fuzzing: a leap second at the end of the year 9999 had no form, and a file dated beyond
// was told to be of the year 0000.
TEST(Date, has_four_digits_for_the_year) {
  constexpr Seconds last = 253'402'300'799;
  EXPECT_EQ(to_http_date(last), "Fri, 31 Dec 9999 23:59:59 GMT");
  EXPECT_EQ(to_http_date(last + 1), to_http_date(last));
  EXPECT_EQ(to_http_date(std::numeric_limits<Seconds>::max()), to_http_date(last));
  EXPECT_EQ(to_http_date(std::numeric_limits<Seconds>::min()), "Sat, 01 Jan 0000 00:00:00 GMT");
  EXPECT_EQ(from_http_date("Fri, 31 Dec 9999 23:59:60 GMT"), last);
}

TEST(MediaType, by_the_ending) {
  EXPECT_EQ(media_type("a/b.html"), "text/html; charset=utf-8");
  EXPECT_EQ(media_type("B.PNG"), "image/png");
  EXPECT_EQ(media_type("a.tar.gz"), "application/gzip");
  for (const char* name : {"a", "", "html", "a.html/b", ".", "a.", "a.unknown"}) {
    EXPECT_EQ(media_type(name), "application/octet-stream") << name;
  }
}

}  // namespace
}  // namespace httpd
