// The calibration of files: each measurement is a child process that reads one file again and
// again, cached and past the cache.
#include <fcntl.h>
#include <fmt/format.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>

#include "../load/file_pass.hpp"
#include "baton/proactor.hpp"
#include "calibration.hpp"
#include "child.hpp"

namespace baton::doctor {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t block = tools::file_alignment;
constexpr std::size_t depth = 16;
constexpr std::size_t rounds_max = 9;
constexpr std::size_t rounds_wanted = 5;
constexpr double slice_s_min = 0.02;
constexpr double slice_s_max = 0.3;
constexpr double answer_s_max = 20;

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double cpu_s() {
  timespec t{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

// In the child: "CPU ELAPSED", in microseconds a block, or "no" and why.
std::string read_file(const std::vector<ProcessorConfig>& processors, int descriptor,
                      std::uint64_t size, double seconds, const tools::Pattern& pattern) {
  Config config;
  config.processors = processors;
  // Required, so that nothing else replaces the measured engine.
  for (ProcessorConfig& processor : config.processors) {
    processor.threads = 1;
    if (std::find(config.require.begin(), config.require.end(), processor.engine) ==
        config.require.end()) {
      config.require.push_back(processor.engine);
    }
  }
  const auto proactor = Proactor::open(config);
  if (!proactor) return "no " + proactor.error().reason;
  auto file = File::adopt(**proactor, descriptor, Ownership::borrowed);
  if (!file) return "no " + file.error().message();
  tools::LoadErrors errors;
  const auto pass =
      std::make_unique<tools::FilePass>(**proactor, *file, pattern, block, depth, size, errors);
  const double before = cpu_s();
  const tools::FilePassResult& result = pass->run(tools::FilePass::Kind::check, seconds);
  const double cpu = cpu_s() - before;
  if (errors.count() > 0) return "no " + errors.texts().front();
  if (result.operations == 0) return "no block was read in time";
  const auto count = static_cast<double>(result.operations);
  return fmt::format("{:.6f} {:.6f}", cpu * 1e6 / count, result.elapsed_s * 1e6 / count);
}

class FileCalibration {
 public:
  FileCalibration(const ScratchFile& file, double seconds, const OnProgress& progress)
      : file_(file), seconds_(seconds), progress_(progress), start_(Clock::now()) {
    result_.measures = {{"CPU, cached", "us/read", true}, {"time, cached", "us/read", true}};
    descriptors_ = {file.cached()};
    if (file.direct() >= 0) {
      result_.measures.push_back({"CPU, direct", "us/read", true});
      result_.measures.push_back({"time, direct", "us/read", true});
      descriptors_.push_back(file.direct());
    } else {
      result_.findings.push_back("direct reads were not measured: the file system has none");
    }
  }

  void add(const Combination& what, std::vector<ProcessorConfig> processors, std::string name) {
    Series series;
    series.what = what;
    series.processors = std::move(processors);
    series.name = std::move(name);
    result_.series.push_back(std::move(series));
  }

  Measurement run() {
    if (!result_.series.empty()) play_rounds();
    result_.seconds = since(start_);
    return std::move(result_);
  }

 private:
  void play_rounds() {
    for (std::size_t round = 0; round < rounds_max; ++round) {
      const auto began = Clock::now();
      const double slice = slice_for(round);
      for (std::size_t i = 0; i < result_.series.size(); ++i) {
        play(result_.series[(i + round) % result_.series.size()], slice);
      }
      if (round == 0) drop_the_dear();
      if (since(start_) + since(began) > seconds_) break;
    }
  }

  double slice_for(std::size_t round) const {
    const auto players = std::count_if(result_.series.begin(), result_.series.end(),
                                       [](const Series& one) { return one.dropped.empty(); });
    const double left = seconds_ - since(start_);
    const auto rounds = static_cast<double>(round < rounds_wanted ? rounds_wanted - round : 1);
    const auto parts = static_cast<double>(players) * static_cast<double>(descriptors_.size());
    return std::clamp(left / rounds / parts * 0.8, slice_s_min, slice_s_max);
  }

  // The first round shows which candidates need not be measured again.
  void drop_the_dear() {
    double best = 0;
    const auto cost = [this](const Series& one) {
      return one.rounds.empty() ? 0 : cost_of(result_, one.rounds.front());
    };
    for (const Series& one : result_.series) {
      if (cost(one) > 0 && (best == 0 || cost(one) < best)) best = cost(one);
    }
    for (Series& one : result_.series) {
      if (cost(one) <= best * dropped_ratio) continue;
      one.dropped =
          fmt::format("{:.1f} x the cost of the best in the first round", cost(one) / best);
      one.rounds.clear();
    }
  }

  void play(Series& series, double slice) {
    if (!series.dropped.empty()) return;
    std::vector<double> round;
    for (const int descriptor : descriptors_) {
      progress_(fmt::format("files, {}", series.name), std::min(since(start_) / seconds_, 1.0));
      double cpu = 0;
      double elapsed = 0;
      const ChildEnd end = run_in_child(
          [&] { return read_file(series.processors, descriptor, file_.size(), slice, pattern_); },
          answer_s_max);
      if (!end.good || std::sscanf(end.text.c_str(), "%lf %lf", &cpu, &elapsed) != 2 || cpu <= 0) {
        drop(series, end.good ? end.text : end.trouble);
        return;
      }
      round.insert(round.end(), {cpu, elapsed});
    }
    series.rounds.push_back(std::move(round));
  }

  // A team that cannot be opened is no finding, but a process that died is one.
  void drop(Series& series, std::string why) {
    if (why.starts_with("no ")) {
      why.erase(0, 3);
    } else {
      result_.findings.push_back(fmt::format("files, {}: {}", series.name, why));
    }
    series.dropped = std::move(why);
    series.rounds.clear();
  }

  const ScratchFile& file_;
  const double seconds_;
  const OnProgress& progress_;
  const Clock::time_point start_;
  const tools::Pattern pattern_;
  std::vector<int> descriptors_;
  Measurement result_;
};

}  // namespace

std::vector<ProcessorConfig> team_of(const std::vector<Row>& rows, const Combination& sockets,
                                     const Combination& files) {
  std::vector<ProcessorConfig> team = {processor_of(rows[sockets.row], sockets.mode)};
  if (sockets == files) return team;
  team.front().operations = socket_operations();
  team.push_back(processor_of(rows[files.row], files.mode));
  team.back().operations = file_operations;
  return team;
}

Measurement calibrate_files(const std::vector<Row>& rows, const std::vector<Combination>& both,
                            const ScratchFile& file, double seconds, const OnProgress& progress) {
  FileCalibration calibration(file, seconds, progress);
  for (const Combination& one : both) {
    if (!rows[one.row].serves_files()) continue;
    calibration.add(one, team_of(rows, one, one), rows[one.row].name() + " " + to_string(one.mode));
  }
  if (both.empty()) return calibration.run();
  const Combination& sockets = both.front();
  // The wait strategy does not matter for files, so one row of each engine is enough.
  const auto part = [&](std::size_t row) { return rows[row].engine + " " + rows[row].variant; };
  std::vector<std::string> seen = {part(sockets.row)};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (!rows[i].serves_files() || !rows[i].avoided.empty()) continue;
    if (std::find(seen.begin(), seen.end(), part(i)) != seen.end()) continue;
    seen.push_back(part(i));
    for (const Mode mode : modes) {
      // A team is either shared or per_thread. Both may have a dedicated processor.
      const bool fits =
          mode == sockets.mode || mode == Mode::dedicated || sockets.mode == Mode::dedicated;
      const Combination files{i, mode};
      if (!fits || !rows[i].works_in(mode)) continue;
      calibration.add(files, team_of(rows, sockets, files),
                      "team with " + rows[i].name() + " " + to_string(mode));
    }
  }
  return calibration.run();
}

}  // namespace baton::doctor
