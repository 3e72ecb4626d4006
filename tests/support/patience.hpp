// patience.h for C++.
#pragma once

#include <sys/time.h>

#include "baton/deadline.hpp"
#include "patience.h"

namespace baton::test {

inline Duration patience() {
  static const Duration span{test_patience_ns()};
  return span;
}

/// When the test fails.
inline Deadline at_last() { return Deadline::after(patience()); }

/// False once the time has come.
inline bool is_ahead(Deadline end) { return Deadline::after(Duration{0}) < end; }

/// For calls that block.
inline timeval patience_as_timeval() {
  constexpr std::int64_t us_per_second = 1'000'000;
  const std::int64_t us = patience().count() / 1'000;
  return {.tv_sec = us / us_per_second, .tv_usec = us % us_per_second};
}

}  // namespace baton::test
