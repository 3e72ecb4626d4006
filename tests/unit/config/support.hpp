// Shared by the tests of the configuration.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <string>
#include <string_view>
#include <vector>

#include "baton/config.hpp"

namespace baton {

/// The reason of a failed parse; a test failure when there is none.
inline std::string reason_of(const Result<Config, Failure>& parsed) {
  EXPECT_FALSE(parsed.has_value());
  return parsed.error().reason;
}
inline std::string reason_of(const Result<void, Failure>& checked) {
  EXPECT_FALSE(checked.has_value());
  return checked.error().reason;
}

/// Every word must stand in `reason`, which must be one line.
inline void expect_words(const std::string& reason, const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    EXPECT_NE(reason.find(word), std::string::npos) << "no <" << word << "> in: " << reason;
  }
  EXPECT_EQ(reason.find('\n'), std::string::npos) << reason;
}

inline Config parse_ok(std::string_view text, Config base = {}) {
  Result<Config, Failure> parsed = Config::parse(text, std::move(base));
  EXPECT_TRUE(parsed.has_value()) << parsed.error().reason;
  return parsed.has_value() ? *parsed : Config{};
}
inline Config parse_xml_ok(std::string_view document, Config base = {}) {
  Result<Config, Failure> parsed = Config::parse_xml(document, std::move(base));
  EXPECT_TRUE(parsed.has_value()) << parsed.error().reason;
  return parsed.has_value() ? *parsed : Config{};
}

inline bool has_source(const Config& config, std::string_view line) {
  for (const std::string& source : config.sources) {
    if (source == line) return true;
  }
  return false;
}
/// All of the account, for the message of a failed expectation.
inline std::string account(const Config& config) {
  std::string text;
  for (const std::string& source : config.sources) text += source + "\n";
  return text;
}

/// A variable of the environment for the time of a test.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    ::setenv(name, value.c_str(), 1);
  }
  ~Variable() { ::unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

/// A file with this text for the time of a test.
class TemporaryFile {
 public:
  explicit TemporaryFile(std::string_view text);
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace baton
