// A matcher for the last output of a program: these words, in this order. (Regular expressions
// over many lines take the C library seconds.)
#pragma once

#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "base/asan.hpp"

namespace baton::test {

class Tells {
 public:
  using is_gtest_matcher = void;
  explicit Tells(std::vector<std::string> words) : words_(std::move(words)) {}

  bool MatchAndExplain(const std::string& text, std::ostream*) const {
#ifdef BATON_ASAN
    // This process may be the first to see it.
    if (text.find("AddressSanitizer: use-after-poison") != std::string::npos) return true;
#endif
    std::size_t from = 0;
    for (const std::string& word : words_) {
      from = text.find(word, from);
      if (from == std::string::npos) return false;
      from += word.size();
    }
    return true;
  }
  void DescribeTo(std::ostream* out) const {
    *out << "tells, in this order:";
    for (const std::string& word : words_) *out << " \"" << word << '"';
  }
  void DescribeNegationTo(std::ostream* out) const { DescribeTo(out); }

 private:
  std::vector<std::string> words_;
};

}  // namespace baton::test
