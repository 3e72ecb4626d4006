// `baton engines`: every engine, wait strategy and interrupt strategy of this build, and whether it
// works on this machine. The command opens each to find out, except forbidden ones.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

#include "baton/engine.hpp"
#include "baton/interrupt_strategy.hpp"
#include "baton/registry.hpp"
#include "command.hpp"
#include "config_options.hpp"
#include "json.hpp"
#include "output.hpp"
#include "wrapped.hpp"

namespace baton::tools {
namespace {

struct Row {
  std::string engine;
  std::string wait;     // empty: the engine waits by itself
  std::string variant;  // a setting, if the engine has several variants; else empty
  bool available = false;
  std::string reason;  // why it is not available, or the reason for its place in the order
  std::string code;    // why it is not available, for scripts
  std::string leader_rule;
  std::string operations;  // the supported ones, as a configuration names them
};

// "all", or the groups that are supported completely.
std::string taken_by(const EngineInfo& info) {
  const auto takes = [&](OperationKinds kinds) {
    for (std::size_t i = 0; i < operation_kinds; ++i) {
      const bool asked = kinds.has(static_cast<OperationKind>(i));
      if (asked && info.support[i] == Support::unsupported) return false;
    }
    return true;
  };
  std::string names;
  std::size_t count = 0;
  const std::pair<const char*, OperationKinds> groups[] = {{"stream", stream_operations},
                                                           {"accept", accept_operations},
                                                           {"connect", connect_operations},
                                                           {"datagram", datagram_operations},
                                                           {"file", file_operations}};
  for (const auto& [name, kinds] : groups) {
    if (!takes(kinds)) continue;
    names += (names.empty() ? "" : "+") + std::string{name};
    ++count;
  }
  return count == std::size(groups) ? "all" : names;
}

// One row: the combination, and the reason for its place.
struct Candidate {
  std::string wait;     // the wait strategy, if the engine takes one
  std::string variant;  // a setting, if the engine has several variants
  std::string reason;
};

Result<std::unique_ptr<Engine>, Failure> open(const RegistryEntry<EngineFactory>& engine,
                                              const Candidate& candidate, const Config& policy) {
  const auto& forbid = policy.forbid;
  if (std::find(forbid.begin(), forbid.end(), engine.name) != forbid.end()) {
    return unexpected{Failure{errc::engine_forbidden, "forbidden by BATON_FORBID or a setting",
                              ReasonCode::forbidden}};
  }
  std::string text = "engine=" + engine.name;
  if (!candidate.wait.empty()) text += ",wait=" + candidate.wait;
  if (!candidate.variant.empty()) text += "," + candidate.variant;
  const auto config = Config::parse(text, Config{});
  if (!config) return unexpected{config.error()};
  EngineOptions options;
  options.config = &config->processors.front();
  options.handles_max = limits::handles_chunk;
  options.one_thread_waits = true;  // the strongest promise that a mode can give a strategy
  options.explain = [](std::string_view) {};
  return engine.factory(options);
}

Row probe(const RegistryEntry<EngineFactory>& engine, const Candidate& candidate,
          const Config& policy) {
  Row row;
  row.engine = engine.name;
  row.wait = candidate.wait;
  row.variant = candidate.variant;
  row.reason = candidate.reason;
  if (const auto opened = open(engine, candidate, policy); opened) {
    row.available = true;
    row.leader_rule = to_string((*opened)->info().leader_rule);
    row.operations = taken_by((*opened)->info());
  } else {
    row.reason = opened.error().reason;
    row.code = to_string(opened.error().reason_code);
  }
  return row;
}

// The variants that an engine declares, "a=1 a=2"; without any, a single empty one.
std::vector<Candidate> variants_of(const RegistryEntry<EngineFactory>& engine) {
  std::vector<Candidate> list;
  std::string_view rest = engine.variants;
  do {
    const std::size_t end = std::min(rest.find(' '), rest.size());
    list.push_back({"", std::string(rest.substr(0, end)), engine.reason});
    rest.remove_prefix(std::min(end + 1, rest.size()));
  } while (!rest.empty());
  return list;
}

// In the order of preference of the two registries.
std::vector<Row> probe_all(const Config& policy) {
  std::vector<Row> rows;
  for (const auto& engine : registry().engines()) {
    if (engine.only_by_name) continue;  // for tests; it says nothing about the machine
    std::vector<Candidate> candidates;
    if (engine.waits_by_strategy) {
      for (const auto& wait : registry().wait_strategies()) {
        candidates.push_back({wait.name, "", wait.reason});
      }
    } else {
      candidates = variants_of(engine);
    }
    for (const Candidate& one : candidates) rows.push_back(probe(engine, one, policy));
  }
  return rows;
}

void print_parts_json(const std::vector<Row>& rows) {
  print("[");
  const char* separator = "\n";
  for (const Row& row : rows) {
    print(
        "{}  {{\"engine\": {}, \"wait\": {}, \"variant\": {}, \"available\": {}, \"code\": {}, "
        "\"reason\": {}, \"leader_rule\": {}, \"operations\": {}}}",
        separator, json_string(row.engine), json_string(row.wait), json_string(row.variant),
        row.available, json_string(row.code), json_string(row.reason), json_string(row.leader_rule),
        json_string(row.operations));
    separator = ",\n";
  }
  print("\n]\n");
}

std::string or_dash(const std::string& text) { return text.empty() ? "-" : text; }

// The reason has lines of its own, so that a terminal of 80 columns holds the table.
void print_reason(const std::string& reason) { print_text(wrapped(reason, 80, "    ", "    ")); }

void print_parts(const std::vector<Row>& rows) {
  print("{:<12} {:<16} {:<10} {:<7} {}\n", "engine", "wait", "available", "leader", "takes");
  for (const Row& row : rows) {
    print("{:<12} {:<16} {:<10} {:<7} {}\n", row.engine, or_dash(row.wait + row.variant),
          row.available ? "yes" : "no", or_dash(row.leader_rule), or_dash(row.operations));
    print_reason(row.available ? row.reason : fmt::format("{} [{}]", row.reason, row.code));
  }
  print("\n{:<12} {}\n", "interrupt", "available");
  for (const auto& entry : registry().interrupt_strategies()) {
    const auto opened = entry.factory(InterruptOptions{});
    print("{:<12} {}\n", entry.name, opened ? "yes" : "no");
    print_reason(opened ? entry.reason
                        : with_code(opened.error().reason, opened.error().reason_code));
  }
}

}  // namespace

void add_engines_command(CLI::App& app, Run& run) {
  auto* command =
      app.add_subcommand("engines", "List engines and wait strategies, and why some are missing");
  auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "Print a JSON array");
  command->callback([&run, json] {
    run = [json] {
      const auto policy = Config::parse_environment(Config{});
      if (!policy) return report_failure("engines", policy.error());
      (*json ? print_parts_json : print_parts)(probe_all(*policy));
      return 0;
    };
  });
}

}  // namespace baton::tools
