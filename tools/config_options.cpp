#include "config_options.hpp"

#include <fmt/format.h>

#include <cstdio>

namespace baton::tools {
namespace {

void append(std::string& text, const char* name, const std::string& value) {
  if (!value.empty()) text += fmt::format("{}{}={}", text.empty() ? "" : ",", name, value);
}

constexpr const char* group = "Configuration";

}  // namespace

void add_config_options(CLI::App& command, ConfigOptions& options) {
  command.add_option("--config", options.file, "XML file, below the environment")->group(group);
  command.add_option("--engine", options.engine, "Engine (see 'baton engines')")->group(group);
  command.add_option("--wait", options.wait, "Wait strategy of a readiness engine")->group(group);
  command.add_option("--interrupt", options.interrupt, "How a wait is cut short")->group(group);
  command.add_option("--mode", options.mode, "shared, dedicated or per_thread")->group(group);
}

void add_threads_option(CLI::App& command, ConfigOptions& options) {
  command.add_option("--threads", options.threads, "Threads that run handlers")
      ->capture_default_str()
      ->group(group)
      ->check(CLI::Range(1U, limits::lanes_max));
}

Result<Config, Failure> make_config(const ConfigOptions& options) {
  Config config;
  if (!options.file.empty()) {
    auto loaded = Config::load_xml(options.file, config);
    if (!loaded) return loaded;
    config = std::move(*loaded);
  }
  auto surroundings = Config::parse_environment(std::move(config));
  if (!surroundings) return surroundings;
  config = std::move(*surroundings);

  if (config.processors.empty()) config.processors.emplace_back();
  for (ProcessorConfig& processor : config.processors) processor.threads = options.threads;
  std::string text;
  append(text, "engine", options.engine);
  append(text, "wait", options.wait);
  append(text, "interrupt", options.interrupt);
  append(text, "mode", options.mode);
  if (text.empty()) return config;
  return Config::parse(text, std::move(config));
}

int report_failure(const char* command, const Failure& failure) {
  fmt::print(stderr, "baton {}: {}\n", command, with_code(failure.reason, failure.reason_code));
  return 1;
}

}  // namespace baton::tools
