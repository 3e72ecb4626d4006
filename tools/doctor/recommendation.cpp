// Makes a configuration and sentences of the two choices.
#include "recommendation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace baton::doctor {
namespace {

// As a sentence names it: "io_uring shared", "a team with linux_aio shared".
std::string in_a_sentence(const Series& series) {
  return (series.processors.size() > 1 ? "a " : "") + series.name;
}

std::string names_of(const Measurement& measurement, const std::vector<std::size_t>& list) {
  std::string text;
  for (const std::size_t i : list) {
    text += (text.empty() ? "" : ", ") + in_a_sentence(measurement.series[i]);
  }
  return text;
}

std::string number(double value) {
  return value >= 100 ? fmt::format("{:.0f}", value) : fmt::format("{:.2f}", value);
}

// "CPU, 100 sessions 5.11 us/message, ...": the numbers that counted.
std::string numbers_of(const Measurement& measurement, const Series& series) {
  std::string text;
  for (std::size_t i = 0; i < measurement.measures.size(); ++i) {
    const Measure& one = measurement.measures[i];
    if (!one.counts) continue;
    text += fmt::format("{}{} {} {}", text.empty() ? "" : "; ", one.name,
                        number(median_of(series, i)), one.unit);
  }
  return text;
}

std::string rounds_text(std::size_t rounds) {
  return rounds == 1 ? "1 round" : fmt::format("{} rounds", rounds);
}

// A series that is far better in one number is named, because the mean hides it and a program may
// need just that.
void tell_strengths(const Series& chosen, const Measurement& measurement,
                    std::vector<std::string>& sentences) {
  constexpr double far_better = 2.0 / 3;
  for (const Series& other : measurement.series) {
    if (!other.dropped.empty() || other.rounds.empty() || &other == &chosen) continue;
    std::string strengths;
    for (std::size_t i = 0; i < measurement.measures.size(); ++i) {
      const Measure& one = measurement.measures[i];
      const double ratio = median_of(other, i) / median_of(chosen, i);
      if (!one.counts || ratio > far_better) continue;
      strengths += fmt::format("{}{} {:.2f} x", strengths.empty() ? "" : "; ", one.name, ratio);
    }
    if (strengths.empty()) continue;
    sentences.push_back(fmt::format("{} is far better in this: {}. Take it if that counts most.",
                                    in_a_sentence(other), strengths));
  }
}

// The reason for the choice, with its numbers and its certainty.
void explain_choice(const Choice& choice, const Measurement& measurement,
                    const std::vector<Row>& rows, std::vector<std::string>& sentences) {
  if (!choice.series) {
    sentences.push_back(
        fmt::format("It was not measured: it is the first in the order of `baton engines` that "
                    "works here ({}).",
                    rows[choice.what.row].praise));
    return;
  }
  const Series& chosen = measurement.series[*choice.series];
  sentences.push_back(fmt::format("Measured in {}: {}.", rounds_text(chosen.rounds.size()),
                                  numbers_of(measurement, chosen)));
  if (!choice.tied.empty()) {
    sentences.push_back(fmt::format(
        "A tie with {}: the difference is too small to measure here, so {}.",
        names_of(measurement, choice.tied),
        choice.for_files ? "the best one for files was taken"
                         : "the one that is allowed in more places, or is simpler, was taken"));
  }
  if (choice.next) {
    sentences.push_back(
        fmt::format("Next comes {}, which costs {:.2f} x as much ({:.2f} to {:.2f} "
                    "in single rounds).",
                    in_a_sentence(measurement.series[*choice.next]), choice.next_ratio.middle,
                    choice.next_ratio.low, choice.next_ratio.high));
    if (choice.next_ratio.low < 1) {
      sentences.push_back(
          "It was cheaper in at least one round, so the choice is uncertain: "
          "measure for longer (--seconds), on an idle machine.");
    }
  } else if (choice.tied.empty()) {
    sentences.push_back(measurement.series.size() > 1 ? "No other one was measured to the end."
                                                      : "There was nothing to compare it with.");
  }
  tell_strengths(chosen, measurement, sentences);
  if (chosen.rounds.size() < 3) {
    sentences.push_back("Fewer than three rounds are rough: measure for longer (--seconds).");
  }
}

// As many threads as the quota allows, if it allows less than there are cores.
std::uint32_t threads_for(Mode mode, const Facts& facts) {
  const auto quota = facts.number("cgroup.cpus");
  const auto cores = facts.number("machine.cores");
  if (mode != Mode::per_thread || !quota || !cores || *quota >= *cores) return 0;
  return static_cast<std::uint32_t>(std::max(1.0, std::ceil(*quota)));
}

std::string title(const Choice& choice, const std::vector<Row>& rows) {
  return fmt::format("{}, mode {}", rows[choice.what.row].name(), to_string(choice.what.mode));
}

void tell_sockets(const Examined& examined, Recommendation& out) {
  const Choice& choice = *out.sockets;
  out.sentences.push_back(fmt::format("Use {} for sockets.", title(choice, examined.rows)));
  explain_choice(choice, examined.sockets, examined.rows, out.sentences);
  if (choice.what.mode == Mode::per_thread) {
    out.sentences.push_back(
        "It is meant for handlers that never block; if yours do, use mode=\"shared\" and run more "
        "threads.");
  }
  const std::uint32_t threads = out.config.processors.front().threads;
  if (threads > 0) {
    out.sentences.push_back(
        fmt::format("{} thread{}, because the control group's quota allows no more.", threads,
                    threads == 1 ? "" : "s"));
  }
}

// One of several equals for sockets does files better than any team.
void take_for_both(Choice& sockets, const Measurement& measurement, const Combination& what) {
  const auto found = std::find_if(sockets.tied.begin(), sockets.tied.end(), [&](std::size_t i) {
    return measurement.series[i].what == what;
  });
  if (found == sockets.tied.end()) return;
  std::swap(*sockets.series, *found);
  sockets.what = what;
  sockets.for_files = true;
  if (sockets.next) {
    sockets.next_ratio = ratio_of(measurement, measurement.series[*sockets.next],
                                  measurement.series[*sockets.series]);
  }
}

void tell_files(const Examined& examined, Recommendation& out, bool alone) {
  const Choice& choice = *out.files;
  if (alone) {
    out.sentences.push_back("Use the same processor for files.");
  } else {
    out.sentences.push_back(fmt::format("Use {} for files, as the second processor of a team.",
                                        title(choice, examined.rows)));
  }
  explain_choice(choice, examined.files, examined.rows, out.sentences);
}

// Candidates that are unavailable or known to be bad: each engine once. The engine for simulations
// is not a feature of a machine, and is left out.
void tell_missing(const Examined& examined, Recommendation& out) {
  std::vector<std::string> told;
  for (const Row& row : examined.rows) {
    const bool wanted = row.available() ? !row.avoided.empty() : row.refusal().code != "unsuitable";
    if (!wanted || std::find(told.begin(), told.end(), row.name()) != told.end()) continue;
    told.push_back(row.name());
    out.sentences.push_back(
        row.available() ? fmt::format("{} works and is left out: {}.", row.name(), row.avoided)
                        : fmt::format("{} is not available: {} [{}].", row.name(),
                                      row.refusal().reason, row.refusal().code));
  }
}

bool is_alone(const Choice& files, const Measurement& measurement, const Choice& sockets) {
  if (!files.series) return files.what == sockets.what;
  return measurement.series[*files.series].processors.size() == 1;
}

}  // namespace

Recommendation recommend(const Examined& examined) {
  Recommendation out;
  out.config.forbid = examined.policy.forbid;
  const auto& rows = examined.rows;
  const Preferences preferences{examined.policy.require, examined.policy.prefer};
  out.sockets = choose_for_sockets(rows, examined.sockets, preferences);
  out.complete = out.sockets.has_value();
  if (!out.complete) {
    out.sentences.push_back("No engine serves sockets here.");
    tell_missing(examined, out);
    return out;
  }
  out.files = choose_for_files(rows, examined.files,
                               fit_for_both(rows, examined.sockets, *out.sockets), preferences);
  const bool alone = out.files && is_alone(*out.files, examined.files, *out.sockets);
  if (alone) take_for_both(*out.sockets, examined.sockets, out.files->what);
  out.config.processors =
      team_of(rows, out.sockets->what, alone || !out.files ? out.sockets->what : out.files->what);
  for (ProcessorConfig& processor : out.config.processors) {
    processor.threads = threads_for(processor.mode, examined.facts);
  }
  tell_sockets(examined, out);
  if (out.files) {
    tell_files(examined, out, alone);
  } else {
    out.sentences.push_back("No engine does files here: starting one fails with not_supported.");
  }
  tell_missing(examined, out);
  return out;
}

}  // namespace baton::doctor
