// The `baton` command: an echo server, a load generator, a list of the engines of this machine, a
// doctor that measures the machine and recommends a configuration, and a simulator.
//
// Exit status: 0 done, 1 failed (the reason is on standard error), 2 wrong use.
#include <CLI/CLI.hpp>
#include <csignal>
#include <exception>
#include <new>
#include <string>
#include <system_error>

#include "build_facts.hpp"
#include "command.hpp"
#include "command_line.hpp"
#include "output.hpp"
#include "printable.hpp"

namespace baton::tools {
namespace {

int command(int argc, char** argv) {
  CLI::App app{"Baton: completion-based I/O, from the command line", "baton"};
  app.require_subcommand(1);
  app.set_version_flag("--version", version_text, "Print the version and how it was built");
  app.get_formatter()->column_width(34);
  Run run;
  add_echo_command(app, run);
  add_load_command(app, run);
  add_engines_command(app, run);
  add_doctor_command(app, run);
  add_sim_command(app, run);
  add_bench_command(app, run);
  add_completion_command(app, run);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return answer(app, error);
  }
  return run();
}

}  // namespace
}  // namespace baton::tools

int main(int argc, char** argv) {
  using namespace baton::tools;
  if (!open_standard_descriptors()) return 1;
  // So a write beyond RLIMIT_FSIZE is a reported error, not a signal that ends a server.
  std::signal(SIGXFSZ, SIG_IGN);
  int status = 1;
  try {
    status = command(argc, argv);
  } catch (const std::bad_alloc&) {
    std::fputs("baton: not enough memory\n", stderr);
  } catch (const std::exception& error) {
    note("baton: {}\n", printable(error.what()));
  }
  return flush_output() ? status : std::max(status, 1);
}
