// The `baton` command: an echo server, a load generator, a list of what this machine offers, a
// doctor that measures it and says which configuration to use, and a simulator.
//
// Exit status: 0 done, 1 failed (the reason is on standard error), 2 wrong use.
#include <CLI/CLI.hpp>
#include <exception>
#include <new>
#include <string>
#include <system_error>

#include "baton/version.hpp"
#include "command.hpp"
#include "output.hpp"
#include "printable.hpp"

namespace baton::tools {
namespace {

// "baton echo", or just "baton" where no sub-command was understood.
std::string name_of(const CLI::App& app) {
  const auto chosen = app.get_subcommands();
  return chosen.empty() ? app.get_name() : app.get_name() + " " + name_of(*chosen.front());
}

const CLI::Option* find_option(const CLI::App& app, const std::string& name) {
  if (const CLI::Option* option = app.get_option_no_throw(name)) return option;
  const auto chosen = app.get_subcommands();
  return chosen.empty() ? nullptr : find_option(*chosen.front(), name);
}

// One sentence: which option, and what it takes. CLI11 tells how many values it missed or had too
// many of, and not what they may be.
std::string sentence_of(const CLI::App& app, const CLI::ParseError& error) {
  const std::string what = error.what();
  if (error.get_name() == "ArgumentMismatch") {
    const std::string name = what.substr(0, what.find(':'));
    if (const CLI::Option* option = find_option(app, name)) {
      return name + " takes one value (" + option->get_type_name() + "), and is given once";
    }
  }
  return what;
}

int wrong_use(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == 0) {  // --help, --version
    std::ostringstream text;
    app.exit(error, text, text);
    print_text(text.str());
    return 0;
  }
  // Wrong use exits with 2, as shells do, so that a script can tell it from a failed run.
  note("{}: {}; see {} --help\n", name_of(app), printable(sentence_of(app, error)), name_of(app));
  return 2;
}

int command(int argc, char** argv) {
  CLI::App app{"Baton: completion-based I/O, from the command line", "baton"};
  app.require_subcommand(1);
  app.set_version_flag("--version", "baton " + std::string{version()});
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
    return wrong_use(app, error);
  }
  return run();
}

}  // namespace
}  // namespace baton::tools

int main(int argc, char** argv) {
  using namespace baton::tools;
  if (!open_standard_descriptors()) return 1;
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
