// The rounds: in each, the participants run one after the other, each in a process of its own, so
// that all of them see the same state of the machine.
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "bench/fairness.hpp"
#include "json.hpp"
#include "output.hpp"
#include "printable.hpp"

namespace baton::tools {
namespace {

struct Participant {
  std::string name;
  std::vector<std::string> command;
  std::vector<std::string> runs;  // their JSON
};

std::filesystem::path own_program() { return std::filesystem::read_symlink("/proc/self/exe"); }

std::vector<std::string> with_options(std::vector<std::string> command,
                                      const FairnessOptions& options) {
  for (const std::string& word :
       {std::string("--connections"), fmt::format("{}", options.connections),
        std::string("--threads"), fmt::format("{}", options.threads), std::string("--seconds"),
        fmt::format("{}", options.seconds), std::string("--chunk"),
        fmt::format("{}", options.chunk)}) {
    command.push_back(word);
  }
  return command;
}

struct Rival {
  const char* name;
  const char* program;
  const char* reactor;  // of a program that has several
};

constexpr Rival rivals[] = {{"ace_select", "fairness_ace", "select"},
                            {"ace_tp", "fairness_ace", "tp"},
                            {"ace_dev_poll", "fairness_ace", "dev_poll"},
                            {"libevent", "fairness_libevent", ""},
                            {"asio", "fairness_asio", ""}};

std::vector<Participant> participants(const FairnessOptions& options,
                                      const std::vector<std::string>& variants) {
  std::vector<Participant> all;
  for (const std::string& wait : options.waits) {
    for (const std::string& variant : variants) {
      all.push_back({"baton/" + wait + (variant == "late" ? "" : "/" + variant),
                     with_options({own_program().string(), "bench", "fairness", "--alone", "--wait",
                                   wait, "--variant", variant},
                                  options),
                     {}});
    }
  }
  const std::filesystem::path folder = options.rivals.empty()
                                           ? own_program().parent_path().parent_path() / "bench"
                                           : std::filesystem::path(options.rivals);
  for (const Rival& rival : rivals) {
    const bool wanted = options.only.empty() ||
                        std::count(options.only.begin(), options.only.end(), rival.name) > 0;
    if (!wanted) continue;
    const std::filesystem::path path = folder / rival.program;
    if (!std::filesystem::exists(path)) {
      note("{}: not there: {} is missing\n", rival.name, printable(path.string()));
      continue;
    }
    std::vector<std::string> words{path.string()};
    if (*rival.reactor != '\0') words.insert(words.end(), {"--reactor", rival.reactor});
    all.push_back({rival.name, with_options(std::move(words), options), {}});
  }
  return all;
}

/// Runs a program and returns its line; empty if it failed, which the program has reported itself.
std::string output_of(const std::vector<std::string>& command) {
  int ends[2];
  if (::pipe(ends) != 0) return {};
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(ends[1], STDOUT_FILENO);
    ::close(ends[0]);
    ::close(ends[1]);
    std::vector<char*> words;
    for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
    words.push_back(nullptr);
    ::execv(words[0], words.data());
    ::_exit(127);
  }
  ::close(ends[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t got = 0; (got = ::read(ends[0], buffer, sizeof buffer)) > 0;) {
    text.append(buffer, static_cast<std::size_t>(got));
  }
  ::close(ends[0]);
  int status = 1;
  if (child < 0 || ::waitpid(child, &status, 0) != child || status != 0) return {};
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

double number_in(const std::string& line, const std::string& name) {
  const auto at = line.find("\"" + name + "\": ");
  return at == std::string::npos ? 0 : std::strtod(line.c_str() + at + name.size() + 4, nullptr);
}

double median(const std::vector<std::string>& runs, const std::string& name) {
  std::vector<double> values;
  for (const std::string& line : runs) values.push_back(number_in(line, name));
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

/// The median of the ratios within each round, because numbers of different times do not compare.
double ratio(const Participant& a, const Participant& b, const std::string& name) {
  std::vector<double> values;
  for (std::size_t i = 0; i < std::min(a.runs.size(), b.runs.size()); ++i) {
    const double below = number_in(b.runs[i], name);
    if (below > 0) values.push_back(number_in(a.runs[i], name) / below);
  }
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void print_table(const std::vector<Participant>& all) {
  print("{:<28} {:>9} {:>8} {:>12} {:>12} {:>12} {:>10} {:>7} {:>7}\n", "", "spread", "Jain",
        "chunks/s", "CPU us/chunk", "rate ratio", "CPU ratio", "dry", "taken");
  for (const Participant& one : all) {
    if (one.runs.empty()) {
      print("{:<28} failed\n", one.name);
      continue;
    }
    print("{:<28} {:>8.2f}% {:>8.5f} {:>12.0f} {:>12.3f} {:>12.2f} {:>10.2f} {:>6.2f}% {:>7}\n",
          one.name, 100 * median(one.runs, "spread"), median(one.runs, "jain"),
          median(one.runs, "rate"), median(one.runs, "cpu_us"), ratio(all.front(), one, "rate"),
          ratio(all.front(), one, "cpu_us"), 100 * median(one.runs, "dry"),
          median(one.runs, "leads_taken"));
  }
  print(
      "ratios: {} to this one; dry: reads that found less than a chunk (the sender was late); "
      "taken: "
      "leads taken\nfrom a thread that lost its processor inside a handler, whose socket then "
      "waits\n",
      all.front().name);
}

void print_json(const FairnessOptions& options, const std::vector<Participant>& all) {
  std::vector<std::string> lines;
  for (const Participant& one : all) {
    lines.push_back(json_object({{"name", json_string(one.name)},
                                 {"spread", fmt::format("{:.6f}", median(one.runs, "spread"))},
                                 {"jain", fmt::format("{:.6f}", median(one.runs, "jain"))},
                                 {"rate", fmt::format("{:.1f}", median(one.runs, "rate"))},
                                 {"cpu_us", fmt::format("{:.4f}", median(one.runs, "cpu_us"))},
                                 {"runs", json_array(one.runs)}}));
  }
  print(
      "{{\"connections\": {}, \"threads\": {}, \"seconds\": {}, \"rounds\": {},\n "
      "\"reactors\": {}}}\n",
      options.connections, options.threads, options.seconds, options.rounds, json_lines(lines));
}

}  // namespace

std::vector<std::string> rival_names() {
  std::vector<std::string> names;
  for (const Rival& one : rivals) names.emplace_back(one.name);
  return names;
}

int run_fairness_rounds(const FairnessOptions& options, const std::vector<std::string>& variants) {
  std::vector<Participant> all = participants(options, variants);
  bool whole = true;
  for (std::size_t round = 0; round < options.rounds; ++round) {
    for (Participant& one : all) {
      const std::string line = output_of(one.command);
      whole = whole && !line.empty();
      if (!line.empty()) one.runs.push_back(line);
    }
  }
  if (options.json) {
    print_json(options, all);
  } else {
    print_table(all);
  }
  return whole ? 0 : 1;
}

}  // namespace baton::tools
