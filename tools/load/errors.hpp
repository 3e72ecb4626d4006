// The failures of a run: the first few in words, all of them counted.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace baton::tools {

class LoadErrors {
 public:
  static constexpr std::size_t texts_max = 5;

  void add(std::string text) {
    ++count_;
    if (texts_.size() < texts_max) texts_.push_back(std::move(text));
  }

  void merge(const LoadErrors& other) {
    count_ += other.count_;
    for (const auto& text : other.texts_) {
      if (texts_.size() < texts_max) texts_.push_back(text);
    }
  }

  std::size_t count() const { return count_; }
  const std::vector<std::string>& texts() const { return texts_; }

 private:
  std::size_t count_ = 0;
  std::vector<std::string> texts_;
};

// Advice about a failed system call of the generator; empty when there is none.
std::string advice_for(int error);

}  // namespace baton::tools
