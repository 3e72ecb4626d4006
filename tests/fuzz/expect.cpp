#include "expect.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace baton::fuzz {

void expect(bool holds, std::string_view what, std::string_view detail) {
  if (holds) return;
  std::fprintf(stderr, "broken: %.*s: %.*s\n", static_cast<int>(what.size()), what.data(),
               static_cast<int>(detail.size()), detail.data());
  std::abort();
}

void expect_one_line(std::string_view text, std::string_view what) {
  const bool one_line = std::none_of(text.begin(), text.end(), [](char c) {
    return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
  });
  expect(one_line, what, text);
}

void expect_reason(const Failure& failure) {
  expect(static_cast<bool>(failure.code), "a failure has an error", failure.reason);
  expect(!failure.reason.empty(), "a failure has a reason");
  expect_one_line(failure.reason, "a reason is one line, without control bytes");
}

}  // namespace baton::fuzz
