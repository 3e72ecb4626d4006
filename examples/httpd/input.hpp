// The bytes of a connection that are received and not parsed yet: one block of memory, small for
// small requests, and at most as large as a request head may be.
#pragma once

#include <algorithm>
#include <baton/buffer.hpp>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>

namespace httpd {

class Input {
 public:
  explicit Input(std::size_t most)
      : most_(most), capacity_(std::min(small, most)), memory_(new char[capacity_]) {}

  [[nodiscard]] std::string_view text() const { return {memory_.get() + begin_, end_ - begin_}; }
  [[nodiscard]] bool empty() const { return begin_ == end_; }
  /// A head of this size is too large.
  [[nodiscard]] bool full() const { return end_ - begin_ == most_; }

  /// Where to read to. REQUIRES: not full. Moves the text: views of it are no longer valid.
  [[nodiscard]] baton::MutableBuffer room() {
    if (begin_ > 0) {
      std::memmove(memory_.get(), memory_.get() + begin_, end_ - begin_);
      end_ -= begin_;
      begin_ = 0;
    }
    if (end_ == 0 && capacity_ > small) resize(small);
    if (end_ == capacity_) resize(std::min(most_, 4 * capacity_));
    return {memory_.get() + end_, capacity_ - end_};
  }
  void add(std::size_t bytes) { end_ += bytes; }
  void consume(std::size_t bytes) {
    begin_ += bytes;
    if (begin_ == end_) begin_ = end_ = 0;
  }

 private:
  static constexpr std::size_t small = 1'024;

  void resize(std::size_t capacity) {
    std::unique_ptr<char[]> memory(new char[capacity]);
    std::memcpy(memory.get(), memory_.get(), end_);
    memory_ = std::move(memory);
    capacity_ = capacity;
  }

  const std::size_t most_;
  std::size_t capacity_;
  std::unique_ptr<char[]> memory_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

}  // namespace httpd
