#include "command_line.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <numeric>

#include "output.hpp"
#include "printable.hpp"

namespace baton::tools {
namespace {

const CLI::App& chosen(const CLI::App& app) {
  const CLI::App* deepest = &app;
  for (auto next = app.get_subcommands(); !next.empty(); next = deepest->get_subcommands()) {
    deepest = next.front();
  }
  return *deepest;
}

// "baton echo", or "baton" if no sub-command was recognised.
std::string name_of(const CLI::App& app) {
  std::string name = app.get_name();
  for (auto next = app.get_subcommands(); !next.empty(); next = next.front()->get_subcommands()) {
    name += " " + next.front()->get_name();
  }
  return name;
}

std::vector<std::string> commands_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* one : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(one->get_name());
  }
  return names;
}

std::vector<std::string> options_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* one : app.get_options()) {
    for (const std::string& name : one->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

// The number of letters that must be inserted, deleted, replaced, or exchanged with their neighbour
// to turn one word into the other (optimal string alignment).
std::size_t letters_apart(std::string_view a, std::string_view b) {
  std::vector<std::size_t> two_before(b.size() + 1);
  std::vector<std::size_t> before(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(before.begin(), before.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = before[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({replaced, before[j] + 1, row[j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], two_before[j - 2] + 1);
      }
    }
    std::swap(two_before, before);
    std::swap(before, row);
  }
  return before[b.size()];
}

std::string meant(std::string_view word, const std::vector<std::string>& known) {
  const std::string found = nearest(word, known);
  return found.empty() ? std::string{} : fmt::format(" (did you mean '{}'?)", found);
}

// The message for an unexpected word, where nothing or a sub-command may stand.
std::string unknown(const CLI::App& app, const std::string& word) {
  const std::string name = word.substr(0, word.find('='));
  const std::vector<std::string> commands = commands_of(app);
  if (!name.empty() && name.front() == '-') {
    return fmt::format("'{}' is not an option{}", name, meant(name, options_of(app)));
  }
  if (commands.empty()) {
    return fmt::format("'{}' is one argument too many{}", word,
                       meant("--" + word, options_of(app)));
  }
  const std::string guess = meant(word, commands);
  return fmt::format(
      "'{}' is not a sub-command{}", word,
      guess.empty() ? fmt::format("; there are {}", fmt::join(commands, ", ")) : guess);
}

const CLI::Option* find_option(const CLI::App& app, const std::string& name) {
  if (const CLI::Option* option = app.get_option_no_throw(name)) return option;
  return chosen(app).get_option_no_throw(name);
}

std::string sentence_of(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App& place = chosen(app);
  const std::vector<std::string> unread = place.remaining();
  const std::string what = error.what();
  const bool extra = error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError);
  const bool lacks_command = error.get_name() == "RequiredError" && !commands_of(place).empty() &&
                             place.get_subcommands().empty();
  if (extra && unread.empty()) {  // words behind "--": CLI11 names the first of them last
    return fmt::format("'{}' is one argument too many", what.substr(what.rfind(' ') + 1));
  }
  if (extra || (lacks_command && !unread.empty())) return unknown(place, unread.front());
  if (lacks_command) {
    return fmt::format("a sub-command is missing: {}", fmt::join(commands_of(place), ", "));
  }
  // CLI11 reports the number of missing or superfluous values, but not the valid ones.
  if (error.get_name() == "ArgumentMismatch") {
    const std::string name = what.substr(0, what.find(':'));
    if (const CLI::Option* option = find_option(app, name)) {
      const std::string type = option->get_type_name();  // "UINT:whole number from 1 to 5"
      const std::size_t colon = type.find(':');
      return fmt::format("{} takes one value ({}), and is given once", name,
                         type.substr(colon == std::string::npos ? 0 : colon + 1));
    }
  }
  return what;
}

}  // namespace

std::string nearest(std::string_view word, const std::vector<std::string>& known) {
  constexpr std::size_t letters_min = 3;  // a shorter beginning does not identify a word
  std::string best;
  std::size_t distance_max = std::max<std::size_t>(1, word.size() / 3);
  for (const std::string& one : known) {
    const std::size_t dashes = word.find_first_not_of('-');
    const bool begins = one.starts_with(word) && dashes != std::string_view::npos &&
                        word.size() - dashes >= letters_min;
    const std::size_t distance = begins ? 1 : letters_apart(word, one);
    if (distance > distance_max || (distance == distance_max && !best.empty())) continue;
    best = one;
    distance_max = distance;
  }
  return best;
}

int answer(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == 0) {  // --help, --version
    std::ostringstream text;
    app.exit(error, text, text);
    print_text(text.str());
    return 0;
  }
  // Wrong use exits with 2, as shells do, so that a script can tell it from a failed run.
  note("{}: {}; see {} --help\n", name_of(app), printable(sentence_of(app, error)), name_of(app));
  return 2;
}

}  // namespace baton::tools
