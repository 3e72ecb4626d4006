// The options by which a command chooses engine, strategies and threads, and the Config they make.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>

#include "baton/config.hpp"

namespace baton::tools {

// The heading of these options in --help.
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

// Reads, in order of rising precedence, the file, the environment (BATON_CONFIG, BATON,
// BATON_FORBID) and the options. Settings without an option keep their values.
Result<Config, Failure> make_config(const ConfigOptions& options);

// The number of threads that run handlers. `config` is the result of make_config.
std::uint32_t threads_of(const Config& config, const ConfigOptions& options);
// Prints a warning on standard error for each option whose choice the opened proactor has replaced.
// explain() names the other replacements.
void warn_of_replacements(const char* command, const std::string& explanation,
                          const ConfigOptions& options);

// Prints on standard error why a command ends; returns its exit status.
int report_failure(const char* command, const Failure& failure);

}  // namespace baton::tools
