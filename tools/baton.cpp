// The `baton` command: an echo server, a load generator, a list of what this machine offers, a
// doctor that measures it and says which configuration to use, and a simulator.
#include <CLI/CLI.hpp>

#include "command.hpp"

int main(int argc, char** argv) {
  CLI::App app{"Baton: completion-based I/O, from the command line", "baton"};
  app.require_subcommand(1);
  app.get_formatter()->column_width(34);
  baton::tools::Run run;
  baton::tools::add_echo_command(app, run);
  baton::tools::add_load_command(app, run);
  baton::tools::add_engines_command(app, run);
  baton::tools::add_doctor_command(app, run);
  baton::tools::add_sim_command(app, run);
  baton::tools::add_bench_command(app, run);
  // Wrong use exits with 2, as shells do, so that a script can tell it from a failed run.
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return run();
}
