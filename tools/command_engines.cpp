// `baton engines`: every engine and wait strategy that this build knows, and whether this machine
// has it, found out by opening it.
#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <vector>

#include "baton/engine.hpp"
#include "baton/registry.hpp"
#include "command.hpp"
#include "json.hpp"

namespace baton::tools {
namespace {

struct Row {
  std::string engine;
  std::string wait;  // empty when the engine leaves no choice
  bool available = false;
  std::string reason;  // why not, or why it stands where it stands
  std::string leader_rule;
};

Row probe(const RegistryEntry<EngineFactory>& engine,
          const RegistryEntry<WaitStrategyFactory>* wait) {
  ProcessorConfig config;
  config.engine = engine.name;
  if (wait != nullptr) config.wait = wait->name;
  EngineOptions options;
  options.config = &config;
  options.handles_max = limits::handles_chunk;
  options.explain = [](std::string_view) {};

  Row row{engine.name, wait != nullptr ? wait->name : "", false,
          wait != nullptr ? wait->reason : engine.reason, ""};
  if (const auto opened = engine.factory(options); opened) {
    row.available = true;
    row.leader_rule = (*opened)->info().leader_rule == LeaderRule::any ? "any" : "pinned";
  } else {
    row.reason = opened.error().reason;
  }
  return row;
}

// In the order of preference of the two registries.
std::vector<Row> probe_all() {
  std::vector<Row> rows;
  const auto waits = registry().wait_strategies();
  for (const auto& engine : registry().engines()) {
    if (engine.waits_by_strategy) {
      for (const auto& wait : waits) rows.push_back(probe(engine, &wait));
    } else {
      rows.push_back(probe(engine, nullptr));
    }
  }
  return rows;
}

void print_json(const std::vector<Row>& rows) {
  fmt::print("[");
  const char* separator = "\n";
  for (const Row& row : rows) {
    fmt::print(
        "{}  {{\"engine\": {}, \"wait\": {}, \"available\": {}, \"reason\": {}, "
        "\"leader_rule\": {}}}",
        separator, json_string(row.engine), json_string(row.wait), row.available,
        json_string(row.reason), json_string(row.leader_rule));
    separator = ",\n";
  }
  fmt::print("\n]\n");
}

void print_table(const std::vector<Row>& rows) {
  fmt::print("{:<12} {:<12} {:<10} {:<7} {}\n", "engine", "wait", "available", "leader", "reason");
  for (const Row& row : rows) {
    fmt::print("{:<12} {:<12} {:<10} {:<7} {}\n", row.engine, row.wait.empty() ? "-" : row.wait,
               row.available ? "yes" : "no", row.leader_rule.empty() ? "-" : row.leader_rule,
               row.reason);
  }
}

}  // namespace

void add_engines_command(CLI::App& app, Run& run) {
  auto* command = app.add_subcommand("engines", "List engines and wait strategies, and why not");
  auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "Print a JSON array");
  command->callback([&run, json] {
    run = [json] {
      (*json ? print_json : print_table)(probe_all());
      return 0;
    };
  });
}

}  // namespace baton::tools
