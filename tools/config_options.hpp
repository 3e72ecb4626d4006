// The options by which a command chooses engine, strategies and threads, and the Config they make.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>

#include "baton/config.hpp"

namespace baton::tools {

// Of these options, in --help.
inline constexpr const char* config_group = "Configuration";

struct ConfigOptions {
  std::string file;
  std::string engine;
  std::string wait;
  std::string interrupt;
  std::string mode;
  std::optional<std::uint32_t> threads;
};

void add_config_options(CLI::App& command, ConfigOptions& options);
// Commands that run more than one thread.
void add_threads_option(CLI::App& command, ConfigOptions& options);

// In order of rising precedence: the file, the environment (BATON_CONFIG, BATON, BATON_FORBID), the
// options. Settings without an option stay as they were.
Result<Config, Failure> make_config(const ConfigOptions& options);

// How many threads shall run handlers. `config` is what make_config has made.
std::uint32_t threads_of(const Config& config, const ConfigOptions& options);
// A warning on standard error for each option that the opened proactor has replaced; it names the
// rest by explain().
void warn_of_replacements(const char* command, const std::string& explanation,
                          const ConfigOptions& options);

// Prints why a command cannot go on, on standard error; returns the exit status for that.
int report_failure(const char* command, const Failure& failure);

}  // namespace baton::tools
