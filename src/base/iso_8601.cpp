// Points of the system clock as ISO 8601 text (B-02): "2026-01-31T12:00:00.000000Z". The time is
// always UTC, so that lines of several machines sort as text without knowing a time zone.
//
// The calendar is computed here because gmtime_r first reads the time zone's data under its lock.
// Days are turned into a date by Howard Hinnant's algorithm ("chrono-Compatible Low-Level Date
// Algorithms"). Years begin in March, so that the leap day is the last of its year. 400 years (an
// era) have a fixed number of days.
#include <array>
#include <cstdint>
#include <cstdio>

#include "baton/log.hpp"

namespace baton {
namespace {

constexpr std::int64_t us_per_second = 1'000'000;
constexpr std::int64_t us_per_day = 86'400 * us_per_second;
constexpr std::int64_t days_per_era = 146'097;            // 400 years
constexpr std::int64_t days_to_1970_from_0000 = 719'468;  // counted from 0000-03-01

struct Date {
  std::int64_t year;
  int month;
  int day;
};

/// Rounds towards minus infinity, as a calendar does before 1970.
constexpr std::int64_t floor_divide(std::int64_t value, std::int64_t by) noexcept {
  return value / by - (value % by < 0 ? 1 : 0);
}

constexpr Date date_of(std::int64_t days_since_1970) noexcept {
  const std::int64_t days = days_since_1970 + days_to_1970_from_0000;
  const std::int64_t era = floor_divide(days, days_per_era);
  const std::int64_t day_of_era = days - era * days_per_era;
  const std::int64_t year_of_era =
      (day_of_era - day_of_era / 1'460 + day_of_era / 36'524 - day_of_era / 146'096) / 365;
  const std::int64_t day_of_year =
      day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
  const std::int64_t month_from_march = (5 * day_of_year + 2) / 153;
  const int day = static_cast<int>(day_of_year - (153 * month_from_march + 2) / 5 + 1);
  const int month = static_cast<int>(month_from_march + (month_from_march < 10 ? 3 : -9));
  return {year_of_era + era * 400 + (month <= 2 ? 1 : 0), month, day};
}
static_assert(date_of(0).year == 1970 && date_of(0).month == 1 && date_of(0).day == 1);
static_assert(date_of(11'016).month == 2 && date_of(11'016).day == 29);  // 2000

}  // namespace

std::string iso_8601(std::int64_t unix_microseconds) {
  const std::int64_t days = floor_divide(unix_microseconds, us_per_day);
  // By remainder: days * us_per_day overflows for the earliest points.
  const std::int64_t remainder = unix_microseconds % us_per_day;
  const std::int64_t rest = remainder < 0 ? remainder + us_per_day : remainder;
  const Date date = date_of(days);
  const int second = static_cast<int>(rest / us_per_second);
  // Years beyond four digits get a sign and at least six digits, the standard's expanded form.
  const bool expanded = date.year < 0 || date.year > 9'999;
  std::array<char, 48> text{};
  const int length = std::snprintf(
      text.data(), text.size(),
      expanded ? "%+07lld-%02d-%02dT%02d:%02d:%02d.%06dZ" : "%04lld-%02d-%02dT%02d:%02d:%02d.%06dZ",
      static_cast<long long>(date.year), date.month, date.day, second / 3'600, second / 60 % 60,
      second % 60, static_cast<int>(rest % us_per_second));
  return {text.data(), static_cast<std::size_t>(length)};
}

}  // namespace baton
