// `baton bench`: benchmarks that need no second program of ours; each has a file of its own in
// bench/ and a line in this table.
#include "bench/fairness.hpp"
#include "command.hpp"

namespace baton::tools {
namespace {

constexpr void (*benchmarks[])(CLI::App& bench, Run& run) = {add_fairness_benchmark};

}  // namespace

void add_bench_command(CLI::App& app, Run& run) {
  auto& command = *app.add_subcommand("bench", "Measure Baton beside others, in one run");
  command.require_subcommand(1);
  for (const auto add : benchmarks) add(command, run);
}

}  // namespace baton::tools
