// Which processor gets which engine.
#include "config/policy.hpp"

#include <algorithm>

#include "config/apply.hpp"

namespace baton::config {
namespace {

using Entries = std::vector<RegistryEntry<EngineFactory>>;

/// `name` to the front, the others keep their order.
void to_front(Entries& entries, std::string_view name) {
  const auto found = std::find_if(entries.begin(), entries.end(),
                                  [name](const auto& entry) { return entry.name == name; });
  if (found != entries.end()) std::rotate(entries.begin(), found, found + 1);
}

std::string engines_named(const Config& config) {
  std::string text;
  for (std::size_t i = 0; i < config.processors.size(); ++i) {
    text += (i == 0 ? "" : ", ") + processor_name(i) + " says engine=";
    text += config.processors[i].engine;
  }
  return text;
}

}  // namespace

bool contains(const std::vector<std::string>& list, std::string_view name) noexcept {
  return std::find(list.begin(), list.end(), name) != list.end();
}

std::vector<EngineWish> engine_wishes(const Config& config) {
  std::vector<EngineWish> wishes;
  std::vector<std::string> left = config.require;
  for (const ProcessorConfig& processor : config.processors) {
    wishes.push_back({processor.engine, contains(config.require, processor.engine)});
    std::erase(left, processor.engine);
  }
  if (config.require.empty()) return wishes;
  // Required engines that no processor names go to the processors that leave it open. When all have
  // a processor, the remaining processors take the first, so that no other engine is used by
  // accident.
  auto next = left.begin();
  for (EngineWish& wish : wishes) {
    if (wish.engine != "auto") continue;
    wish = {next != left.end() ? *next++ : config.require.front(), true};
  }
  return wishes;
}

Entries candidates(const Config& config, const EngineWish& wish, std::size_t builtin) {
  Entries entries = registry().engines();
  const auto added = entries.begin() + static_cast<std::ptrdiff_t>(builtin);
  const auto uncalled = [&](const auto& entry) {
    return entry.name != wish.engine && !contains(config.prefer, entry.name);
  };
  entries.erase(std::remove_if(added, entries.end(), uncalled), entries.end());
  std::erase_if(entries, [&](const auto& entry) { return entry.only_by_name && uncalled(entry); });
  for (auto name = config.prefer.rbegin(); name != config.prefer.rend(); ++name) {
    to_front(entries, *name);
  }
  to_front(entries, wish.engine);
  if (wish.required) entries.resize(1);
  return entries;
}

Result<void, Failure> check_policy(const Config& config, std::string_view place) {
  // The text forms split a list at these. A name of the program's own that holds one would name no
  // engine, and a forbidden engine would be used.
  for (const auto& [key, names] : {std::pair{"require", &config.require},
                                   {"prefer", &config.prefer},
                                   {"forbid", &config.forbid}}) {
    for (const std::string& name : *names) {
      if (!name.empty() && name.find_first_of(list_separators) == std::string::npos) continue;
      return unexpected{failure(place, key, name,
                                {errc::unknown_name,
                                 "is not the name of an engine; give each one "
                                 "as an entry of its own",
                                 ReasonCode::unknown_name})};
    }
  }
  for (const std::string& name : config.require) {
    if (!forbids(config, name)) continue;
    return unexpected{Failure{make_error_code(errc::bad_configuration),
                              std::string(place) + ": engine " + name +
                                  " is both required and forbidden; take it out of require "
                                  "(BATON_REQUIRE) or of forbid (BATON_FORBID)",
                              ReasonCode::contradiction}};
  }
  return {};
}

Result<void, Failure> check_required(const Config& config, std::string_view place) {
  // An empty list means one processor with defaults.
  const std::size_t open = config.processors.empty() ? 1 : 0;
  const std::vector<EngineWish> wishes = engine_wishes(config);
  for (std::size_t i = 0; i < config.require.size(); ++i) {
    const std::string& name = config.require[i];
    const bool placed = std::any_of(wishes.begin(), wishes.end(), [&name](const EngineWish& wish) {
      return wish.engine == name;
    });
    if (placed || i < open) continue;
    const std::string team = engines_named(config);
    return unexpected{Failure{make_error_code(errc::bad_configuration),
                              std::string(place) + ": engine " + name +
                                  " is required, and no processor is left for it" +
                                  (team.empty() ? "" : " (" + team + ")") + "; say engine=" + name +
                                  " or engine=auto for one of them",
                              ReasonCode::contradiction}};
  }
  return {};
}

}  // namespace baton::config
