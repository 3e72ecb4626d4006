// The arithmetic of the calibration.
#include <algorithm>
#include <cmath>

#include "calibration.hpp"

namespace baton::doctor {

std::size_t Measurement::rounds() const {
  std::size_t most = 0;
  for (const Series& one : series) most = std::max(most, one.rounds.size());
  return most;
}

double cost_of(const Measurement& measurement, const std::vector<double>& round) {
  double sum = 0;
  std::size_t count = 0;
  for (std::size_t i = 0; i < round.size(); ++i) {
    if (!measurement.measures[i].counts) continue;
    sum += std::log(round[i]);
    ++count;
  }
  return count == 0 ? 0 : std::exp(sum / static_cast<double>(count));
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

double median_of(const Series& series, std::size_t measure) {
  std::vector<double> values;
  for (const auto& round : series.rounds) values.push_back(round[measure]);
  return median(std::move(values));
}

}  // namespace baton::doctor
