// The choice: candidates, costs, ties.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "recommendation.hpp"

namespace baton::doctor {
namespace {

std::size_t place_in(const std::vector<std::string>& list, const std::string& name) {
  return static_cast<std::size_t>(std::find(list.begin(), list.end(), name) - list.begin());
}

std::size_t place_of(Mode mode) {
  return static_cast<std::size_t>(std::find(std::begin(modes), std::end(modes), mode) -
                                  std::begin(modes));
}

// The first of three modes that works. REQUIRES: one of them works.
Mode first_mode(const Row& row, const Mode* order) {
  const Mode* const last = order + std::size(modes) - 1;
  return *std::find_if(order, last, [&](Mode one) { return row.works_in(one); });
}

// The series that may be chosen, the most preferred first.
std::vector<std::size_t> players(const Measurement& measurement,
                                 const std::vector<std::size_t>& wanted) {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < measurement.series.size(); ++i) {
    const Series& one = measurement.series[i];
    const bool may = std::find(wanted.begin(), wanted.end(), one.what.row) != wanted.end();
    if (may && one.dropped.empty() && !one.rounds.empty()) found.push_back(i);
  }
  std::stable_sort(found.begin(), found.end(), [&](std::size_t a, std::size_t b) {
    const auto key = [&](std::size_t i) {
      const Series& one = measurement.series[i];
      const auto place = std::find(wanted.begin(), wanted.end(), one.what.row) - wanted.begin();
      return std::pair(place, place_of(one.what.mode));
    };
    return key(a) < key(b);
  });
  return found;
}

// The geometric mean of all combinations of a round, as a measure of that round's conditions.
double mean_of_round(const Measurement& measurement, std::size_t round) {
  double sum = 0;
  double count = 0;
  for (const Series& one : measurement.series) {
    if (round >= one.rounds.size()) continue;
    sum += std::log(cost_of(measurement, one.rounds[round]));
    ++count;
  }
  return count == 0 ? 1 : std::exp(sum / count);
}

double score_of(const Measurement& measurement, const Series& series) {
  std::vector<double> scores;
  for (std::size_t i = 0; i < series.rounds.size(); ++i) {
    scores.push_back(cost_of(measurement, series.rounds[i]) / mean_of_round(measurement, i));
  }
  return median(std::move(scores));
}

// The most preferred of the combinations that are as good as the best. `order`: by preference.
Choice choose(const Measurement& measurement, const std::vector<std::size_t>& order) {
  const auto& series = measurement.series;
  std::size_t best = order.front();
  for (const std::size_t i : order) {
    if (score_of(measurement, series[i]) < score_of(measurement, series[best])) best = i;
  }
  std::vector<std::size_t> tied;
  for (const std::size_t i : order) {
    if (i == best || is_tie(ratio_of(measurement, series[i], series[best]))) tied.push_back(i);
  }
  const Series& chosen = series[tied.front()];
  // Configurations that cost no more than the chosen one are equals, too.
  for (const std::size_t i : order) {
    const bool known = std::find(tied.begin(), tied.end(), i) != tied.end();
    if (!known && score_of(measurement, series[i]) <= score_of(measurement, chosen)) {
      tied.push_back(i);
    }
  }
  Choice choice;
  choice.what = chosen.what;
  choice.series = tied.front();
  choice.tied.assign(tied.begin() + 1, tied.end());
  for (const std::size_t i : order) {
    if (std::find(tied.begin(), tied.end(), i) != tied.end()) continue;
    const Ratio ratio = ratio_of(measurement, series[i], chosen);
    if (choice.next && ratio.middle >= choice.next_ratio.middle) continue;
    choice.next = i;
    choice.next_ratio = ratio;
  }
  return choice;
}

}  // namespace

Ratio ratio_of(const Measurement& measurement, const Series& a, const Series& b) {
  std::vector<double> ratios;
  const std::size_t rounds = std::min(a.rounds.size(), b.rounds.size());
  for (std::size_t i = 0; i < rounds; ++i) {
    ratios.push_back(cost_of(measurement, a.rounds[i]) / cost_of(measurement, b.rounds[i]));
  }
  if (ratios.empty()) return {};
  const auto [low, high] = std::minmax_element(ratios.begin(), ratios.end());
  return {score_of(measurement, a) / score_of(measurement, b), *low, *high};
}

bool is_tie(const Ratio& ratio) {
  return ratio.middle <= tie_always || (ratio.middle <= tie_at_most && ratio.low <= 1);
}

std::vector<std::size_t> candidates(const std::vector<Row>& rows, OperationKinds kinds,
                                    const Preferences& preferences) {
  std::vector<std::size_t> found;
  bool required = false;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Row& row = rows[i];
    if (!row.available() || !row.supports(kinds) || !row.avoided.empty()) continue;
    found.push_back(i);
    required |= place_in(preferences.require, row.engine) < preferences.require.size();
  }
  // A required engine is used for all operations that it supports.
  std::erase_if(found, [&](std::size_t i) {
    return required && place_in(preferences.require, rows[i].engine) == preferences.require.size();
  });
  std::stable_sort(found.begin(), found.end(), [&](std::size_t a, std::size_t b) {
    return place_in(preferences.prefer, rows[a].engine) <
           place_in(preferences.prefer, rows[b].engine);
  });
  return found;
}

std::optional<Choice> choose_for_sockets(const std::vector<Row>& rows,
                                         const Measurement& measurement,
                                         const Preferences& preferences) {
  const auto wanted = candidates(rows, socket_operations(), preferences);
  if (wanted.empty()) return std::nullopt;
  const auto order = players(measurement, wanted);
  if (!order.empty()) return choose(measurement, order);
  Choice choice;
  choice.what.row = wanted.front();
  choice.what.mode = first_mode(rows[wanted.front()], std::begin(modes));
  return choice;
}

std::vector<Combination> fit_for_both(const std::vector<Row>& rows, const Measurement& sockets,
                                      const Choice& choice) {
  std::vector<Combination> fit = {choice.what};
  const auto part = [&](std::size_t row) { return rows[row].engine + " " + rows[row].variant; };
  std::vector<std::string> seen = {part(choice.what.row)};
  for (const std::size_t i : choice.tied) {
    const Combination& one = sockets.series[i].what;
    if (!rows[one.row].serves_files()) continue;
    if (std::find(seen.begin(), seen.end(), part(one.row)) != seen.end()) continue;
    seen.push_back(part(one.row));
    fit.push_back(one);
  }
  return fit;
}

std::optional<Choice> choose_for_files(const std::vector<Row>& rows, const Measurement& measurement,
                                       const std::vector<Combination>& both,
                                       const Preferences& preferences) {
  const auto wanted = candidates(rows, file_operations, preferences);
  if (wanted.empty()) return std::nullopt;
  auto order = players(measurement, wanted);
  // One processor before two, and the choice for sockets before its equals.
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const auto place = [&](std::size_t i) {
      const Series& one = measurement.series[i];
      return one.processors.size() > 1 ? both.end() : std::find(both.begin(), both.end(), one.what);
    };
    return place(a) < place(b);
  });
  if (!order.empty()) return choose(measurement, order);
  Choice choice;
  const bool alone =
      !both.empty() && std::find(wanted.begin(), wanted.end(), both.front().row) != wanted.end();
  choice.what.row = alone ? both.front().row : wanted.front();
  const Row& row = rows[choice.what.row];
  // A dedicated thread costs a hand-over for each operation, the mode of the sockets does not.
  const bool beside = !both.empty() && row.works_in(both.front().mode);
  choice.what.mode = beside ? both.front().mode : first_mode(row, std::begin(modes));
  return choice;
}

}  // namespace baton::doctor
