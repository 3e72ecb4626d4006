// The configuration file that `--write` makes: the XML form that the library reads, with the
// reasons as a comment. It is written in one step: whoever reads it finds all of it or nothing.
#pragma once

#include <string>

#include "recommendation.hpp"

namespace baton::doctor {

// REQUIRES: recommendation.complete.
std::string config_text(const Recommendation& recommendation, const Facts& facts);

class ConfigFile {
 public:
  // Makes sure, before ten seconds are spent, that it can be written: refuses a file that exists
  // unless `force`, and makes its successor beside it.
  static Result<ConfigFile, Failure> open(const std::string& path, bool force);
  ConfigFile(ConfigFile&& other) noexcept;
  ConfigFile& operator=(ConfigFile&&) = delete;
  // Takes the successor away unless it was committed.
  ~ConfigFile();

  Result<void, Failure> commit(const std::string& text);

 private:
  ConfigFile(std::string path, bool force) : path_(std::move(path)), force_(force) {}
  std::string path_;
  bool force_;
  std::string next_;  // empty: there is none (any more)
  int descriptor_ = -1;
};

}  // namespace baton::doctor
