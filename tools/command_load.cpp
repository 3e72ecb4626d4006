// `baton load`: puts load on an echo server and checks every byte of every answer.
#include <memory>

#include "command.hpp"
#include "load/options.hpp"

namespace baton::tools {

void add_load_command(CLI::App& app, Run& run) {
  auto* command = app.add_subcommand("load", "Load an echo server and check every byte it returns");
  auto network = std::make_shared<LoadOptions>();

  command->add_option("--port", network->port, "Port of the server")
      ->required()
      ->check(CLI::Range(1, 65'535));
  command->add_option("--host", network->host, "Host of the server")->capture_default_str();
  command->add_option("--sessions", network->sessions, "Connections that send")
      ->capture_default_str()
      ->check(CLI::Range(std::size_t{1}, load_connections_max));
  command->add_option("--block", network->block, "Bytes of one message (64k, 1m, ...)")
      ->capture_default_str()
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(std::size_t{1}, load_block_bytes_max));
  command
      ->add_option("--window", network->window,
                   "Bytes that may be on the way beyond one block; 0: half duplex, the next block "
                   "waits for the whole of the last")
      ->capture_default_str()
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(std::size_t{0}, load_window_bytes_max));
  command->add_option("--seconds", network->seconds, "Length of the measured part")
      ->capture_default_str()
      ->check(CLI::Range(0.001, 1e6));
  command->add_option("--idle", network->idle, "More connections that only connect")
      ->capture_default_str()
      ->check(CLI::Range(std::size_t{0}, load_connections_max));
  command->add_option("--threads", network->threads, "Threads of the generator itself")
      ->capture_default_str()
      ->check(CLI::Range(std::size_t{1}, load_threads_max));
  command->add_flag("--json", network->json, "Print one JSON object");
  command->add_flag("--hold", network->hold,
                    "Print 'connected' and 'finished' around the measured part, each time waiting "
                    "for a line on standard input");

  command->callback([&run, network] { run = [network] { return run_network_load(*network); }; });
}

}  // namespace baton::tools
