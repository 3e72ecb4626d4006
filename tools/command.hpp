// The sub-commands of `baton`, one source file each.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace baton::tools {

// The function that main runs once the command line is understood; returns the exit status. Each
// add_ function declares its sub-command and arranges that `run` is set when the user chose it.
using Run = std::function<int()>;

void add_bench_command(CLI::App& app, Run& run);
void add_completion_command(CLI::App& app, Run& run);
void add_doctor_command(CLI::App& app, Run& run);
void add_echo_command(CLI::App& app, Run& run);
void add_engines_command(CLI::App& app, Run& run);
void add_load_command(CLI::App& app, Run& run);
void add_sim_command(CLI::App& app, Run& run);

}  // namespace baton::tools
