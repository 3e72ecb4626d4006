#include "config_file.hpp"

#include <fmt/format.h>

namespace baton::doctor {
namespace {

// An XML comment must not contain two hyphens: a blank comes between them.
std::string comment_line(std::string text) {
  for (auto at = text.find("--"); at != std::string::npos; at = text.find("--", at)) {
    text.insert(at + 1, " ");
  }
  return "  " + text + "\n";
}

}  // namespace

std::string config_text(const Recommendation& recommendation, const Facts& facts) {
  std::string text = "<!--\n";
  text += comment_line(fmt::format("Written by `baton doctor` on Linux {}, {} cores.",
                                   facts.text("kernel"), facts.text("machine.cores")));
  for (const std::string& sentence : recommendation.sentences) text += comment_line(sentence);
  return text + "-->\n" + recommendation.config.to_xml();
}

}  // namespace baton::doctor
