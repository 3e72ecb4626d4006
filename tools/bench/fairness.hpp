// `baton bench fairness`: how evenly, how fast and at what cost a reactor serves sockets that are
// always ready (the article's Reactor_Fairness_Test, D-05), compared with other reactors.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "../command.hpp"
#include "baton/reactor.hpp"

namespace baton::tools {

struct FairnessOptions {
  std::size_t connections = 50;
  std::size_t threads = 3;
  double seconds = 10;
  std::size_t chunk = 256;
  std::size_t rounds = 1;
  std::vector<std::string> waits{"epoll"};
  std::vector<std::string> only;  // rivals by name, or none; empty: all that were built
  std::string rivals;             // the folder of their programs; empty: beside the command
  std::string variant = "late";
  bool alone = false;  // run only Baton's part, in this process
  bool json = false;
};

void add_fairness_benchmark(CLI::App& bench, Run& run);

/// The variant of a name; false: there is no such variant.
bool tuning_of(const std::string& variant, ReactorTuning& tuning);
std::vector<std::string> tuning_names();
std::vector<std::string> rival_names();

/// Runs Baton's part in this process and prints its line. Returns the exit status.
int run_fairness_alone(const FairnessOptions& options);

/// Runs all participants, round by round, each in a process of its own, and prints the table or the
/// JSON.
int run_fairness_rounds(const FairnessOptions& options, const std::vector<std::string>& variants);

}  // namespace baton::tools
