// The options of `baton bench fairness`.
#include "bench/fairness.hpp"

#include <memory>

#include "baton/registry.hpp"
#include "option_checks.hpp"

namespace baton::tools {
namespace {

using Suspension = ReactorTuning::Suspension;
using Resumption = ReactorTuning::Resumption;

struct Variant {
  const char* name;
  ReactorTuning tuning;
};

// Each variant differs from its neighbour in one property, so that the table shows its effect.
const Variant variants[] = {
    {"late", {}},
    {"immediate", {.resumption = Resumption::immediate}},
    {"eager_late", {.suspension = Suspension::eager, .keep_lead = false}},
    {"eager_immediate",
     {.suspension = Suspension::eager, .resumption = Resumption::immediate, .keep_lead = false}},
    {"eager_late_one", {.suspension = Suspension::eager, .keep_lead = false, .reports_max = 1}},
    // The rest imitates ACE's token: the article's reactor after its change, and before.
    {"token_late",
     {.suspension = Suspension::eager, .keep_lead = false, .token_line = true, .reports_max = 1}},
    {"token",
     {.suspension = Suspension::eager,
      .resumption = Resumption::token,
      .keep_lead = false,
      .token_line = true,
      .reports_max = 1}},
    {"token_notifier",
     {.suspension = Suspension::eager,
      .resumption = Resumption::token,
      .keep_lead = false,
      .token_line = true,
      .suspend_notifier = true,
      .reports_max = 1}},
};

std::vector<std::string> wait_names() {
  std::vector<std::string> names{"auto"};
  for (const auto& one : registry().wait_strategies()) names.push_back(one.name);
  return names;
}

}  // namespace

bool tuning_of(const std::string& variant, ReactorTuning& tuning) {
  for (const Variant& one : variants) {
    if (variant != one.name) continue;
    tuning = one.tuning;
    return true;
  }
  return false;
}

std::vector<std::string> tuning_names() {
  std::vector<std::string> names;
  for (const Variant& one : variants) names.emplace_back(one.name);
  return names;
}

void add_fairness_benchmark(CLI::App& bench, Run& run) {
  auto& command = *bench.add_subcommand(
      "fairness", "Sockets driven flat out: how evenly, how fast and at what cost each is read");
  struct Chosen {
    FairnessOptions options;
    std::vector<std::string> variants{"late"};
  };
  auto chosen = std::make_shared<Chosen>();
  FairnessOptions& options = chosen->options;
  command.add_option("--connections", options.connections, "Sockets, each always full")
      ->capture_default_str()
      ->check(whole_number(1, 20'000));
  command.add_option("--threads", options.threads, "Threads of each reactor")
      ->capture_default_str()
      ->check(whole_number(1, 256));
  command.add_option("--seconds", options.seconds, "How long each runs")
      ->capture_default_str()
      ->check(seconds(0.1, 3600));
  command.add_option("--chunk", options.chunk, "Bytes that are read for each event")
      ->capture_default_str()
      ->check(whole_number(1, 65'536));
  command.add_option("--rounds", options.rounds, "How often all of them take turns")
      ->capture_default_str()
      ->check(whole_number(1, 1'000));
  command.add_option("--wait", options.waits, "Wait strategies of Baton's Reactor")
      ->capture_default_str()
      ->delimiter(',')
      ->check(one_of(wait_names()));
  command
      .add_option("--variant", chosen->variants,
                  "How Baton's Reactor suspends and resumes; token imitates ACE's former way")
      ->capture_default_str()
      ->delimiter(',')
      ->check(one_of(tuning_names()));
  command.add_option("--rivals", options.rivals, "Folder of the rivals' programs");
  std::vector<std::string> rivals = rival_names();
  rivals.emplace_back("none");
  command.add_option("--only", options.only, "Rivals by name; none: no rival at all")
      ->delimiter(',')
      ->check(one_of(rivals));
  command.add_flag("--alone", options.alone, "One run of Baton's Reactor, in this process");
  command.add_flag("--json", options.json, "Print every run as JSON");
  command.callback([&run, chosen] {
    run = [chosen] {
      if (!chosen->options.alone) return run_fairness_rounds(chosen->options, chosen->variants);
      chosen->options.variant = chosen->variants.front();
      return run_fairness_alone(chosen->options);
    };
  });
}

}  // namespace baton::tools
