// Result<T, E>: a value or an error. C++20 has no std::expected; this is the small part of it that
// the library needs, with the same member names, so that a later change to std::expected breaks no
// program.
#pragma once

#include <concepts>
#include <cstddef>
#include <system_error>
#include <type_traits>
#include <utility>
#include <variant>

#include "baton/misuse.hpp"

namespace baton {

/// Marks a value as the error of a Result: `return unexpected{code};`
template <class E>
struct unexpected {
  E error;  ///< what went wrong
};
/// Finds the type of the error.
template <class E>
unexpected(E) -> unexpected<E>;

namespace detail {

/// Ends the program because the value of an error was requested; prints the code and reason of a
/// Failure.
template <class E>
[[noreturn]] void no_value(const E& error) noexcept {
  constexpr const char* rule =
      "the value of a Result was requested, but it is an error: check has_value() first";
  if constexpr (std::same_as<E, std::error_code>) {
    misused(rule, error);
  } else if constexpr (requires { misused(error.reason.c_str(), error.code); }) {
    misused(error.reason.c_str(), error.code);
  } else {
    misused(rule);
  }
}

}  // namespace detail

/// A value or an error, with the member names of std::expected.
template <class T, class E = std::error_code>
class [[nodiscard]] Result {
 public:
  using value_type = T;
  using error_type = E;

  Result(T value) : storage_(std::in_place_index<0>, std::move(value)) {}  // NOLINT: as expected
  template <class G>
    requires std::is_constructible_v<E, G>
  Result(unexpected<G> failure)  // NOLINT: implicit, as std::expected
      : storage_(std::in_place_index<1>, std::move(failure.error)) {}

  /// Whether there is a value.
  [[nodiscard]] bool has_value() const noexcept { return storage_.index() == 0; }
  explicit operator bool() const noexcept { return has_value(); }

  /// REQUIRES: has_value(). Without a value the program ends with a message that names the error,
  /// because the caller has a bug.
  T& value() & { return check(), *std::get_if<0>(&storage_); }
  const T& value() const& { return check(), *std::get_if<0>(&storage_); }
  T&& value() && { return check(), std::move(*std::get_if<0>(&storage_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  /// The value, or `other` if there is none.
  template <class U>
  T value_or(U&& other) const& {
    return has_value() ? value() : static_cast<T>(std::forward<U>(other));
  }

  /// The error; a default-constructed E when there is a value.
  [[nodiscard]] E error() const { return has_value() ? E{} : *std::get_if<1>(&storage_); }

 private:
  void check() const {
    if (!has_value()) detail::no_value(*std::get_if<1>(&storage_));
  }
  std::variant<T, E> storage_;
};

/// The result of an awaited transfer: the number of bytes, which is known after an error as well.
class [[nodiscard]] TransferResult : public Result<std::size_t> {
 public:
  TransferResult(std::size_t bytes) noexcept : Result(bytes), bytes_(bytes) {}  // NOLINT: as Result
  /// `bytes`: moved before the error.
  template <class G>
    requires std::is_constructible_v<std::error_code, G>
  TransferResult(unexpected<G> failure, std::size_t bytes = 0)  // NOLINT: implicit, as Result
      : Result(std::move(failure)), bytes_(bytes) {}

  /// The bytes that were moved: all of them, or those before the error.
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

 private:
  std::size_t bytes_ = 0;
};

/// A Result without a value.
template <class E>
class [[nodiscard]] Result<void, E> {
 public:
  using value_type = void;
  using error_type = E;

  Result() = default;  ///< success
  template <class G>
    requires std::is_constructible_v<E, G>
  Result(unexpected<G> failure)  // NOLINT: implicit, as std::expected
      : failed_(true), error_(std::move(failure.error)) {}

  /// Whether there is no error.
  [[nodiscard]] bool has_value() const noexcept { return !failed_; }
  explicit operator bool() const noexcept { return has_value(); }
  /// REQUIRES: has_value(), as Result::value().
  void value() const {
    if (failed_) detail::no_value(error_);
  }
  /// A default-constructed E without an error.
  [[nodiscard]] E error() const { return error_; }

 private:
  bool failed_ = false;
  E error_{};
};

}  // namespace baton
