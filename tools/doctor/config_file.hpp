// The text of the configuration file that `--write` makes: the XML form that the library reads,
// with the reasons as a comment.
#pragma once

#include <string>

#include "recommendation.hpp"

namespace baton::doctor {

// REQUIRES: recommendation.complete.
std::string config_text(const Recommendation& recommendation, const Facts& facts);

}  // namespace baton::doctor
