// Structs and texts of callers: their versions, and what a function returns when something in it
// throws.
#pragma once

#include <errno.h>

#include <cstddef>
#include <cstring>
#include <string_view>
#include <system_error>

#include "baton.h"
#include "baton/deadline.hpp"

namespace baton::capi {

/// No struct of a later version is larger. A larger number was not written by this header, and the
/// memory behind the struct is not looked at.
constexpr std::size_t struct_size_max = 256;

/// 0, or why a struct of this size is of no version: EINVAL or E2BIG. `known` is the size here, and
/// there is no earlier version.
constexpr int check_size(std::size_t size, std::size_t known) noexcept {
  if (size < known) return EINVAL;
  return size <= struct_size_max ? 0 : E2BIG;
}

/// Checks a caller's struct. It may be of a later version, and longer: then the rest must be zero.
/// 0, EINVAL or E2BIG.
template <class Struct>
int check_in(const void* from, std::size_t size) noexcept {
  if (from == nullptr) return EINVAL;
  if (const int error = check_size(size, sizeof(Struct))) return error;
  const auto* bytes = static_cast<const unsigned char*>(from);
  for (std::size_t i = sizeof(Struct); i < size; ++i) {
    if (bytes[i] != 0) return E2BIG;
  }
  return 0;
}

/// Copies a caller's struct that passes that check.
template <class Struct>
int copy_in(const void* from, std::size_t size, Struct& to) noexcept {
  const int error = check_in<Struct>(from, size);
  if (error == 0) std::memcpy(&to, from, sizeof(Struct));
  return error;
}

/// Writes a text as baton_explain does: cut to `size` with its final NUL. The whole length.
std::size_t copy_out(std::string_view from, char* to, std::size_t size) noexcept;

/// Writes the text that `make` returns; an empty one when it throws.
template <class Make>
std::size_t copy_out_of(Make make, char* to, std::size_t size) noexcept {
  try {
    return copy_out(make(), to, size);
  } catch (...) {
    return copy_out("", to, size);
  }
}

/// The number of the C interface for an error.
int code_of(const std::error_code& error) noexcept;
inline int code_of(int error_value) noexcept {
  return error_value >= 0 ? error_value : BATON_ERROR_BASE - error_value;
}
/// The error of the current exception: no memory, or its error code. REQUIRES: inside a catch.
int code_of_exception() noexcept;

/// A point of the clock as the header has it: 0 is never. REQUIRES: not negative.
inline Deadline deadline_of(std::int64_t deadline_ns) noexcept {
  return deadline_ns == 0 ? Deadline::never() : Deadline::at_ns(deadline_ns);
}

}  // namespace baton::capi
