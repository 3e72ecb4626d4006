// The calibration of sockets. Every combination has a server that runs from the beginning to the
// end. An idle server makes no system call, so it does not disturb the others.
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <memory>

#include "../load/pattern.hpp"
#include "calibration.hpp"
#include "echo_child.hpp"

namespace baton::doctor {
namespace {

using Clock = std::chrono::steady_clock;

// Descriptors that this process and a server need besides their connections.
constexpr std::size_t spare_descriptors = 40;
constexpr std::size_t rounds_max = 9;
constexpr std::size_t rounds_wanted = 5;
constexpr double slice_s_min = 0.02;
constexpr double slice_s_max = 0.3;
constexpr double heat_share = 0.25;  // of the time
constexpr std::size_t looks = 3;
constexpr std::size_t finalists_max = 6;

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// The connections that the limit of descriptors allows for both sides. The soft limit is raised, as
// by `baton echo`.
std::size_t sessions_possible() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_max == RLIM_INFINITY) return SIZE_MAX;
  return limit.rlim_max > spare_descriptors ? limit.rlim_max - spare_descriptors : 1;
}

class SocketCalibration {
 public:
  SocketCalibration(const std::vector<Row>& rows, double seconds, const OnProgress& progress)
      : rows_(rows), seconds_(seconds), progress_(progress), start_(Clock::now()) {
    choose_sessions();
  }

  Measurement run() {
    const ApartOnCores apart;
    start_servers();
    heat();
    play_rounds();
    servers_.clear();
    result_.seconds = since(start_);
    return std::move(result_);
  }

 private:
  void choose_sessions() {
    const std::size_t most = sessions_possible();
    for (const std::size_t wanted : calibration_sessions) {
      const std::size_t count = std::min(wanted, most);
      if (sessions_.empty() || sessions_.back() != count) sessions_.push_back(count);
    }
    if (most < calibration_sessions[2]) {
      result_.findings.push_back(fmt::format(
          "{} sessions at most were measured instead of {}: this process may have {} descriptors; "
          "raise the limit (ulimit -n {})",
          most, calibration_sessions[2], most + spare_descriptors,
          calibration_sessions[2] + spare_descriptors));
    }
    for (const std::size_t count : sessions_) {
      if (count == 1) {
        result_.measures.push_back({"round trip, 1 session", "us", true});
        result_.measures.push_back({"CPU, 1 session", "us/message", false});
      } else {
        result_.measures.push_back({fmt::format("CPU, {} sessions", count), "us/message", true});
        result_.measures.push_back({fmt::format("rate, {} sessions", count), "messages/s", false});
      }
    }
  }

  void start_servers() {
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      if (!rows_[i].serves_sockets() || !rows_[i].avoided.empty()) continue;
      for (const Mode mode : modes) {
        if (!rows_[i].works_in(mode)) continue;
        Series series;
        series.what = {i, mode};
        series.processors = {processor_of(rows_[i], mode)};
        series.name = rows_[i].name() + " " + to_string(mode);
        auto server = EchoChild::start(series.processors.front());
        if (!server) series.dropped = server.error().reason;
        servers_.push_back(server ? std::move(*server) : nullptr);
        result_.series.push_back(std::move(series));
      }
    }
  }

  // The middle load comes first: a combination that costs twice the best is not measured again. The
  // least of a few short measurements counts, because disturbances only add to the cost.
  void heat() {
    const std::size_t count = sessions_[sessions_.size() > 1 ? 1 : 0];
    const double slice = slice_for(heat_share * seconds_ / looks, servers_.size());
    std::vector<double> costs(servers_.size(), 0);
    for (std::size_t look = 0; look < looks; ++look) {
      for (std::size_t i = 0; i < servers_.size(); ++i) {
        if (servers_[i] == nullptr) continue;
        const auto numbers = measure(i, count, slice);
        if (numbers && (look == 0 || numbers->cpu_us < costs[i])) costs[i] = numbers->cpu_us;
      }
    }
    double best = 0;
    for (std::size_t i = 0; i < servers_.size(); ++i) {
      if (servers_[i] != nullptr && (best == 0 || costs[i] < best)) best = costs[i];
    }
    for (std::size_t i = 0; i < servers_.size(); ++i) {
      if (servers_[i] == nullptr || costs[i] <= best * dropped_ratio_of_one) continue;
      drop(i,
           fmt::format("{:.1f} x the CPU of the best in the first measurements", costs[i] / best));
    }
    drop_beyond_the_first(costs);
  }

  // Enough combinations must drop out for the time to suffice.
  void drop_beyond_the_first(const std::vector<double>& costs) {
    std::vector<std::size_t> left;
    for (std::size_t i = 0; i < servers_.size(); ++i) {
      if (servers_[i] != nullptr) left.push_back(i);
    }
    std::stable_sort(left.begin(), left.end(),
                     [&](std::size_t a, std::size_t b) { return costs[a] < costs[b]; });
    for (std::size_t i = finalists_max; i < left.size(); ++i) {
      drop(left[i], fmt::format("behind {} others in the first measurements", finalists_max));
    }
  }

  void play_rounds() {
    std::size_t players = 0;
    for (const auto& server : servers_) {
      if (server != nullptr) ++players;
    }
    if (players == 0) return;
    const double slice =
        slice_for((seconds_ - since(start_)) / rounds_wanted, players * sessions_.size());
    for (std::size_t round = 0; round < rounds_max; ++round) {
      const auto began = Clock::now();
      for (std::size_t i = 0; i < servers_.size(); ++i) {
        // The order rotates, so that no combination always follows the same neighbour.
        play((i + round) % servers_.size(), slice);
      }
      if (since(start_) + since(began) > seconds_) break;
    }
  }

  void play(std::size_t index, double slice) {
    if (servers_[index] == nullptr) return;
    std::vector<double> round;
    for (const std::size_t count : sessions_) {
      const auto numbers = measure(index, count, slice);
      if (!numbers) return;
      if (count == 1) {
        round.insert(round.end(), {numbers->p50_us, numbers->cpu_us});
      } else {
        round.insert(round.end(), {numbers->cpu_us, numbers->messages_per_s});
      }
    }
    result_.series[index].rounds.push_back(std::move(round));
  }

  // Half of the time is for connecting and for waiting until the server is idle.
  static double slice_for(double seconds, std::size_t count) {
    if (count == 0) return slice_s_min;
    return std::clamp(seconds / static_cast<double>(count) / 2, slice_s_min, slice_s_max);
  }

  // A server that fails is left out.
  Result<EchoNumbers, Failure> measure(std::size_t index, std::size_t count, double slice) {
    const std::string& name = result_.series[index].name;
    progress_(fmt::format("sockets, {}, {} sessions", name, count),
              std::min(since(start_) / seconds_, 1.0));
    auto numbers = servers_[index]->measure(count, slice, pattern_);
    if (!numbers) {
      result_.findings.push_back(
          fmt::format("{} with {} sessions: {}", name, count, numbers.error().reason));
      drop(index, numbers.error().reason);
    }
    return numbers;
  }

  void drop(std::size_t index, const std::string& why) {
    servers_[index].reset();
    result_.series[index].dropped = why;
    result_.series[index].rounds.clear();
  }

  const std::vector<Row>& rows_;
  const double seconds_;
  const OnProgress& progress_;
  const Clock::time_point start_;
  const tools::Pattern pattern_;
  std::vector<std::size_t> sessions_;
  std::vector<std::unique_ptr<EchoChild>> servers_;  // one for each series; null: it is out
  Measurement result_;
};

}  // namespace

Measurement calibrate_sockets(const std::vector<Row>& rows, double seconds,
                              const OnProgress& progress) {
  return SocketCalibration(rows, seconds, progress).run();
}

}  // namespace baton::doctor
