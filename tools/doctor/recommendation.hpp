// The recommendation: a combination, and the reasons in words. docs/guide/doctor.md explains the
// rules and the meaning of "costs" to users. The functions here take plain numbers, so that tests
// can choose them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "calibration.hpp"
#include "facts.hpp"
#include "table.hpp"

namespace baton::doctor {

// Two combinations are equally good if the one costs at most `tie_always` times the other, or at
// most `tie_at_most` times and not more in every round. The second is half of the tenth by which a
// choice may miss the best.
inline constexpr double tie_always = 1.02;
inline constexpr double tie_at_most = 1.05;

// The ratio of the costs of two combinations. The middle is that of their medians, each relative to
// the mean of its round, so that ratios of several combinations are consistent. With the least and
// the greatest ratio of a single round.
struct Ratio {
  double middle = 1;
  double low = 1;
  double high = 1;
};
Ratio ratio_of(const Measurement& measurement, const Series& a, const Series& b);
bool is_tie(const Ratio& ratio);

// The part of policy that concerns the choice.
struct Preferences {
  std::vector<std::string> require;
  std::vector<std::string> prefer;
};

// The choice of one half of a team.
struct Choice {
  Combination what;
  std::optional<std::size_t> series;  // of the measurement; none: chosen without numbers
  std::vector<std::size_t> tied;      // series that are as good
  std::optional<std::size_t> next;    // the best of the others
  Ratio next_ratio;
  bool for_files = false;  // chosen of the tied ones because it is the best for files
};

// The rows that may be chosen for some operations, the most preferred first: by policy, then in the
// order of the registry. Rows known to be bad are left out.
std::vector<std::size_t> candidates(const std::vector<Row>& rows, OperationKinds kinds,
                                    const Preferences& preferences);
std::optional<Choice> choose_for_sockets(const std::vector<Row>& rows,
                                         const Measurement& measurement,
                                         const Preferences& preferences);
// Processors that could do files, too: the choice for sockets, and its equals on other engines.
std::vector<Combination> fit_for_both(const std::vector<Row>& rows, const Measurement& sockets,
                                      const Choice& choice);
// Among equals one processor for everything comes first, because it is simpler than two. Without
// numbers it is chosen if it can do everything. `both`: the result of fit_for_both.
std::optional<Choice> choose_for_files(const std::vector<Row>& rows, const Measurement& measurement,
                                       const std::vector<Combination>& both,
                                       const Preferences& preferences);

struct Recommendation {
  bool complete = false;               // there is an engine for sockets
  std::vector<std::string> sentences;  // the recommendation and its reasons
  Config config;                       // processors, and the engines that policy forbids
  std::optional<Choice> sockets;
  std::optional<Choice> files;
};

struct Examined {
  const Facts& facts;
  const std::vector<Row>& rows;
  const Measurement& sockets;
  const Measurement& files;
  const Config& policy;
};
Recommendation recommend(const Examined& examined);

}  // namespace baton::doctor
