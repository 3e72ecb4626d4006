// Reports a broken promise, for every harness: prints a line and aborts, which the fuzzer counts as
// a failure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "baton/error.hpp"

namespace baton::fuzz {

/// Ends the process with a word about it unless `holds`.
void expect(bool holds, std::string_view what, std::string_view detail = {});

/// Text for display: one line, without control bytes.
void expect_one_line(std::string_view text, std::string_view what);

/// Checks a failure: it has an error, and a sentence on one line.
void expect_reason(const Failure& failure);

}  // namespace baton::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
