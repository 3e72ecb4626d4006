// Dates of HTTP, without a look at the locale.
#include "date.hpp"

#include <time.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>

namespace httpd {
namespace {

using std::chrono::days;
using std::chrono::sys_days;
using std::chrono::sys_seconds;
using std::chrono::year;

constexpr std::array<std::string_view, 7> weekdays{"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
constexpr std::array<std::string_view, 12> months{"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                  "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};

// The first and the last second that have a form: of the years 0000 and 9999.
constexpr Seconds first = sys_seconds{sys_days{year{0} / 1 / 1}}.time_since_epoch().count();
constexpr Seconds last = sys_seconds{sys_days{year{10'000} / 1 / 1}}.time_since_epoch().count() - 1;

// The number at a fixed place in the text, where nothing but digits may stand.
std::optional<int> number_at(std::string_view text, std::size_t at, std::size_t digits) {
  int value = 0;
  for (const char c : text.substr(at, digits)) {
    if (c < '0' || c > '9') return {};
    value = value * 10 + (c - '0');
  }
  return value;
}

void put_number(std::string& out, std::size_t at, std::size_t digits, unsigned value) {
  while (digits-- > 0) {
    out[at + digits] = static_cast<char>('0' + value % 10);
    value /= 10;
  }
}

}  // namespace

std::string to_http_date(Seconds when) {
  // A file system may know years that four digits cannot say.
  const sys_seconds time{std::chrono::seconds{std::clamp(when, first, last)}};
  const sys_days day = std::chrono::floor<days>(time);
  const std::chrono::year_month_day date{day};
  const std::chrono::hh_mm_ss clock{time - day};

  std::string text = "Sun, 06 Nov 1994 08:49:37 GMT";
  text.replace(0, 3, weekdays[std::chrono::weekday{day}.c_encoding()]);
  put_number(text, 5, 2, static_cast<unsigned>(date.day()));
  text.replace(8, 3, months[static_cast<unsigned>(date.month()) - 1]);
  put_number(text, 12, 4, static_cast<unsigned>(static_cast<int>(date.year())));
  put_number(text, 17, 2, static_cast<unsigned>(clock.hours().count()));
  put_number(text, 20, 2, static_cast<unsigned>(clock.minutes().count()));
  put_number(text, 23, 2, static_cast<unsigned>(clock.seconds().count()));
  return text;
}

std::optional<Seconds> from_http_date(std::string_view text) {
  if (text.size() != 29 || text.substr(25) != " GMT" || text[19] != ':' || text[22] != ':') {
    return {};
  }
  const auto day = number_at(text, 5, 2);
  const auto in_year = number_at(text, 12, 4);
  const auto hour = number_at(text, 17, 2);
  const auto minute = number_at(text, 20, 2);
  const auto second = number_at(text, 23, 2);
  unsigned month = 0;
  while (month < months.size() && months[month] != text.substr(8, 3)) ++month;
  if (!day || !in_year || !hour || !minute || !second || month == months.size()) return {};

  const std::chrono::year_month_day date{year{*in_year}, std::chrono::month{month + 1},
                                         std::chrono::day{static_cast<unsigned>(*day)}};
  // 60: a leap second, for which there is no number; taken for the one before.
  if (!date.ok() || *hour > 23 || *minute > 59 || *second > 60) return {};
  const auto since = sys_days{date}.time_since_epoch() + std::chrono::hours{*hour} +
                     std::chrono::minutes{*minute} + std::chrono::seconds{std::min(*second, 59)};
  return std::chrono::duration_cast<std::chrono::seconds>(since).count();
}

Seconds wall_clock() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME_COARSE, &now);
  return now.tv_sec;
}

std::string_view date_line() {
  static thread_local Seconds second = 0;
  static thread_local std::string line;
  const Seconds now = wall_clock();
  if (now != second) {
    line = "Date: " + to_http_date(now) + "\r\n";
    second = now;
  }
  return line;
}

}  // namespace httpd
