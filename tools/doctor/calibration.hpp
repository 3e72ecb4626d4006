// The calibration: the combinations that could be recommended, each measured on this machine, in
// rounds. In a round all of them run one after the other, so that a disturbance of the machine
// affects all alike. Only numbers of one round are compared.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "scratch_file.hpp"
#include "table.hpp"

namespace baton::doctor {

// One of the numbers of a round. Less is better. A number that does not count is only shown.
struct Measure {
  std::string name;
  std::string unit;
  bool counts = true;
};

// A row of the table in one of its modes.
struct Combination {
  std::size_t row = 0;
  Mode mode = Mode::shared;
  friend bool operator==(const Combination&, const Combination&) = default;
};

// One combination and its numbers.
struct Series {
  Combination what;
  // As it was opened. One processor, or for files perhaps two, of which the first is for sockets.
  std::vector<ProcessorConfig> processors;
  std::string name;
  std::string dropped;                      // why its measurement ended early; empty: it did not
  std::vector<std::vector<double>> rounds;  // [round][measure]
};

struct Measurement {
  std::vector<Measure> measures;
  std::vector<Series> series;
  double seconds = 0;                 // its length
  std::vector<std::string> findings;  // refusals of the machine

  std::size_t rounds() const;
};

// The cost of a combination in one round: the geometric mean of the numbers that count. Only the
// ratio of two costs of the same round has a meaning.
double cost_of(const Measurement& measurement, const std::vector<double>& round);
double median(std::vector<double> values);
// The values of one measure over the rounds.
double median_of(const Series& series, std::size_t measure);

// Called with the current step and its progress (0 to 1).
using OnProgress = std::function<void(const std::string& what, double done)>;

inline constexpr std::size_t calibration_sessions[] = {1, 100, 1000};
// A configuration that costs this much more than the best is not measured again. Its whole cost
// decides, or in the first measurements of sockets a single number, which is less reliable.
inline constexpr double dropped_ratio = 1.5;
inline constexpr double dropped_ratio_of_one = 2;

// Echo on every row that serves sockets, in every mode in which it works.
Measurement calibrate_sockets(const std::vector<Row>& rows, double seconds,
                              const OnProgress& progress);
// Reads of cached blocks, and past the cache, in every team that could be recommended after the
// choice for sockets. `both` are processors that could do sockets and files: the first is the
// choice, the others are as good for sockets. The other teams are the choice and a second processor
// on another engine that serves files.
Measurement calibrate_files(const std::vector<Row>& rows, const std::vector<Combination>& both,
                            const ScratchFile& file, double seconds, const OnProgress& progress);

// The processors of a team, each with its half of the operations.
std::vector<ProcessorConfig> team_of(const std::vector<Row>& rows, const Combination& sockets,
                                     const Combination& files);

}  // namespace baton::doctor
