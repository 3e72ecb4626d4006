// The recommendation: which combination, and why, in words. Its rules, and what "costs" means, are
// written down for users in docs/guide/doctor.md; here they are carried out on numbers that tests
// can make up.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "calibration.hpp"
#include "facts.hpp"
#include "table.hpp"

namespace baton::doctor {

// Two combinations are as good as each other when the one costs at most `tie_always` times the
// other, or at most `tie_at_most` times and not more in every round. The second is half of the
// tenth by which a choice may miss the best.
inline constexpr double tie_always = 1.02;
inline constexpr double tie_at_most = 1.05;

// The cost of one combination against another. In the middle: the medians of their costs in each
// round against the mean of all in that round, so that ratios of several agree with each other. And
// the least and the greatest ratio of a single round.
struct Ratio {
  double middle = 1;
  double low = 1;
  double high = 1;
};
Ratio ratio_of(const Measurement& measurement, const Series& a, const Series& b);
bool is_tie(const Ratio& ratio);

// Policy, as far as it concerns choosing.
struct Preferences {
  std::vector<std::string> require;
  std::vector<std::string> prefer;
};

// The choice of one half of a team.
struct Choice {
  Combination what;
  std::optional<std::size_t> series;  // of the measurement; none: chosen without numbers
  std::vector<std::size_t> tied;      // series that are as good
  std::optional<std::size_t> next;    // the best of those that are not
  Ratio next_ratio;
  bool for_files = false;  // of the tied it is the one that does files best
};

// The rows that may be chosen for some operations, the most preferred first: policy, then the order
// of the registry. Rows known to be bad are left out.
std::vector<std::size_t> candidates(const std::vector<Row>& rows, OperationKinds kinds,
                                    const Preferences& preferences);
std::optional<Choice> choose_for_sockets(const std::vector<Row>& rows,
                                         const Measurement& measurement,
                                         const Preferences& preferences);
// Processors that may do the files as well: the sockets' choice, and those on other engines that
// are as good for sockets.
std::vector<Combination> fit_for_both(const std::vector<Row>& rows, const Measurement& sockets,
                                      const Choice& choice);
// One processor for all comes first among equals, for it is simpler than two. Without numbers it
// is taken if it can. `both`: as fit_for_both has found them.
std::optional<Choice> choose_for_files(const std::vector<Row>& rows, const Measurement& measurement,
                                       const std::vector<Combination>& both,
                                       const Preferences& preferences);

struct Recommendation {
  bool complete = false;               // there is an engine for sockets
  std::vector<std::string> sentences;  // what and why
  Config config;                       // processors, and what policy forbids
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
