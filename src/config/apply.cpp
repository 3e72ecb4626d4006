// Puts settings into a Config, and records where each came from and what it replaced.
#include "config/apply.hpp"

#include <algorithm>

#include "base/assert.hpp"

namespace baton::config {

std::string processor_name(std::size_t index) { return "processor " + std::to_string(index); }

Result<void, Failure> Applier::set(std::string_view place, std::string_view name,
                                   std::string_view value) {
  const Key<Config>* key = find_key(proactor_keys(), name);
  BATON_ASSERT(key != nullptr);
  const std::string before = key->get(config_);
  if (const auto problem = key->set(config_, value)) {
    return unexpected{failure(place, name, value, *problem)};
  }
  // require and forbid add to earlier values.
  const bool kept = key->get(config_).starts_with(before + ",");
  account("", name, std::string(value), kept ? "" : before);
  return {};
}

Result<void, Failure> Applier::set(std::string_view place, std::string_view name,
                                   std::string_view value, std::size_t first, std::size_t last) {
  const Key<ProcessorConfig>* key = find_key(processor_keys(), name);
  BATON_ASSERT(key != nullptr);
  std::vector<std::string> before;
  for (std::size_t i = first; i < last; ++i) {
    std::string old = key->get(config_.processors[i]);
    if (const auto problem = key->set(config_.processors[i], value)) {
      return unexpected{failure(place, name, value, *problem)};
    }
    const bool known = std::find(before.begin(), before.end(), old) != before.end();
    if (!known && !old.empty()) before.push_back(std::move(old));
  }
  const bool one_of_several = last - first == 1 && config_.processors.size() > 1;
  account(one_of_several ? processor_name(first) + ": " : "", name, std::string(value),
          joined(before));
  return {};
}

void Applier::account(std::string_view prefix, std::string_view name, const std::string& value,
                      const std::string& before) {
  std::string line(prefix);
  line += name;
  line += '=';
  line += value;
  line += " from ";
  line += source_;
  if (!before.empty() && before != value) line += ", instead of " + before;
  config_.sources.push_back(std::move(line));
}

void account_for_program(Config& config) {
  if (!config.sources.empty()) return;
  for (const Key<Config>& key : proactor_keys()) {
    const std::string value = key.get(config);
    if (value.empty()) continue;
    config.sources.push_back(std::string(key.name) + "=" + value + " from the program");
  }
  for (std::size_t i = 0; i < config.processors.size(); ++i) {
    const std::string prefix = config.processors.size() > 1 ? processor_name(i) + ": " : "";
    for (const Key<ProcessorConfig>& key : processor_keys()) {
      const std::string value = key.get(config.processors[i]);
      if (value.empty()) continue;
      config.sources.push_back(prefix + std::string(key.name) + "=" + value + " from the program");
    }
  }
}

}  // namespace baton::config
