#include "config_options.hpp"

#include <fmt/format.h>

#include <string_view>
#include <utility>
#include <vector>

#include "baton/registry.hpp"
#include "config/apply.hpp"
#include "option_checks.hpp"
#include "output.hpp"
#include "printable.hpp"

namespace baton::tools {
namespace {

// The first processor in mode per_thread; null: there is none.
const ProcessorConfig* per_thread(const Config& config) {
  for (const ProcessorConfig& one : config.processors) {
    if (one.mode == Mode::per_thread) return &one;
  }
  return nullptr;
}

constexpr const char* group = config_group;

// "auto" and the names of the registry.
template <class Entry>
std::vector<std::string> names_of(const std::vector<Entry>& entries) {
  std::vector<std::string> names{"auto"};
  for (const Entry& entry : entries) {
    if (!entry.only_by_name) names.push_back(entry.name);
  }
  return names;
}

}  // namespace

void add_config_options(CLI::App& command, ConfigOptions& options) {
  command.add_option("--config", options.file, "XML file, which the environment overrides")
      ->group(group)
      ->check(not_empty("name of a file"));
  command.add_option("--engine", options.engine, "Engine, one that baton engines lists")
      ->group(group)
      ->check(name_like(names_of(registry().engines())));
  command.add_option("--wait", options.wait, "Wait strategy of a readiness engine")
      ->group(group)
      ->check(name_like(names_of(registry().wait_strategies())));
  auto interrupts = names_of(registry().interrupt_strategies());
  interrupts.emplace_back("ring");  // io_uring's own
  command.add_option("--interrupt", options.interrupt, "How a wait is cut short")
      ->group(group)
      ->check(name_like(std::move(interrupts)));
  command.add_option("--mode", options.mode, "How threads share the work")
      ->group(group)
      ->check(name_like({"auto", "shared", "dedicated", "per_thread"}));
}

void add_threads_option(CLI::App& command, ConfigOptions& options) {
  command.add_option("--threads", options.threads, "Threads that run handlers")
      ->group(group)
      ->default_str("1; per_thread: as the configuration says, or 1")
      ->check(whole_number(1, limits::lanes_max));
}

Result<Config, Failure> make_config(const ConfigOptions& options) {
  Result<Config, Failure> made = Config{};
  if (!options.file.empty()) made = Config::load_xml(options.file, std::move(*made));
  if (made) made = Config::parse_environment(std::move(*made));
  const auto set = [&](const char* option, const char* name, const std::string& value) {
    if (made && !value.empty()) made = config::set_named(name, value, std::move(*made), option);
  };
  set("--engine", "engine", options.engine);
  set("--wait", "wait", options.wait);
  set("--interrupt", "interrupt", options.interrupt);
  set("--mode", "mode", options.mode);
  // The number of lanes is the number of threads that run handlers. Other modes have no lanes.
  const ProcessorConfig* const lanes = made ? per_thread(*made) : nullptr;
  if (lanes == nullptr) return made;
  if (options.threads) {
    set("--threads", "threads", std::to_string(*options.threads));
  } else if (lanes->threads == 0) {
    set("this command", "threads", "1");
  }
  return made;
}

std::uint32_t threads_of(const Config& config, const ConfigOptions& options) {
  if (const ProcessorConfig* const lanes = per_thread(config)) return lanes->threads;
  return options.threads.value_or(1);
}

void warn_of_replacements(const char* command, const std::string& explanation,
                          const ConfigOptions& options) {
  const auto chosen = [&](std::string_view name) {
    const std::string mark = fmt::format(" {}=", name);
    const std::size_t line = explanation.find("processor 0: engine=");
    const std::size_t at = explanation.find(mark, line);
    if (line == std::string::npos || at == std::string::npos || at > explanation.find('\n', line)) {
      return std::string{};
    }
    const std::size_t begin = at + mark.size();
    return explanation.substr(begin, explanation.find_first_of(" \n", begin) - begin);
  };
  const auto warn = [&](const char* name, const std::string& wanted) {
    if (wanted.empty() || wanted == "auto") return;
    const std::string got = chosen(name);
    if (got == wanted) return;
    note("baton {}: warning: --{} {} is replaced by {}; --explain says why\n", command, name,
         printable(wanted), got.empty() ? "the engine's own way" : got);
  };
  warn("engine", options.engine);
  warn("wait", options.wait);
  warn("interrupt", options.interrupt);
}

int report_failure(const char* command, const Failure& failure) {
  note("baton {}: {}\n", command, printable(with_code(failure.reason, failure.reason_code)));
  return 1;
}

}  // namespace baton::tools
