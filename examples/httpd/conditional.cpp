// Entity tags and dates, compared.
#include "conditional.hpp"

#include <cstddef>
#include <optional>

namespace httpd {
namespace {

enum class Compare : std::uint8_t { strong, weak };

// Whether a list of entity tags ('"a", W/"b"' or '*') has that one. A weak tag never equals by the
// strong comparison; ours are strong. A list that is malformed has what stood before the fault.
bool lists(std::string_view list, std::string_view etag, Compare compare) {
  while (!list.empty()) {
    if (list.front() == ' ' || list.front() == '\t' || list.front() == ',') {
      list.remove_prefix(1);
      continue;
    }
    if (list.front() == '*') return true;
    const bool weak = list.starts_with("W/");
    if (weak) list.remove_prefix(2);
    if (list.empty() || list.front() != '"') return false;
    const std::size_t end = list.find('"', 1);
    if (end == std::string_view::npos) return false;
    if (list.substr(0, end + 1) == etag && (!weak || compare == Compare::weak)) return true;
    list.remove_prefix(end + 1);
  }
  return false;
}

}  // namespace

Verdict evaluate(const Conditions& conditions, const Validators& file) {
  if (conditions.none()) return Verdict::go_on;
  if (!conditions.if_match.empty()) {
    if (!lists(conditions.if_match, file.etag, Compare::strong)) {
      return Verdict::precondition_failed;
    }
  } else if (const auto date = from_http_date(conditions.if_unmodified_since)) {
    if (file.modified > *date) return Verdict::precondition_failed;
  }
  if (!conditions.if_none_match.empty()) {
    return lists(conditions.if_none_match, file.etag, Compare::weak) ? Verdict::not_modified
                                                                     : Verdict::go_on;
  }
  if (const auto date = from_http_date(conditions.if_modified_since)) {
    if (file.modified <= *date) return Verdict::not_modified;
  }
  return Verdict::go_on;
}

bool range_applies(std::string_view if_range, const Validators& file, Seconds now) {
  if (if_range.empty()) return true;
  if (if_range.front() == '"') return if_range == file.etag;
  const auto date = from_http_date(if_range);
  return date && *date == file.modified && now - file.modified > 1;
}

}  // namespace httpd
