// `baton bench`: measures this machine. There are two tables of sub-commands. Comparisons of our
// programs with the rivals' are the Python programs of bench/, which `baton bench` runs with the
// given options. Benchmarks that need no second program of ours have a file each in tools/bench/.
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "bench/fairness.hpp"
#include "command.hpp"
#include "output.hpp"
#include "printable.hpp"

namespace baton::tools {
namespace {

constexpr void (*benchmarks[])(CLI::App& bench, Run& run) = {add_fairness_benchmark};

struct BenchProgram {
  const char* name;
  const char* file;
  const char* help;
};

constexpr BenchProgram programs[] = {
    {"rows", "rows.py",
     "The paper's test and ours, pools, uneven load, UDP: every server, row by row (--quick)"},
    {"reactor", "reactor.py", "The Reactor's numbers, each with its floor (--quick: rough)"},
    {"programs", "programs.py", "Posting, timers, short connections, files: row by row (--quick)"},
    {"ace", "ace.py", "A program for ACE's Proactor, on ACE's own and on Baton (--quick: rough)"},
    {"java", "java.py",
     "Servers in Java: Baton's, the JDK's, Netty's, beside C and C++ (--quick: rough)"},
    {"instructions", "instructions.py", "User-space instructions of a message, counted"},
    {"compare", "compare.py", "One of the project's numbers, each with its goal, or `all`"},
    {"report", "report.py", "One page of what was measured: figures and tables"},
};

// The folder of the programs: BATON_BENCH, else the one beside the command in the build folder. The
// programs measure servers of the source tree, so they are not installed.
std::filesystem::path bench_folder() {
  if (const char* given = ::secure_getenv("BATON_BENCH"); given != nullptr) return given;
  std::error_code error;
  const auto command = std::filesystem::read_symlink("/proc/self/exe", error);
  return std::filesystem::canonical(command.parent_path() / "bench", error);
}

int run_program(const BenchProgram& program, const std::vector<std::string>& options) {
  const std::filesystem::path folder = bench_folder();
  if (folder.empty()) {
    note(
        "baton bench: {} needs the source tree of Baton: run the command that is built "
        "there, or name the tree's folder `bench` by BATON_BENCH\n",
        program.name);
    return 2;
  }
  const std::filesystem::path path = folder / program.file;
  std::vector<std::string> words{path.string()};
  words.insert(words.end(), options.begin(), options.end());
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  ::execv(path.c_str(), arguments.data());
  note("baton bench: {}: {}; BATON_BENCH names the folder `bench` of Baton's source tree\n",
       printable(path.string()), std::strerror(errno));
  return 2;
}

}  // namespace

void add_bench_command(CLI::App& app, Run& run) {
  CLI::App* const bench = app.add_subcommand("bench", "Measure: Baton, raw loops and libraries");
  bench->require_subcommand(1);
  for (const auto add : benchmarks) add(*bench, run);
  for (const BenchProgram& program : programs) {
    CLI::App* const command = bench->add_subcommand(program.name, program.help);
    // The program reads its own options, also --help.
    command->prefix_command();
    command->set_help_flag();
    command->callback([command, &program, &run] {
      run = [&program, options = command->remaining()] { return run_program(program, options); };
    });
  }
}

}  // namespace baton::tools
