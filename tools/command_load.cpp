// `baton load`: load on an echo server or on a file; every returned byte is checked.
#include <fmt/format.h>

#include <memory>

#include "command.hpp"
#include "load/file_load.hpp"
#include "load/options.hpp"
#include "option_checks.hpp"

namespace baton::tools {
namespace {

constexpr const char* network_group = "Echo server";
constexpr const char* file_group = "File";

struct LoadCommand {
  LoadOptions network;
  FileLoadOptions file;
};

void add_network_options(CLI::App& command, LoadOptions& options) {
  constexpr const char* group = network_group;
  command.add_option("--port", options.port, "Port of the server")
      ->group(group)
      ->check(whole_number(1, 65'535));
  command.add_option("--host", options.host, "Host of the server")
      ->group(group)
      ->capture_default_str()
      ->check(not_empty("host"));
  command
      .add_option("--protocol", options.protocol,
                  "tcp: streams; udp: each block is a datagram, and lost ones are counted")
      ->group(group)
      ->capture_default_str()
      ->check(one_of({"tcp", "udp"}));
  command.add_option("--sessions", options.sessions, "Connections that send")
      ->group(group)
      ->capture_default_str()
      ->check(whole_number(1, load_connections_max));
  command
      .add_option("--window", options.window,
                  "Bytes that may be in flight beyond one block; 0: half duplex, the next block "
                  "waits until the last one is complete")
      ->group(group)
      ->capture_default_str()
      ->transform(size(0, load_window_bytes_max));
  command.add_option("--idle", options.idle, "More connections, which only connect")
      ->group(group)
      ->capture_default_str()
      ->check(whole_number(0, load_connections_max));
  command.add_option("--threads", options.threads, "Threads of the generator itself")
      ->group(group)
      ->capture_default_str()
      ->check(whole_number(1, load_threads_max));
  command
      .add_option(
          "--apart", options.apart,
          "Report the round trips of the N sessions with fewest messages apart from the others")
      ->group(group)
      ->capture_default_str()
      ->check(whole_number(0, load_apart_sessions_max));
  command
      .add_flag("--hold", options.hold,
                "Print 'connected' and 'finished' around the measured part, and wait each time for "
                "a line on standard input")
      ->group(group);
}

void add_file_options(CLI::App& command, FileLoadOptions& options) {
  constexpr const char* group = file_group;
  command.add_option("--file", options.file, "Read this file, which --write has made")
      ->group(group)
      ->check(not_empty("name of a file"));
  command
      .add_flag("--write", options.write,
                "Write the file, then read it back; an existing file only if --write has made it")
      ->group(group);
  command.add_flag("--force", options.force, "Let --write replace any file")
      ->group(group)
      ->needs("--write");
  command.add_flag("--random", options.random, "Read blocks in random order")
      ->group(group)
      ->excludes("--write");
  command
      .add_flag_callback(
          "--no-compare", [&options] { options.compare = false; }, "Do not compare the bytes read")
      ->group(group)
      ->excludes("--write");
  command.add_flag("--direct", options.direct, "Go past the page cache")->group(group);
  command.add_option("--depth", options.depth, "Operations in flight")
      ->group(group)
      ->capture_default_str()
      ->check(whole_number(1, file_depth_max));
  command
      .add_option(
          "--size", options.size,
          "Bytes of the file that --write makes, in whole blocks; fewer if --seconds end before")
      ->group(group)
      ->default_str("64m")
      ->needs("--write")
      ->transform(size(1, std::uint64_t{1} << 44));
  add_config_options(command, options.config);
}

// An option without effect on the run is a mistake.
void check_halves(const CLI::App& command, bool on_file) {
  for (const CLI::Option* option : command.get_options()) {
    const bool of_network = option->get_group() == network_group;
    const bool of_file = option->get_group() == file_group || option->get_group() == config_group;
    if (option->count() == 0 || !(on_file ? of_network : of_file)) continue;
    throw CLI::ValidationError(option->get_name(), on_file ? "goes with --port, not with --file"
                                                           : "goes with --file, not with --port");
  }
}

// Rules about several options.
void check_network_options(const LoadOptions& options) {
  if (options.datagrams() && options.idle > 0) {
    throw CLI::ValidationError("--idle", "there are no idle connections over udp");
  }
  if (options.datagrams() &&
      (options.block < load_datagram_bytes_min || options.block > load_datagram_bytes_max)) {
    throw CLI::ValidationError("--block",
                               fmt::format("a datagram has {} to {} bytes", load_datagram_bytes_min,
                                           load_datagram_bytes_max));
  }
  if (options.apart > 0 &&
      (options.apart >= options.sessions || options.sessions > load_apart_sessions_max)) {
    throw CLI::ValidationError(
        "--apart",
        fmt::format("needs more --sessions than that, and at most {}", load_apart_sessions_max));
  }
}

}  // namespace

void add_load_command(CLI::App& app, Run& run) {
  auto* command = app.add_subcommand("load", "Load an echo server or a file, check every byte");
  auto options = std::make_shared<LoadCommand>();
  LoadOptions& network = options->network;

  auto* block = command->add_option("--block", network.block, "Bytes of a message (64k, 1m, ...)");
  block->default_str("512, and 4096 with --file")->transform(size(1, load_block_bytes_max));
  command->add_option("--seconds", network.seconds, "Length of the measured part")
      ->capture_default_str()
      ->check(seconds(0.001, 1e6));
  command->add_flag("--json", network.json, "Print one JSON object");
  add_network_options(*command, network);
  add_file_options(*command, options->file);
  command->get_option("--port")->excludes("--file");

  command->callback([&run, command, block, options] {
    const bool on_file = command->count("--file") > 0;
    if (!on_file && command->count("--port") == 0) {
      throw CLI::RequiredError("--port of an echo server, or --file,");
    }
    check_halves(*command, on_file);
    if (!on_file) {
      check_network_options(options->network);
      run = [options] { return run_network_load(options->network); };
      return;
    }
    FileLoadOptions& file = options->file;
    if (block->count() > 0) file.block = options->network.block;
    file.seconds = options->network.seconds;
    file.json = options->network.json;
    run = [options] { return run_file_load(options->file); };
  });
}

}  // namespace baton::tools
