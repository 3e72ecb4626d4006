// `baton sim`: random programs in a simulated machine, each from a seed. `baton sim-merge`: adds up
// the results of several runs.
#include <fmt/format.h>

#include <charconv>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "command.hpp"
#include "option_checks.hpp"
#include "output.hpp"
#include "printable.hpp"
#include "sim/history.hpp"
#include "simulation/runner.hpp"
#include "status_line.hpp"

namespace baton::tools {
namespace {

using simulation::EngineChoice;
using simulation::ProgramOptions;
using simulation::RunResult;
using simulation::SeedRange;

struct SimOptions {
  std::uint64_t seeds = 0;  // 0: not given
  std::uint32_t operations = 10'000;
  std::optional<std::uint64_t> seed;
  std::string range;
  std::uint32_t threads = 0;
  bool reactor = false;
  std::string engine = "any";
  std::uint64_t violations_max = 0;
  bool verbose = false;
};

// -- the seeds ------------------------------------------------------------------------------------

std::optional<std::uint64_t> number_in(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

/// "A..B"
SeedRange parse_range(const std::string& text) {
  const std::size_t dots = text.find("..");
  if (dots != std::string::npos) {
    const auto first = number_in(std::string_view{text}.substr(0, dots));
    const auto last = number_in(std::string_view{text}.substr(dots + 2));
    if (first && last && *first <= *last) return {*first, *last};
  }
  throw CLI::ValidationError(
      "--seed-range", "'" + text + "' is not a range: write A..B, two numbers, A not above B");
}

SeedRange range_of(const SimOptions& options) {
  if (!options.range.empty()) {
    if (options.seeds != 0 || options.seed) {
      throw CLI::ValidationError(
          "--seed-range", "it replaces --seeds and --seed: leave out these two, or the range");
    }
    return parse_range(options.range);
  }
  const std::uint64_t first = options.seed.value_or(1);
  const std::uint64_t count = options.seeds != 0 ? options.seeds : (options.seed ? 1U : 100U);
  return {first, first + count - 1};
}

// -- progress -------------------------------------------------------------------------------------

std::string replay_of(const SimOptions& options, std::uint64_t seed) {
  std::string command = fmt::format("replay: baton sim{} --seed {} --operations {}",
                                    options.reactor ? " --reactor" : "", seed, options.operations);
  if (options.threads != 0) command += fmt::format(" --threads {}", options.threads);
  if (options.engine != "any") command += " --engine " + options.engine;
  return command + " --verbose\n";
}

// The last two lines of `baton sim`, printed and read in one form.
std::string range_line(const SeedRange& range, const std::string& conditions) {
  return fmt::format("range {}..{} {}", range.first, range.last, conditions);
}

std::string result_line(std::uint64_t seeds, std::uint64_t operations, std::uint64_t violations,
                        std::uint64_t history) {
  return fmt::format("seeds {} operations {} violations {} history {:016x}", seeds, operations,
                     violations, history);
}

int run_sim(const SimOptions& options, const SeedRange& range) {
  ProgramOptions program;
  program.operations = options.operations;
  program.threads = options.threads;
  program.reactor = options.reactor;
  if (options.engine == "simulated") program.engine = EngineChoice::simulated;
  if (options.engine == "emulated") program.engine = EngineChoice::emulated;

  StatusLine line;
  simulation::Told told;
  told.violation = [&](std::uint64_t seed, const std::string& report) {
    line.clear();
    note("violation: {}{}", report, replay_of(options, seed));
  };
  told.replay = [&](std::uint64_t seed) { return replay_of(options, seed); };
  std::uint64_t shown = 0;
  if (line.on_terminal() && !options.verbose) {
    told.progress = [&](std::uint64_t seed, const RunResult& so_far) {
      if (so_far.started - shown < 200'000 && seed != range.last) return;
      shown = so_far.started;
      line.show(fmt::format("seed {} ({} of {}), {} operations, {} violations", seed, so_far.seeds,
                            range.count(), so_far.started, so_far.violations));
    };
  }
  const RunResult result =
      simulation::run_seeds(range, program, options.verbose, options.violations_max, told);
  line.clear();
  const std::string conditions =
      fmt::format("{} threads {}", options.reactor ? "reactor" : "engine " + options.engine,
                  options.threads != 0 ? std::to_string(options.threads) : std::string{"drawn"});
  print("{}\n{}\n", range_line({range.first, range.first + result.seeds - 1}, conditions),
        result_line(result.seeds, options.operations, result.violations, result.history));
  return result.violations == 0 ? 0 : 1;
}

// -- merging --------------------------------------------------------------------------------------

struct Part {
  std::string file;
  std::string conditions;  // engine and threads
  SeedRange range;
  std::uint64_t operations = 0;
  std::uint64_t violations = 0;
  std::uint64_t history = 0;
};

// The parsed line is printed again and compared, so a line that `baton sim` has not printed is
// refused.
Part read_part(const std::string& name) {
  // Only regular files: a device may have no end, and a folder has no lines.
  const auto type = std::filesystem::status(name).type();
  using Type = std::filesystem::file_type;
  if (type == Type::character || type == Type::block || type == Type::directory) {
    throw std::runtime_error(name +
                             " is neither a file nor a pipe; name the output of `baton sim`");
  }
  std::ifstream file(name);
  if (!file) throw std::runtime_error(name + ": cannot be read");
  std::string before;
  std::string last;
  unsigned results = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.empty()) continue;
    if (line.starts_with("range ")) ++results;
    before = std::exchange(last, line);
  }
  unsigned long long first = 0;
  unsigned long long end = 0;
  unsigned long long seeds = 0;
  unsigned long long operations = 0;
  unsigned long long violations = 0;
  unsigned long long history = 0;
  int used = 0;
  if (std::sscanf(last.c_str(), "seeds %llu operations %llu violations %llu history %llx", &seeds,
                  &operations, &violations, &history) != 4 ||
      result_line(seeds, operations, violations, history) != last) {
    throw std::runtime_error(name + ": its last line is not the last line of `baton sim`");
  }
  if (std::sscanf(before.c_str(), "range %llu..%llu %n", &first, &end, &used) != 2 || used == 0) {
    throw std::runtime_error(name + ": the line before the last does not have the range of seeds");
  }
  if (results > 1) {
    throw std::runtime_error(fmt::format(
        "{}: holds {} results of `baton sim`, and only one is read: make a file for each", name,
        results));
  }
  const SeedRange range{first, end};
  const std::string conditions = before.substr(static_cast<std::size_t>(used));
  if (range_line(range, conditions) != before || first > end || range.count() != seeds ||
      violations > seeds) {
    throw std::runtime_error(fmt::format(
        "{}: its last two lines contradict each other: '{}' and '{}'", name, before, last));
  }
  return {name, conditions, range, operations, violations, history};
}

int run_merge(const std::vector<std::string>& files) {
  try {
    Part sum = read_part(files.front());
    for (std::size_t i = 1; i < files.size(); ++i) {
      const Part next = read_part(files[i]);
      if (next.operations != sum.operations || next.conditions != sum.conditions) {
        throw std::runtime_error(next.file + " and " + sum.file +
                                 " are of runs with different options: they do not add up");
      }
      if (sum.range.last == std::numeric_limits<std::uint64_t>::max() ||
          sum.range.last + 1 != next.range.first) {
        throw std::runtime_error(
            fmt::format("{} ends with seed {}, and {} begins with {}: name the files in order, "
                        "without a gap",
                        sum.file, sum.range.last, next.file, next.range.first));
      }
      sum.history = sim::History::merge(sum.history, next.history, next.range.count());
      sum.violations += next.violations;
      sum.range.last = next.range.last;
      sum.file = next.file;
    }
    print("{}\n{}\n", range_line(sum.range, sum.conditions),
          result_line(sum.range.count(), sum.operations, sum.violations, sum.history));
    return sum.violations == 0 ? 0 : 1;
  } catch (const std::runtime_error& error) {
    note("baton sim-merge: {}\n", printable(error.what()));
    return 2;
  }
}

}  // namespace

void add_sim_command(CLI::App& app, Run& run) {
  CLI::App* command = app.add_subcommand(
      "sim", "Run random programs in a simulated machine, under faults; a seed replays one");
  auto options = std::make_shared<SimOptions>();
  command->add_option("--seeds", options->seeds, "Number of seeds")
      ->default_str("100, and 1 with --seed")
      ->check(whole_number(1, 1'000'000'000'000));
  command->add_option("--operations", options->operations, "Operations of each seed")
      ->capture_default_str()
      ->check(whole_number(1, 100'000'000));
  command->add_option("--seed", options->seed, "The first seed")
      ->default_str("1")
      ->check(whole_number(0, 1'000'000'000'000'000));
  command
      ->add_option("--seed-range", options->range,
                   "The seeds from A to B, both included; in place of --seeds and --seed")
      ->check(not_empty("range A..B"));
  command->add_option("--threads", options->threads, "Threads that run handlers")
      ->default_str("drawn for each proactor, 1 to 4")
      ->check(whole_number(1, 16));
  CLI::Option* const engine =
      command
          ->add_option(
              "--engine", options->engine,
              "simulated; emulated, the real one over simulated system calls; or any, where "
              "each seed draws one")
          ->capture_default_str()
          ->check(one_of({"any", "simulated", "emulated"}));
  command
      ->add_flag("--reactor", options->reactor,
                 "Programs of the Reactor, over simulated system calls")
      ->excludes(engine);
  command
      ->add_option("--violations-max", options->violations_max,
                   "End after this number of violations")
      ->default_str("never")
      ->check(whole_number(1, 1'000'000'000));
  command->add_flag("--verbose", options->verbose, "Print every event on standard error");
  command->callback([options, &run] {
    const SeedRange range = range_of(*options);
    run = [options, range] { return run_sim(*options, range); };
  });

  CLI::App* merge = app.add_subcommand(
      "sim-merge", "Add up the output of `baton sim --seed-range` for adjacent ranges");
  auto files = std::make_shared<std::vector<std::string>>();
  merge->add_option("FILE", *files, "Their output, in the order of the seeds")->required();
  merge->callback([files, &run] { run = [files] { return run_merge(*files); }; });
}

}  // namespace baton::tools
