// The results of `baton doctor`, and their two forms: for people, and as one JSON object.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "calls.hpp"
#include "facts.hpp"
#include "file_system.hpp"
#include "known_bad.hpp"
#include "recommendation.hpp"
#include "table.hpp"

namespace baton::doctor {

struct Report {
  Facts facts;
  std::vector<CallAnswer> calls;
  std::optional<FileSystem> file_system;
  std::vector<KnownBad> troubles;
  std::vector<Row> rows;
  std::vector<InterruptRow> interrupts;
  Measurement sockets;
  Measurement files;
  std::vector<std::string> findings;  // checks that were impossible, and why
  Recommendation recommendation;
  Config policy;
  double seconds = 0;
};

std::string text_of(const Report& report);
std::string json_of(const Report& report);

}  // namespace baton::doctor
