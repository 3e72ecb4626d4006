// `baton bench fairness`: how evenly, how fast and at what cost a reactor serves sockets that are
// all ready all the time (the article's Reactor_Fairness_Test, D-05), beside other reactors.
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
  std::vector<std::string> only;  // rivals by name; empty: all that are there
  std::string rivals;             // the folder of their programs; empty: beside the command
  std::string variant = "late";
  bool alone = false;  // this process is one participant
  bool json = false;
};

void add_fairness_benchmark(CLI::App& bench, Run& run);

/// The variant of a name; false: there is no such variant.
bool tuning_of(const std::string& variant, ReactorTuning& tuning);
std::vector<std::string> tuning_names();

/// Baton's own part, in this process: prints its line. The exit status.
int run_fairness_alone(const FairnessOptions& options);

/// All participants, round by round, each in a process of its own; prints the table or the JSON.
int run_fairness_rounds(const FairnessOptions& options, const std::vector<std::string>& variants);

}  // namespace baton::tools
