// Invented tables and measurements for tests.
#pragma once

#include <string>
#include <vector>

#include "doctor/recommendation.hpp"

namespace baton::doctor {

struct MadeUp {
  std::vector<Row> rows;
  Measurement sockets;
  Measurement files;
  Facts facts;
  Config policy;

  MadeUp() {
    sockets.measures = {{"round trip, 1 session", "us"},
                        {"CPU, 100 sessions", "us/message"},
                        {"rate, 100 sessions", "messages/s", false}};
    files.measures = {{"CPU, cached", "us/read"}, {"time, direct", "us/read"}};
    facts.add("machine.cores", 4);
    facts.add("kernel", std::string("6.1"));
  }

  /// A row that works in all modes; `sockets`: also for them, and for everything.
  std::size_t row(const std::string& engine, const std::string& wait, bool serves_sockets = true) {
    Row one;
    one.engine = engine;
    one.wait = wait;
    one.praise = "praise of " + engine;
    for (std::size_t i = 0; i < operation_kinds; ++i) {
      const auto kind = static_cast<OperationKind>(i);
      const bool does =
          file_operations.has(kind) || (serves_sockets && socket_operations().has(kind));
      one.support[i] = does ? Support::native : Support::unsupported;
    }
    for (const Mode mode : modes) one.modes.push_back({mode, true, "", ""});
    rows.push_back(one);
    return rows.size() - 1;
  }
  void refuse(std::size_t row, Mode mode, const std::string& code) {
    for (ModeAnswer& one : rows[row].modes) {
      if (one.mode == mode) one = {mode, false, "reason of " + code, code};
    }
  }
  void refuse(std::size_t row, const std::string& code) {
    for (const Mode mode : modes) refuse(row, mode, code);
  }

  /// Rounds in which everything that counts costs so much.
  Series& measured(std::size_t row, Mode mode, const std::vector<double>& costs) {
    Series series;
    series.what = {row, mode};
    series.processors = {processor_of(rows[row], mode)};
    series.name = rows[row].name() + " " + to_string(mode);
    for (const double cost : costs) series.rounds.push_back({cost, cost, 1000});
    sockets.series.push_back(series);
    return sockets.series.back();
  }
  Series& measured_files(const Combination& of_sockets, const Combination& of_files,
                         const std::vector<double>& costs) {
    Series series;
    series.what = of_files;
    series.processors = team_of(rows, of_sockets, of_files);
    series.name = (series.processors.size() > 1 ? "team with " : "") + rows[of_files.row].name() +
                  " " + to_string(of_files.mode);
    for (const double cost : costs) series.rounds.push_back({cost, cost});
    files.series.push_back(series);
    return files.series.back();
  }

  Recommendation recommended() const { return recommend({facts, rows, sockets, files, policy}); }
  std::string said() const {
    std::string text;
    for (const std::string& sentence : recommended().sentences) text += sentence + "\n";
    return text;
  }
};

}  // namespace baton::doctor
