#include "known_bad.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

namespace baton::doctor {
namespace {

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r");
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

// Takes the part before `separator`, and leaves the part after it.
std::string_view take_until(std::string_view& rest, char separator) {
  const auto at = std::min(rest.find(separator), rest.size());
  const std::string_view part = rest.substr(0, at);
  rest.remove_prefix(std::min(at + 1, rest.size()));
  return part;
}

// --- conditions ---------------------------------------------------------------------------------

struct Term {
  std::string_view fact;
  std::string_view relation;
  std::string_view value;  // a version, a number, a word, or another fact's name
};

std::optional<Term> parse_term(std::string_view text) {
  text = trimmed(text);
  const auto at = text.find_first_of("<>=!");
  if (at == text.npos || at == 0) return std::nullopt;
  const std::size_t length =
      text.substr(at, 2) == "<=" || text.substr(at, 2) == ">=" || text.substr(at, 2) == "!=" ? 2
                                                                                             : 1;
  const Term term{trimmed(text.substr(0, at)), text.substr(at, length),
                  trimmed(text.substr(at + length))};
  const bool good = term.relation != "!" && !term.value.empty() &&
                    term.value.find_first_of("<>=!& ") == term.value.npos &&
                    term.fact.find(' ') == term.fact.npos;
  return good ? std::optional(term) : std::nullopt;
}

bool well_formed(std::string_view condition) {
  if (trimmed(condition).empty()) return false;
  while (!condition.empty()) {
    if (!parse_term(take_until(condition, '&'))) return false;
  }
  return true;
}

// A version is numbers between dots.
bool is_version(std::string_view text) {
  while (!text.empty()) {
    const std::string_view part = take_until(text, '.');
    int value = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
    if (error != std::errc{} || end != part.data() + part.size() || value < 0) return false;
  }
  return true;
}

// Finds misspelt facts, whose condition would never hold. Empty: all are known. REQUIRES: the
// condition is well formed.
std::string unknown_word(std::string_view condition) {
  while (!condition.empty()) {
    const Term term = *parse_term(take_until(condition, '&'));
    if (std::find(std::begin(fact_names), std::end(fact_names), term.fact) ==
        std::end(fact_names)) {
      return fmt::format("\"{}\" is not a fact; valid: {}", term.fact, fmt::join(fact_names, ", "));
    }
    const bool version = term.fact == "kernel" || term.fact == "glibc";
    if (version && !is_version(term.value)) {
      return fmt::format("\"{}\" is not a version; valid: numbers with dots between", term.value);
    }
  }
  return {};
}

bool related(double difference, std::string_view relation) {
  if (relation == "<") return difference < 0;
  if (relation == "<=") return difference <= 0;
  if (relation == ">") return difference > 0;
  if (relation == ">=") return difference >= 0;
  return (difference == 0) == (relation == "=");
}

std::optional<double> number_of(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

bool term_holds(const Term& term, const Facts& facts) {
  const Fact* fact = facts.find(term.fact);
  if (fact == nullptr) return false;
  if (term.fact == "kernel" || term.fact == "glibc") {
    return related(compare_versions(fact->text, term.value), term.relation);
  }
  std::optional<double> value = number_of(term.value);
  if (!value) value = facts.number(term.value);
  // Compared without a difference, because infinity minus infinity is no number.
  if (fact->number && value) {
    const double sign = *fact->number < *value ? -1 : *fact->number > *value ? 1 : 0;
    return related(sign, term.relation);
  }
  if (fact->number || value) return false;
  return related(fact->text.compare(term.value), term.relation);
}

// --- the file -----------------------------------------------------------------------------------

// Paragraphs of `key: value`. A line that begins with a blank continues the value before it.
class Reader {
 public:
  Reader(std::string_view text, std::string_view name) : rest_(text), name_(name) {}

  Result<std::vector<KnownBad>, Failure> read() {
    std::vector<KnownBad> all;
    KnownBad one;
    bool begun = false;
    for (bool more = true; more;) {
      more = !rest_.empty();
      const std::string_view line = more ? take_until(rest_, '\n') : std::string_view{};
      ++number_;
      if (line.starts_with('#')) continue;
      if (trimmed(line).empty()) {
        if (begun) {
          if (auto done = complete(one); !done) return unexpected{done.error()};
          all.push_back(std::move(one));
        }
        one = {};
        value_ = nullptr;
        keys_.clear();
        begun = false;
        continue;
      }
      begun = true;
      if (auto done = take(one, line); !done) return unexpected{done.error()};
    }
    return all;
  }

 private:
  Result<void, Failure> take(KnownBad& one, std::string_view line) {
    if (line.starts_with(' ')) {
      if (value_ == nullptr) return wrong("a continuation line without a line before it");
      *value_ += ' ';
      *value_ += trimmed(line);
      return {};
    }
    const std::string_view key = trimmed(take_until(line, ':'));
    if (std::find(keys_.begin(), keys_.end(), key) != keys_.end()) {
      return wrong(fmt::format("\"{}\" is given twice in one paragraph", key));
    }
    keys_.push_back(key);
    const std::string_view value = trimmed(line);
    value_ = field(one, key);
    if (value_ == nullptr && key != "level") {
      return wrong(
          fmt::format("unknown key \"{}\"; valid: when, about, level, what, so, do, source", key));
    }
    if (value_ != nullptr) {
      *value_ = value;
      return {};
    }
    for (const auto level :
         {KnownBad::Level::avoid, KnownBad::Level::last, KnownBad::Level::note}) {
      if (value != to_string(level)) continue;
      one.level = level;
      return {};
    }
    return wrong("level: valid: avoid, last, note");
  }

  static std::string* field(KnownBad& one, std::string_view key) {
    if (key == "when") return &one.when;
    if (key == "about") return &one.about;
    if (key == "what") return &one.what;
    if (key == "so") return &one.consequence;
    if (key == "do") return &one.advice;
    if (key == "source") return &one.source;
    return nullptr;
  }

  Result<void, Failure> complete(const KnownBad& one) const {
    if (!well_formed(one.when)) {
      return wrong(
          fmt::format("when: \"{}\" is not a condition; valid: FACT RELATION VALUE, several "
                      "joined by &",
                      one.when));
    }
    if (const std::string why = unknown_word(one.when); !why.empty()) return wrong("when: " + why);
    if (one.about != "system" && !one.about.starts_with("engine ") &&
        !one.about.starts_with("wait ") && !one.about.starts_with("interrupt ")) {
      return wrong("about: valid: system, engine NAME, wait NAME, interrupt NAME");
    }
    if (one.what.empty() || one.consequence.empty() || one.advice.empty() || one.source.empty()) {
      return wrong("one of what, so, do, source is missing above");
    }
    return {};
  }

  Result<void, Failure> wrong(const std::string& what) const {
    return unexpected{
        Failure{errc::bad_configuration, fmt::format("{}:{}: {}", name_, number_, what)}};
  }

  std::string_view rest_;
  std::string_view name_;
  std::size_t number_ = 0;
  std::vector<std::string_view> keys_;  // of the paragraph
  std::string* value_ = nullptr;        // of the last key, for lines that continue it
};

}  // namespace

const char* to_string(KnownBad::Level level) {
  switch (level) {
    case KnownBad::Level::avoid:
      return "avoid";
    case KnownBad::Level::last:
      return "last";
    case KnownBad::Level::note:
      break;
  }
  return "note";
}

Result<std::vector<KnownBad>, Failure> parse_known_bad(std::string_view text,
                                                       std::string_view name) {
  return Reader(text, name).read();
}

bool holds(std::string_view condition, const Facts& facts) {
  while (!condition.empty()) {
    const auto term = parse_term(take_until(condition, '&'));
    if (!term || !term_holds(*term, facts)) return false;
  }
  return true;
}

std::vector<KnownBad> known_bad_of(const std::vector<KnownBad>& list, const Facts& facts) {
  std::vector<KnownBad> found;
  for (const KnownBad& one : list) {
    if (holds(one.when, facts)) found.push_back(one);
  }
  return found;
}

int compare_versions(std::string_view a, std::string_view b) {
  while (!a.empty() || !b.empty()) {
    const auto next = [](std::string_view& rest) {
      const std::string_view part = take_until(rest, '.');
      int value = 0;
      std::from_chars(part.data(), part.data() + part.size(), value);
      return value;
    };
    const int difference = next(a) - next(b);
    if (difference != 0) return difference;
  }
  return 0;
}

}  // namespace baton::doctor
